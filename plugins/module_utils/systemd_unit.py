"""Ask systemd about a unit."""

from __future__ import annotations

from typing import Dict, Sequence

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_record import parse_systemctl_show
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_command import (
    CommandNotFoundError,
    CommandTimeoutError,
    run_bounded,
)

SYSTEMCTL_TIMEOUT_S = 20.0


class UnitError(Exception):
    """systemd cannot be asked about a unit; the message is one sentence."""


def show_unit(unit: str, properties: Sequence[str], systemctl: str) -> Dict[str, str]:
    """Return properties of a unit by name.

    Raises:
        UnitError: systemctl is missing, hangs or refuses.
    """
    try:
        answer = run_bounded([systemctl, "show", unit, f"--property={','.join(properties)}"], SYSTEMCTL_TIMEOUT_S)
    except (CommandNotFoundError, CommandTimeoutError) as error:
        raise UnitError(f"systemctl cannot be asked about {unit} ({error}); is this a systemd machine?") from error
    if answer.returncode != 0:
        raise UnitError(f"systemctl show {unit} fails: {answer.words()}")
    return parse_systemctl_show(answer.stdout)
