"""Why a cell failed: a stable class, a sentence, and what the module on the target found out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.redaction import redact

if TYPE_CHECKING:
    from controller.load.records import RequestRecord
    from controller.playbooks import PlaybookRun

LOG_TAIL_LINES = 80


@dataclass(frozen=True, slots=True)
class CellFailure:
    """One failed cell. ``fatal`` means that the next cell would fail the same way for sure."""

    kind: str
    sentence: str
    details: Mapping[str, Any] = field(default_factory=dict)
    fatal: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the failure for the journal."""
        return {"class": self.kind, "sentence": self.sentence, **self.details}


def from_playbook(played: PlaybookRun) -> CellFailure:
    """Read the failure out of a playbook that did not bring the server up."""
    if played.status == "unreachable":
        return CellFailure("unreachable", played.sentence, fatal=True)
    found = found_by_module(played)
    if found is not None:
        details = {name: redact(found.get(name)) for name in ("phase", "cause", "remedy", "exit_status", "survivors")}
        details["log_tail"] = list(found.get("log_tail") or [])[-LOG_TAIL_LINES:]
        return CellFailure(_class_of(found), _one_line(found, played), details)
    if played.ok:
        return CellFailure("not_ready", "the playbook ended without a ready server")
    task = played.failure.task if played.failure else ""
    return CellFailure("ansible", played.sentence, {"task": task}, fatal=not played.tasks)


def _class_of(found: Mapping[str, Any]) -> str:
    """Return the class that the module gave; a server that serves other settings has a class of its own here."""
    kind = str(found.get("class") or "unknown")
    return "flags-differ" if kind == "spec-args" and found.get("phase") == "serving" else kind


def found_by_module(played: PlaybookRun) -> Mapping[str, Any] | None:
    """Return the ``failure`` that a module on the target reported: the failed task's, or the health task's."""
    candidates = (played.failure.result if played.failure else {}, played.results.get("sglang_health", {}))
    return next((found for result in candidates if isinstance(found := result.get("failure"), Mapping)), None)


def from_requests(records: Sequence[RequestRecord]) -> CellFailure | None:
    """Return a failure when not one request of a run completed."""
    if not records or any(record.error is None for record in records):
        return None
    return CellFailure("no_completed_request", f"none of {len(records)} requests completed: {records[0].error}")


def _one_line(found: Mapping[str, Any], played: PlaybookRun) -> str:
    """Return cause and remedy as the sentence of the failure; the module's own message when it names no cause."""
    cause, remedy = str(found.get("cause") or "").strip(), str(found.get("remedy") or "").strip()
    if not cause:
        return played.sentence
    return " ".join(f"{cause.rstrip('.')}. {remedy[:1].upper()}{remedy[1:]}".split()).strip()
