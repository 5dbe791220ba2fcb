"""Ask Ansible: once at the start, and again when the server went or came. About two seconds of CPU time each."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from controller.exits import TargetError
from controller.sweep.look import ONLY_LOOK
from controller.watch.events import Access, TargetAsked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from controller.sweep.ports import PlaybookRunner

PLAYBOOK = "watch"


def ask(playbooks: PlaybookRunner, directory: Path, *, cancelled: Callable[[], bool] = lambda: False) -> TargetAsked:
    """Run the playbook until it says where the server stands; nothing is waited for and nothing is changed."""
    seen: list[str] = []
    try:
        played = playbooks.run(
            PLAYBOOK,
            directory=directory,
            extra_vars=ONLY_LOOK,
            on_phase=seen.append,
            cancelled=lambda: bool(seen) or cancelled(),
        )
    except TargetError as error:
        return TargetAsked({}, sentence=error.sentence)
    health = played.results.get("sglang_health", {})
    said = played.results.get("debug", {}).get("msg")
    access = read_access(said) if isinstance(said, dict) else None
    return TargetAsked(health, access, "" if health else played.sentence)


def read_access(said: Mapping[str, Any]) -> Access:
    """Return what ``playbooks/watch.yml`` printed, with what Ansible leaves open filled in."""
    python = str(said.get("python") or "")
    return Access(
        url=str(said.get("url") or ""),
        log_file=str(said.get("log_file") or ""),
        nvidia_smi=str(said.get("nvidia_smi") or ""),
        connection=str(said.get("connection") or "ssh").rpartition(".")[2].replace("smart", "ssh"),
        address=str(said.get("address") or ""),
        user=str(said.get("user") or ""),
        port=str(said.get("port") or ""),
        key_file=str(said.get("key_file") or ""),
        arguments=tuple(shlex.split(str(said.get("ssh_arguments") or ""))),
        python=python if "/" in python else "python3",  # "auto_silent" is a word of Ansible's, no program
        become=bool(said.get("become")),
    )
