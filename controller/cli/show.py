"""Prints the result of a sweep: for people as text, for programs as one JSON document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from controller.exits import Exit
from controller.paths import display
from controller.report.text import render, report_json
from controller.sweep.results import analyse, read_sweep
from controller.sweep.state import CellState, SweepState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from controller.plan import Plan

SCHEMA = 1


def show_sweep(directory: Path, *, as_json: bool, sentences: Sequence[str] = (), exit_code: int = Exit.OK) -> None:
    """Print what the journal in ``directory`` says, then the sentences about how the command ended.

    Raises:
        InputError: there is no sweep in the directory.
        JournalError: its journal is damaged.
    """
    plan, state = read_sweep(directory)
    analysis = analyse(plan, state) if state.has_results else None
    if as_json:
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "sweep_id": plan.sweep_id,
            "directory": str(directory.resolve()),
            "simulated": plan.simulated,
            "exit_code": int(exit_code),
            "messages": list(sentences),
            "aa_noise": state.aa_noise,
            "cells": _cells(plan, state),
            "analysis": report_json(analysis) if analysis else None,
        }
        click.echo(json.dumps(document, indent=2))
        return
    console = Console()
    if analysis is not None:
        render(analysis, console)
    errors = Console(stderr=True)
    for cell in _cells(plan, state):
        if cell["state"] == CellState.FAILED.value:
            failure = cell["failure"] or {}
            errors.out(
                f"cell {cell['cell']} failed ({failure.get('class')}): {failure.get('sentence')}", highlight=False
            )
    for sentence in sentences:
        errors.out(sentence, highlight=False)
    if analysis is not None:
        errors.out(f"kept in {display(directory)}", highlight=False)


def _cells(plan: Plan, state: SweepState) -> list[dict[str, Any]]:
    rows = []
    for cell in plan.cells:
        history = state.cell(cell.cell_id)
        row = {"cell": cell.cell_id, "block": cell.block, "order": cell.order, "arm": cell.arm}
        rows.append(
            row
            | {
                "state": history.state.value,
                "attempt": history.attempt,
                "failure": history.failure,
                "reused": cell.cell_id in state.reused,
                "confirmation": cell.confirmation,
                "accepted_changes": history.generation,
            }
        )
    return rows
