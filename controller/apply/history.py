"""The history of a node's deployments: an append-only journal that is written before anything is touched.

A deployment is a record ``applying`` with what was there before and what comes, then records of its steps, then one of
its end. A deployment without an end whose process is gone was cut off: the next command says so and names the way back.
"""

from __future__ import annotations

import getpass
import os
import platform
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.atomic_file import sync_directory

from controller.exits import InputError, JournalError
from controller.journal import Journal, Record, read_journal
from controller.lock import node_key
from controller.paths import make_private, state_directory
from controller.process import is_running
from controller.redaction import redact, redact_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from controller.inventory import Target

FILE = "history.jsonl"
FIRST = "0, before the first deployment"
ENDS = ("applied", "rolled_back", "failed")
STEPS = {
    "noted": "before the settings were written",
    "written": "after the settings were written, before the server was touched for sure",
    "launching": "while the server was launched",
    "serving": "while the new server served unproven",
    "rolling_back": "while it was being taken back",
}
"""How far a deployment came, and what that means when nothing came after it."""


@dataclass(slots=True)
class Deployment:
    """One deployment, folded from its records.

    Attributes:
        number: Counted from 1 for each node; what ``rollback`` takes.
        action: ``apply`` or ``rollback``.
        at: When it began, epoch seconds.
        who: User and machine.
        before: What :class:`~controller.apply.host_vars.HostVars` held before; None for nothing.
        after: What it was to hold.
        settings: The variables of ``after``.
        file: The file they were written to.
        step: How far it came (a key of ``STEPS``).
        outcome: One of ``ENDS``; None while it runs, and for ever when it was cut off.
        reason: Why it was taken back or failed, in one sentence.
        canary: Figures of the canary, one dictionary for each concurrency.
    """

    number: int
    action: str
    at: float
    who: str
    target: str
    inventory: str
    before: str | None
    after: str | None
    settings: Mapping[str, Any]
    file: str
    pid: int
    start_ticks: int
    boot_id: str = ""
    sweep_id: str = ""
    sweep_directory: str = ""
    arm: str = ""
    verdict: str = ""
    forced: bool = False
    simulated: bool = False
    destination: str = ""
    step: str = "noted"
    outcome: str | None = None
    reason: str = ""
    ended: float | None = None
    canary: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def cut_off(self) -> bool:
        """Whether it has no end and nobody works on it any more."""
        return self.outcome is None and not is_running(self.pid, self.start_ticks, self.boot_id)

    @property
    def state(self) -> str:
        """The outcome, ``running`` or ``unfinished``."""
        return self.outcome or ("unfinished" if self.cut_off else "running")

    @property
    def title(self) -> str:
        """What it deployed, in a few words."""
        if self.action == "rollback":
            return f"deployment {self.number} (back to {self.destination})"
        return f"deployment {self.number} ({self.arm} of sweep {self.sweep_id})"

    @property
    def cut_off_sentence(self) -> str:
        """What the operator must know and do."""
        return (
            f"{self.title} on {self.target} was cut off {STEPS[self.step]}: the old server may run, the new one, or "
            "none. Take it back with"
        )

    @property
    def good(self) -> str | None:
        """The settings to go back to when it did not end well: a rollback knows them, an apply found them."""
        return self.after if self.action == "rollback" else self.before

    def as_json(self) -> dict[str, Any]:
        """Return everything but secrets, for ``history --json``."""
        names = [name for name in self.__slots__ if name not in ("pid", "start_ticks", "boot_id")]
        shown = {name: getattr(self, name) for name in names} | {"state": self.state}
        texts = {name: redact_text(text) for name in ("before", "after") if (text := shown[name]) is not None}
        return shown | texts | {"settings": redact(dict(self.settings))}


