"""Hosts are shown when there are several, and only then."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from controller.report.facts import collect
from controller.report.files import write_report
from controller.report.formats import FORMATS
from controller.report.sentences import sweep_sentences
from tests.unit.controller.report.sample import BASELINE, SLOWER, write_sweep

if TYPE_CHECKING:
    from pathlib import Path


def fleet_sweep(directory: Path) -> Path:
    """A sweep whose blocks were done by two hosts in turn; a third was lost, and one of its launches does not count."""
    write_sweep(directory, {"baseline": BASELINE * 2, "steps-2": SLOWER * 2}, seed=3)
    path = directory / "journal.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        if "cell" in record:
            record["host"] = "gpu1" if int(record["cell"][1:3]) % 2 else "gpu2"
    records[0]["plan"]["hosts"] = ["gpu1", "gpu2", "gpu3"]
    lost: list[dict[str, object]] = [
        {"kind": "cell", "cell": "b01-baseline", "block": 1, "attempt": 1, "state": state, "host": "gpu3"}
        for state in ("launching", "done")
    ]
    lost.append({"kind": "host", "host": "gpu3", "state": "lost", "reason": "no route to host"})
    lost.append({"kind": "block", "block": 1, "host": "gpu1", "state": "taken", "dropped": ["b01-baseline"]})
    path.write_text("".join(json.dumps({"at": 1.0, **record}) + "\n" for record in [records[0], *lost, *records[1:]]))
    return directory


def test_hosts_are_in_tables_sentences_and_figure(tmp_path: Path) -> None:
    directory = fleet_sweep(tmp_path / "s")
    facts = collect(directory)
    assert facts.analysis is not None
    text = "\n".join(sweep_sentences(facts.analysis))
    assert "Speed of the hosts against their mean: gpu1 " in text
    assert "steps-2 by host: gpu1 " in text
    assert "Hosts were lost on the way: gpu3 (no route to host). 1 of their launches belong to blocks" in text
    write_report(facts, directory, FORMATS)
    assert "order,cell,block,host,arm" in (directory / "cells.csv").read_text()
    markdown = (directory / "report.md").read_text()
    assert "| launch | cell | block | host | arm |" in markdown
    page = (directory / "report.html").read_text()
    assert ">host<" in page
    assert "tok/s on gpu1" in page


def test_one_host_is_not_shown(tmp_path: Path) -> None:
    directory = write_sweep(tmp_path / "s", {"baseline": BASELINE, "steps-2": SLOWER})
    facts = collect(directory)
    assert facts.analysis is not None
    assert "host" not in "\n".join(sweep_sentences(facts.analysis)).lower()
    write_report(facts, directory, ("csv",))
    assert "host" not in (directory / "cells.csv").read_text()
