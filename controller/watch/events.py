"""What can happen while somebody watches. Threads make these; one loop takes them in, so nothing needs a lock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.watch.reading import Reading, ServerFacts


@dataclass(frozen=True, slots=True)
class ServerAnswered:
    """The server answered; ``note`` says what it does not say (no metrics)."""

    reading: Reading
    note: str = ""


@dataclass(frozen=True, slots=True)
class ServerSilent:
    """The server did not answer, in one sentence."""

    sentence: str


@dataclass(frozen=True, slots=True)
class FactsRead:
    """What the server says about itself."""

    facts: ServerFacts


@dataclass(frozen=True, slots=True)
class TargetAsked:
    """Ansible has looked. ``health`` is the result of the health check; ``sentence`` says why there is none."""

    health: Mapping[str, Any]
    access: Access | None = None
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class LogGrew:
    """More text of the log; ``fresh`` when it begins anew."""

    text: str
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: MiB, watts, degrees Celsius; None where nvidia-smi gives no number."""

    index: int
    used_mib: float | None
    total_mib: float | None
    power_w: float | None
    temperature_c: float | None


@dataclass(frozen=True, slots=True)
class GpusSeen:
    """One sample of all GPUs."""

    gpus: tuple[Gpu, ...]


@dataclass(frozen=True, slots=True)
class TargetNote:
    """Why something of the target is not shown; an empty sentence takes it back. ``about``: gpu, log or connection."""

    about: str
    sentence: str


@dataclass(frozen=True, slots=True)
class KeyPressed:
    """A key of the operator."""

    key: str


@dataclass(frozen=True, slots=True)
class Access:
    """How the target is reached and what is followed there, as Ansible's variables say it.

    Attributes:
        connection: ``local``, ``ssh``, or another plugin of Ansible.
        arguments: options for ssh, in front of the address.
        become: run as root through sudo.
    """

    url: str
    log_file: str
    nvidia_smi: str = ""
    connection: str = "ssh"
    address: str = ""
    user: str = ""
    port: str = ""
    key_file: str = ""
    arguments: tuple[str, ...] = field(default=())
    python: str = "python3"
    become: bool = False


Event = ServerAnswered | ServerSilent | FactsRead | TargetAsked | LogGrew | GpusSeen | TargetNote | KeyPressed
