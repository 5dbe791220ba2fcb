"""The state of a sweep, folded from its journal. Pure: the same records always give the same state."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from controller.exits import JournalError
from controller.plan import Cell
from controller.sweep.configuration import Configuration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controller.plan import Plan


class CellState(StrEnum):
    """Where a cell stands."""

    PLANNED = "planned"
    LAUNCHING = "launching"
    READY = "ready"
    MEASURING = "measuring"
    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"

    @property
    def unfinished(self) -> bool:
        """Whether the controller was still at work on the cell when it last wrote."""
        return self in (CellState.LAUNCHING, CellState.READY, CellState.MEASURING)

    @property
    def has_result(self) -> bool:
        """Whether the launch came to a result, good or bad; an abandoned one says nothing."""
        return self in (CellState.DONE, CellState.FAILED)


@dataclass(slots=True)
class CellHistory:
    """What the journal says about one cell: the latest attempt, and how often it was finished."""

    state: CellState = CellState.PLANNED
    attempt: int = 0
    host: str = ""
    failure: Mapping[str, Any] | None = None
    launch: Mapping[str, Any] | None = None
    requests: list[Mapping[str, Any]] = field(default_factory=list)
    times_done: int = 0
    seconds: float = 0.0
    server: Mapping[str, Any] | None = None
    url: str | None = None
    gpu: Mapping[str, Any] | None = None
    """What the GPUs did while the launch served (module launch_conditions)."""
    foreign: list[Mapping[str, Any]] = field(default_factory=list)
    """Processes of others on the GPUs right before or after the launch."""
    generation: int = 0
    """How many changes of the configuration had been accepted when it was launched."""


@dataclass(slots=True)
class HostState:
    """What the journal says about one host of the sweep."""

    last_launch: Mapping[str, Any] | None = None
    last_launch_cell: str = ""
    last_launch_attempt: int = 0
    stopped: bool = True
    configuration: Configuration = field(default_factory=Configuration)
    measured_arms: set[str] = field(default_factory=set)
    """Arms of which a launch was measured on the host."""
    lost: str = ""
    """Why the host took no more blocks; empty while it does."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """A measured launch that does not count: its host was lost before the block was complete."""

    cell_id: str
    attempt: int
    host: str


@dataclass(slots=True)
class SweepState:
    """The fold of a whole journal."""

    header: Mapping[str, Any] | None = None
    cells: dict[str, CellHistory] = field(default_factory=dict)
    ended: str | None = None
    hosts: dict[str, HostState] = field(default_factory=dict)
    servers: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """By cell, the whole record of the server that its latest attempt brought up; oldest first."""
    superseded: list[Superseded] = field(default_factory=list)
    """Launches of blocks that another host did anew; their records stay in the journal."""
    finished_blocks: dict[int, str] = field(default_factory=dict)
    """Host of each block that a sweep over a fleet finished."""
    host_differences: dict[str, list[str]] = field(default_factory=dict)
    """How hosts differ that were mixed knowingly."""
    accepted: list[Mapping[str, Any]] = field(default_factory=list)
    """Changes of the configuration that the operator took into the sweep, oldest first."""
    added: list[Cell] = field(default_factory=list)
    """Launches that the stop rule or the confirmation added to the plan."""
    work_s: float = 0.0
    """Seconds spent on cells, all attempts together."""
    aa_noise: float | None = None
    reused: set[str] = field(default_factory=set)
    playbook_seconds: list[Mapping[str, Any]] = field(default_factory=list)

    def cell(self, cell_id: str) -> CellHistory:
        """Return the history of a cell, an empty one when the journal does not name it."""
        return self.cells.setdefault(cell_id, CellHistory())

    def host(self, name: str) -> HostState:
        """Return the state of a host, an empty one when the journal does not name it."""
        return self.hosts.setdefault(name, HostState())

    @property
    def stopped(self) -> bool:
        """Whether no host may still run a server of the sweep."""
        return all(host.stopped for host in self.hosts.values())

    @property
    def has_results(self) -> bool:
        """Whether there is anything to analyse: a cell that was measured, or one that failed."""
        return any(history.state.has_result for history in self.cells.values())

    @property
    def configuration(self) -> Configuration:
        """What the launches had in common, of the first host."""
        return next(iter(self.hosts.values()), HostState()).configuration

    @property
    def measured_hosts(self) -> list[str]:
        """The hosts whose launches count, in the order in which they first did."""
        return list(dict.fromkeys(one.host for one in self.cells.values() if one.state is CellState.DONE))

    def host_of(self, record: Mapping[str, Any]) -> str:
        """Return the host of a record; journals of earlier versions had only one host and did not name it."""
        if "host" in record:
            return str(record["host"])
        return str(self.header["plan"].get("limit", "")) if self.header and "plan" in self.header else ""

    def pending(self, plan: Plan) -> list[Cell]:
        """Return the cells that must still be launched: everything not done, in the order of the plan."""
        return [cell for cell in plan.cells if self.cell(cell.cell_id).state is not CellState.DONE]

    def unfinished(self) -> list[str]:
        """Return the cells on which a controller died."""
        return [cell_id for cell_id, history in self.cells.items() if history.state.unfinished]


def fold(records: Iterable[Mapping[str, Any]], source: str = "the journal") -> SweepState:
    """Fold journal records, oldest first. Records of a kind that is not known are skipped.

    Args:
        records: Of one sweep.
        source: What an error calls them.

    Raises:
        JournalError: a record lacks what its kind has.
    """
    state = SweepState()
    for number, record in enumerate(records, start=1):
        handler = _HANDLERS.get(str(record.get("kind")))
        try:
            if handler:
                handler(state, record)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise JournalError(
                f"record {number} of {source} ({record.get('kind')}) cannot be read: {error!r}. Another version wrote "
                "it, or somebody changed it; use that version, or move the file away to start anew."
            ) from error
    return state


def _sweep(state: SweepState, record: Mapping[str, Any]) -> None:
    state.header = state.header or record


def _cell(state: SweepState, record: Mapping[str, Any]) -> None:
    history = state.cell(record["cell"])
    reached = CellState(record["state"])
    if reached is not CellState.LAUNCHING and "host" in record and history.host not in ("", record["host"]):
        return  # another host does the block anew meanwhile
    history.state = reached
    if history.state is CellState.LAUNCHING:
        history.attempt, history.host = record["attempt"], state.host_of(record)
        history.failure, history.launch, history.server, history.requests = None, None, None, []
        history.gpu, history.foreign, history.generation = None, [], len(state.accepted)
        state.host(history.host).stopped, state.ended = False, None
        state.servers.pop(record["cell"], None)
    elif history.state is CellState.FAILED:
        history.failure = record.get("failure")
    elif history.state is CellState.DONE:
        history.times_done += 1
        history.seconds = float(record.get("s", 0.0))
        if record.get("arm"):
            state.host(history.host).measured_arms.add(record["arm"])
    state.work_s += float(record.get("s", 0.0))


def _mapping(record: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    """Return a part of a record that is an object, or is missing."""
    part = record.get(key)
    if part is not None and not isinstance(part, dict):
        message = f"{key} is {part!r}; expected an object"
        raise TypeError(message)
    return part


def _server(state: SweepState, record: Mapping[str, Any]) -> None:
    history = state.cell(record["cell"])
    history.launch, history.server = _mapping(record, "launch"), _mapping(record, "info")
    history.url = record.get("url")
    state.servers[record["cell"]] = record
    host = state.host(state.host_of(record))
    host.last_launch, host.last_launch_cell = history.launch, record["cell"]
    host.last_launch_attempt = history.attempt
    if record.get("arm"):
        host.configuration.learn(record["arm"], history.launch or {}, record.get("identity") or {})


def _run(state: SweepState, record: Mapping[str, Any]) -> None:
    history = state.cell(record["cell"])
    if record["attempt"] == history.attempt:
        history.requests += record["requests"]


def _resumed(state: SweepState, record: Mapping[str, Any]) -> None:
    state.reused.update(record.get("reused", ()))


def _extended(state: SweepState, record: Mapping[str, Any]) -> None:
    state.added += [Cell(**cell) for cell in record["cells"]]
    state.ended = None


def _accepted(state: SweepState, record: Mapping[str, Any]) -> None:
    state.accepted.append(record)
    configuration = state.host(state.host_of(record)).configuration
    configuration.accept(record.get("arm"), record.get("launch") or {}, record.get("identity") or {})


def _conditions(state: SweepState, record: Mapping[str, Any]) -> None:
    for history in state.cells.values():
        if history.launch and history.launch.get("launch_id") == record.get("launch_id"):
            history.gpu = _mapping(record, "gpu")


def _foreign(state: SweepState, record: Mapping[str, Any]) -> None:
    history = state.cell(record["cell"])
    if record["attempt"] == history.attempt:
        history.foreign += record["processes"]


def _aa_noise(state: SweepState, record: Mapping[str, Any]) -> None:
    state.aa_noise = record.get("noise")


def _playbook(state: SweepState, record: Mapping[str, Any]) -> None:
    state.playbook_seconds.append(record)


def _stopped(state: SweepState, record: Mapping[str, Any]) -> None:
    state.host(state.host_of(record)).stopped = True


def _host(state: SweepState, record: Mapping[str, Any]) -> None:
    host = state.host(state.host_of(record))
    if record["state"] == "joined":
        host.lost = ""
    elif record["state"] == "lost":
        host.lost = str(record.get("reason") or "lost")


def _hosts_differ(state: SweepState, record: Mapping[str, Any]) -> None:
    state.host_differences |= record["differences"]


def _block(state: SweepState, record: Mapping[str, Any]) -> None:
    """A host took a block, finished it, or lost it; what does not count any more is planned again."""
    for cell_id in record.get("dropped", ()):
        history = state.cell(cell_id)
        if history.state is CellState.DONE:
            state.superseded.append(Superseded(cell_id, history.attempt, history.host))
        state.cells[cell_id] = CellHistory(attempt=history.attempt, times_done=0)
    if record["state"] == "finished":
        state.finished_blocks[record["block"]] = state.host_of(record)
    else:
        state.finished_blocks.pop(record["block"], None)


def _end(state: SweepState, record: Mapping[str, Any]) -> None:
    state.ended = record.get("reason")


_HANDLERS = {
    "sweep": _sweep,
    "cell": _cell,
    "server": _server,
    "run": _run,
    "resumed": _resumed,
    "extended": _extended,
    "accepted": _accepted,
    "conditions": _conditions,
    "foreign": _foreign,
    "aa_noise": _aa_noise,
    "playbook": _playbook,
    "stopped": _stopped,
    "host": _host,
    "hosts_differ": _hosts_differ,
    "block": _block,
    "end": _end,
}
