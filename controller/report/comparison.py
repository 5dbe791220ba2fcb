"""Whether two sweeps may be compared, what else differs between them, and the comparison in words."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from controller.analysis.result import Verdict
from controller.report.facts import as_text
from controller.report.numbers import change_interval, times
from controller.report.sentences import PARTS, REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.analysis.compare import ArmChange
    from controller.report.facts import SweepFacts

ABSENT = "not there"


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """Something that is not the same in both sweeps, in words."""

    what: str
    first: str
    second: str

    @property
    def sentence(self) -> str:
        """Return ``seed: 1 in A, 2 in B``."""
        return f"{self.what}: {self.first or 'given'} in A, {self.second or 'given'} in B"


def workload_differences(first: SweepFacts, second: SweepFacts) -> list[Difference]:
    """Return what makes figures of two sweeps incomparable: prompts, lengths, load, simulated or real."""
    found = differences(_workload(first), _workload(second))
    if first.plan.workload_fingerprint != second.plan.workload_fingerprint and not found:
        found.append(Difference("prompts", first.plan.workload_fingerprint[:12], second.plan.workload_fingerprint[:12]))
    if first.simulated != second.simulated:
        words = {True: "simulated", False: "real"}
        found.append(Difference("figures", words[first.simulated], words[second.simulated]))
    return found


def other_differences(first: SweepFacts, second: SweepFacts) -> list[Difference]:
    """Return what else differs: versions, flags, environment, identity, design. It is told, never refused."""
    found = differences(_setting(first), _setting(second))
    ours, theirs = _commands(first), _commands(second)
    arms: dict[Difference, list[str]] = {}  # a flag that changed in several arms is told once
    for arm in ours:
        for item in differences(ours[arm], theirs.get(arm, ours[arm])):
            arms.setdefault(item, []).append(arm)
    return found + [
        dataclasses.replace(item, what=f"command of {', '.join(names)}, {item.what}") for item, names in arms.items()
    ]


def differences(first: Mapping[str, Any], second: Mapping[str, Any], place: str = "") -> list[Difference]:
    """Return the leaves in which two nested mappings differ, in the order of the first."""
    found: list[Difference] = []
    for key in dict.fromkeys([*first, *second]):
        name = f"{place} {key}".strip()
        ours, theirs = first.get(key), second.get(key)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            found += differences(ours, theirs, name)
        elif ours != theirs or (key in first) != (key in second):
            found.append(
                Difference(
                    name,
                    as_text(ours) if key in first else ABSENT,
                    as_text(theirs) if key in second else ABSENT,
                )
            )
    return found


def _workload(facts: SweepFacts) -> dict[str, Any]:
    return dict(facts.plan.workload)


def _setting(facts: SweepFacts) -> dict[str, Any]:
    """Return everything that may explain a difference, the workload aside."""
    plan = facts.plan
    setting: dict[str, Any] = {
        "target": facts.header.get("target"),
        "blocks": plan.blocks,
        "max running requests": plan.max_running_requests,
        "largest batch with a CUDA graph": plan.cuda_graph_max_bs,
        "version of": dict(facts.header.get("versions") or {}),
        "identity": dict(facts.identity),
        "arm": {arm.name: arm.as_json() for arm in plan.arms},
    }
    for cell in facts.cells:
        if cell.server:
            setting.setdefault("SGLang", cell.server.get("version"))
            setting.setdefault("model served", cell.server.get("served_model_name"))
    return setting


def _commands(facts: SweepFacts) -> dict[str, dict[str, Any]]:
    """Return the first command line of each arm as {flag: values}."""
    found: dict[str, dict[str, Any]] = {}
    for cell in facts.cells:
        if cell.command:
            found.setdefault(cell.arm, _flags(cell.command))
    return found


def _flags(command: Sequence[str]) -> dict[str, Any]:
    """Return a command line as {flag: values}; the port is left out, because it says nothing about speed."""
    flags: dict[str, Any] = {}
    current = "program"
    for word in command:
        if word.startswith("--"):
            current, _, value = word.partition("=")
            flags[current] = value
        else:
            flags[current] = f"{flags.get(current, '')} {word}".strip()
    flags.pop("--port", None)
    return flags


def change_sentence(item: ArmChange, margin: float) -> str:
    """Return what happened to an arm, and through which part."""
    place = f"{item.arm}, concurrency {item.concurrency}"
    if item.verdict is Verdict.INVALID:
        return f"{place} is INVALID: a fault in one of the sweeps makes its figures meaningless (see its report)."
    if item.verdict is Verdict.FAILED or item.speed is None:
        return f"{place} FAILED: one of the sweeps has no measurement of it."
    counts = f"{item.launches[0]} launches in A, {times(item.launches[1], 'launch')} in B"
    gain = f"{change_interval(item.speed)} from A to B ({counts})"
    limit = f"{margin * 100:.1f} %"
    words = {
        Verdict.PAYS: f"PAYS: B is faster, {gain}, all of it above the margin of {limit}.",
        Verdict.HURTS: f"HURTS: B is slower, {gain}, all of it below the margin of -{limit}.",
        Verdict.EQUAL: f"is EQUAL: {gain}, within the margin of {limit}.",
        Verdict.UNCONFIRMED: f"is UNCONFIRMED: {gain}; one launch on a side says little.",
        Verdict.UNDECIDED: f"is UNDECIDED: {gain}; {REASONS.get(item.reason, item.reason)}.",
    }
    return f"{place} {words[item.verdict]}{_split(item, margin)}"


def _split(item: ArmChange, margin: float) -> str:
    """Return the parts of a change."""
    if item.cycle is None:
        return ""
    if item.length is None:
        return f" The time of a decode step changed by {change_interval(item.cycle)}."
    parts = f" Acceptance length {change_interval(item.length)}, cycle time {change_interval(item.cycle)}"
    moved = max(abs(part.value - 1) for part in (item.length, item.cycle)) >= margin
    if item.verdict is Verdict.EQUAL or item.larger_part is None or not moved:
        return f"{parts}."
    return f"{parts}; the larger part is the {PARTS[item.larger_part]}."


def finite(value: object) -> Any:  # noqa: ANN401  # JSON in, JSON out
    """Return a copy in which numbers that JSON cannot hold are None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
