"""The only user of ansible-runner: runs one playbook and says how it ended.

ansible-runner 2.4 needs care, and all of it is here:

* a fresh private data directory for every run: files of an earlier run would silently win over our arguments;
* ``PATH`` with this interpreter's ``bin`` first, or an unactivated virtual environment does not find Ansible;
* ``ANSIBLE_HOST_KEY_CHECKING`` set, or ansible-runner turns the check off;
* a small ``pexpect_timeout``: it is the granularity of a cancel;
* a cancel callback always, or ansible-runner replaces the signal handlers and never restores them;
* an event handler that never raises (an error there would leave Ansible running) and keeps no event files;
* a cancel kills Ansible only: nothing on the target stops and no ``always`` block runs, so the caller must run the stop
  playbook afterwards;
* ``pexpect.TIMEOUT`` may be raised after the play has ended, so the statistics decide, not the exception;
* the private data directory holds the environment and the extra vars in clear, so only Ansible's output is kept,
  redacted; what a killed controller leaves of one, :func:`discard_private_data` removes.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.exits import TargetError
from controller.inventory import Target, ansible_environment
from controller.paths import REPOSITORY, display, make_private
from controller.playbook_events import EventCollector, Status, TaskFailure, TaskTime
from controller.redaction import redact, redact_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from controller.launch_progress import LaunchProgress

CANCEL_POLL_S = 0.2
BLOCK_BYTES = 1 << 18
PRIVATE_PREFIX = ".ansible-"
OWNER_VARIABLE = "CONTROLLER_SWEEP_DIRECTORY"
"""Set in the environment of every ansible-playbook, so that one whose controller was killed can be found."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlaybookRun:
    """How one playbook ended. ``seconds`` is wall time, Ansible's start included."""

    playbook: str
    status: Status
    return_code: int | None
    seconds: float
    tasks: tuple[TaskTime, ...] = ()
    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    failure: TaskFailure | None = None
    output: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether every task ended well."""
        return self.status == "ok"

    @property
    def sentence(self) -> str:
        """What went wrong, in one sentence; empty when nothing did."""
        if self.ok:
            return ""
        if self.status == "cancelled":
            return f"{self.playbook} was interrupted"
        if self.failure is None:
            where = f"; Ansible's output: {display(self.output)}" if self.output else ""
            return f"{self.playbook} failed before any task ran (exit code {self.return_code}){where}"
        if self.status == "unreachable":
            return f"the target cannot be reached: {self.failure.message}"
        return self.failure.message


class Playbooks:
    """Runs the playbooks of this checkout against one target."""

    def __init__(
        self,
        target: Target,
        *,
        owner: str = "",
        on_child: Callable[[int], None] | None = None,
        on_progress: Callable[[LaunchProgress], None] | None = None,
    ) -> None:
        self._target = target
        self._owner = owner
        self._on_child = on_child
        self._on_progress = on_progress

    def command(self, playbook: str, extra_vars: Mapping[str, Any], tags: Sequence[str] = ()) -> str:
        """Return the command line that does by hand what :meth:`run` does, for copying (run it in the checkout).

        Secrets in the extra vars are replaced: what is printed may be read by others.
        """
        words = ["ansible-playbook", "-i", self._inventory(), "-l", self._target.host, f"playbooks/{playbook}.yml"]
        if tags:
            words += ["--tags", ",".join(tags)]
        if extra_vars:
            words += ["-e", json.dumps(redact(dict(extra_vars)))]
        return shlex.join(words)

    def run(
        self,
        playbook: str,
        *,
        directory: Path,
        extra_vars: Mapping[str, Any] | None = None,
        tags: Sequence[str] = (),
        on_phase: Callable[[str], None] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> PlaybookRun:
        """Run ``playbooks/<playbook>.yml`` and keep Ansible's output in ``directory``.

        Raises:
            TargetError: the playbook is missing or the directory cannot be written. How the play itself ended is in
                the result.
        """
        if not (REPOSITORY / "playbooks" / f"{playbook}.yml").is_file():
            raise TargetError(f"there is no playbook {playbook}.yml in {REPOSITORY / 'playbooks'}.")
        collector = EventCollector(on_phase=on_phase, on_child=self._on_child, on_progress=self._on_progress)
        private = directory / f"{PRIVATE_PREFIX}{playbook}-{time.time_ns()}"
        started = time.monotonic()
        try:
            make_private(private)
            return_code, was_cancelled = self._drive(
                self._arguments(playbook, private, extra_vars or {}, tags), collector, cancelled
            )
            seconds = time.monotonic() - started
            output = _keep_output(private, directory / f"{playbook}.log")
        except OSError as error:
            raise TargetError(f"cannot keep Ansible's files in {directory}: {error.strerror}.") from error
        finally:
            shutil.rmtree(private, ignore_errors=True)
        return PlaybookRun(
            playbook=f"{playbook}.yml",
            status=collector.status(return_code, cancelled=was_cancelled),
            return_code=return_code,
            seconds=seconds,
            tasks=tuple(task.within(seconds) for task in collector.tasks),
            results=dict(collector.results),
            failure=collector.unreachable or collector.failure or _early_failure(collector),
            output=output,
        )

    def _drive(
        self, arguments: Mapping[str, Any], collector: EventCollector, cancelled: Callable[[], bool]
    ) -> tuple[int | None, bool]:
        """Run ansible-runner; return Ansible's return code and whether the run was cancelled."""
        import ansible_runner  # noqa: PLC0415 - a slow import that most commands do not need
        import pexpect  # noqa: PLC0415

        troubles: list[Exception] = []

        def take(event: dict[str, Any]) -> bool:
            try:
                collector.feed(event)
            except Exception as error:  # noqa: BLE001 - raising here would leave Ansible running unattended
                troubles.append(error)
            return False  # the event was read; its file is not needed

        def stop_asked() -> bool:
            return bool(troubles) or cancelled()

        try:
            runner = ansible_runner.run(**arguments, event_handler=take, cancel_callback=stop_asked)
        except pexpect.exceptions.TIMEOUT:
            _log.debug("ansible-runner gave up waiting for the end of a terminal that something still holds")
            return (0 if collector.statistics is not None else None), False
        if troubles:
            raise troubles[0]
        return runner.rc, runner.status == "canceled"

    def _arguments(
        self, playbook: str, private: Path, extra_vars: Mapping[str, Any], tags: Sequence[str]
    ) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "private_data_dir": str(private),
            "project_dir": str(REPOSITORY),
            "playbook": f"playbooks/{playbook}.yml",
            "inventory": str(self._target.inventory),
            "limit": self._target.host,
            "extravars": dict(extra_vars),
            "envvars": self._environment(),
            "settings": {"pexpect_timeout": CANCEL_POLL_S, "suppress_ansible_output": True},
            "ident": "run",
            "quiet": True,
        }
        return arguments | ({"tags": ",".join(tags)} if tags else {})

    def _environment(self) -> dict[str, str]:
        # What is inherited anyway need not be written to a file.
        environment = {name: value for name, value in ansible_environment().items() if os.environ.get(name) != value}
        environment |= {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0", "PYTHONUNBUFFERED": "1"}
        if self._owner:
            environment[OWNER_VARIABLE] = self._owner
        return environment

    def _inventory(self) -> str:
        try:
            return str(self._target.inventory.relative_to(REPOSITORY))
        except ValueError:
            return str(self._target.inventory)


def _early_failure(collector: EventCollector) -> TaskFailure | None:
    """Make a failure of what Ansible printed before the first task (a syntax error, an unknown role)."""
    if not collector.error_text:
        return None
    text = " ".join(collector.error_text[0].replace("[ERROR]:", "").replace("ERROR!", "").split())
    return TaskFailure("", "", text[:500], {})


def _keep_output(private: Path, destination: Path) -> Path | None:
    """Write Ansible's own output, redacted, to ``destination`` (0600); a repeated run gets a number of its own."""
    source = private / "artifacts" / "run" / "stdout"
    if not source.is_file():
        return None
    number = 1
    target = destination
    while target.exists():
        number += 1
        target = destination.with_name(f"{destination.stem}-{number}{destination.suffix}")
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with source.open("rb") as ansible, os.fdopen(descriptor, "wb") as kept:
        kept.writelines(redact_stream(iter(lambda: ansible.read(BLOCK_BYTES), b"")))
    return target


def discard_private_data(directory: Path) -> int:
    """Remove what a controller that was killed left of ansible-runner's data below ``directory``; return how many.

    No playbook may be running for that directory any more.
    """
    left = [path for path in directory.rglob(f"{PRIVATE_PREFIX}*") if path.is_dir() and not path.is_symlink()]
    for path in left:
        shutil.rmtree(path, ignore_errors=True)
    return len(left)