class History:
    """The deployments of one node, in the user's state directory."""

    def __init__(self, target: Target) -> None:
        self.directory = state_directory() / "deployments" / node_key(target.lock_identity)
        self.path = self.directory / FILE

    def deployments(self) -> list[Deployment]:
        """Return every deployment, oldest first; none when there is no history.

        Raises:
            JournalError: it is damaged or cannot be read.
        """
        if not self.path.exists():
            return []
        return fold(read_journal(self.path).records)

    def cut_off(self) -> Deployment | None:
        """Return the newest deployment when it was cut off."""
        known = self.deployments()
        return known[-1] if known and known[-1].cut_off else None

    def open(self) -> Journal:
        """Open the history for appending.

        Raises:
            JournalError: it cannot be written; nothing was touched.
        """
        try:
            make_private(self.directory)
        except OSError as error:
            raise JournalError(f"cannot make {self.directory}: {error.strerror}; nothing was touched.") from error
        journal = Journal(self.path)
        for folder in (self.directory, self.directory.parent):
            sync_directory(folder)  # a new file is there after a power cut, too
        return journal

    def folder(self, number: int) -> Path:
        """Return where Ansible's output of a deployment is kept."""
        return self.directory / str(number)


def fold(records: Iterable[Record]) -> list[Deployment]:
    """Fold the records of a history, oldest first. Kinds and fields that are not known are skipped.

    Raises:
        JournalError: a deployment lacks what makes it one.
    """
    found: dict[int, Deployment] = {}
    for record in records:
        kind, number = record["kind"], record.get("number")
        if kind == "applying":
            try:
                values = {name: value for name, value in record.items() if name in Deployment.__slots__}
                one = Deployment(**values)
            except TypeError as error:
                raise JournalError(f"the history has a deployment that cannot be read ({error}).") from error
            found[one.number] = one
        elif isinstance(number, int) and number in found:
            _take(found[number], record)
    return list(found.values())


def _take(one: Deployment, record: Record) -> None:
    kind = record["kind"]
    if kind == "step":
        one.step = str(record["step"])
    elif kind == "canary":
        one.canary = list(record["levels"])
    elif kind in ENDS:
        one.outcome, one.reason, one.ended = kind, str(record.get("reason", "")), record["at"]


@dataclass(frozen=True, slots=True)
class Destination:
    """Settings to go back to, and what they are called."""

    content: str | None
    name: str
    settings: Mapping[str, Any]


def destination(known: list[Deployment], word: str) -> Destination:
    """Return where ``rollback WORD`` leads.

    ``last`` leads to the last good settings: what a deployment found that was cut off or failed; else the newest ones
    that served well and are not those of now. A number leads to what that deployment brought, 0 to what was there
    before the first.

    Raises:
        InputError: there is no such deployment, or none at all.
    """
    if not known:
        raise InputError("nothing was deployed on this node by apply yet, so there is nothing to go back to.")
    if word == "last":
        return _last_good(known)
    if not word.isdecimal() or not 0 <= int(word) <= known[-1].number:
        raise InputError(f"rollback {word}: give last, or a number from 0 to {known[-1].number} (history lists them).")
    if word == "0":
        return _unnumbered(known, known[0].before)
    return _to(next(one for one in known if one.number == int(word)))


def _last_good(known: list[Deployment]) -> Destination:
    """Return what served well before, newest first; two deployments of equal settings are one here."""
    newest = next((one for one in reversed(known) if one.outcome != "rolled_back"), None)
    served = [one for one in reversed(known) if one.outcome == "applied"]
    if newest is not None and newest.outcome != "applied":
        return next((_to(one) for one in served if one.after == newest.good), _unnumbered(known, newest.good))
    if newest is None:
        raise InputError("nothing that was deployed on this node is in use, so there is nothing to go back to.")
    before = next((_to(one) for one in served if one.settings != newest.settings), None)
    if before is None and newest.settings == {}:
        raise InputError("no other settings have served on this node yet, so there is nothing to go back to.")
    return before or _unnumbered(known, known[0].before)


def _to(one: Deployment) -> Destination:
    return Destination(one.after, str(one.number), one.settings)


def _unnumbered(known: list[Deployment], content: str | None) -> Destination:
    """Return a content that no deployment brought."""
    return Destination(content, FIRST if content == known[0].before else "what apply found and did not write", {})


def whoever() -> str:
    """Return user and machine, the user behind sudo first."""
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container without a passwd entry
        user = f"uid {os.getuid()}"
    return f"{user}@{platform.node()}"


def date(moment: float) -> str:
    """Return epoch seconds as an operator reads them."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
