"""Stand-ins for Ansible and the load generator, so that the sweep's own logic is tested in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controller.arms import build_arms
from controller.inventory import Target
from controller.load.records import InterTokenSummary, RequestRecord
from controller.plan import Plan, schedule
from controller.playbook_events import TaskFailure, TaskTime
from controller.playbooks import PlaybookRun
from controller.sweep.leftovers import RunningNote
from controller.sweep.ports import SilentWatcher
from controller.sweep.state import SweepState
from controller.sweep.sweep import Sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def record(*, error: str | None = None, warmup: bool = False, run: int = 0, concurrency: int = 1) -> RequestRecord:
    return RequestRecord(
        prompt_id=1,
        run=run,
        warmup=warmup,
        started_s=0.0,
        ttft_s=0.1,
        e2e_s=1.1,
        decode_s=1.0,
        prompt_tokens=5,
        completion_tokens=101,
        verify_steps=50,
        accept_histogram=None,
        inter_token_s=InterTokenSummary.of([0.02]),
        text_sha256="x",
        error=error,
        concurrency=concurrency,
    )


def healthy(variables: Mapping[str, Any]) -> PlaybookRun:
    health = {
        "ready": True,
        "url": "http://server",
        "launch": {
            "log_file": f"/logs/{variables['sglang_server_log_file'].rpartition('/')[2]}",
            "fingerprint": "same",
            "environment": {"A": "b"},
        },
        "server": {"simulated": {"time_scale": 0.5}, "api_key": "secret"},
        "phases": [],
    }
    return PlaybookRun("restart.yml", "ok", 0, 1.0, (TaskTime("t", "m", 0.5, "ok"),), {"sglang_health": health})


def broken(kind: str = "oom") -> PlaybookRun:
    failure = {
        "class": kind,
        "phase": "weights",
        "cause": "GPU 3 is full.",
        "remedy": "Lower the memory.",
        "log_tail": ["x"] * 200,
    }
    task = TaskFailure("Wait", "sglang_health", "not ready", {"failure": failure})
    return PlaybookRun("restart.yml", "failed", 2, 1.0, (TaskTime("Wait", "m", 1.0, "failed"),), {}, task)


def unreachable() -> PlaybookRun:
    return PlaybookRun("restart.yml", "unreachable", 4, 1.0, (), {}, TaskFailure("a", "b", "no route to host"))


def cancelled() -> PlaybookRun:
    return PlaybookRun("restart.yml", "cancelled", 254, 1.0)


STOPPED = PlaybookRun("stop.yml", "ok", 0, 0.5)


@dataclass
class FakePlaybooks:
    """Answers every restart with ``answer(number, extra vars)``, counting from 0."""

    answer: Callable[[int, Mapping[str, Any]], PlaybookRun] = lambda _, variables: healthy(variables)
    deploy_answer: Callable[[Mapping[str, Any]], PlaybookRun] = lambda _: STOPPED
    stop_answer: PlaybookRun = STOPPED
    identity_answer: PlaybookRun = STOPPED
    health_answer: PlaybookRun = STOPPED
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    prepared: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def prepare(self, playbook: str, *, directory: Path, extra_vars: Mapping[str, Any]) -> None:
        del directory
        self.prepared.append((playbook, dict(extra_vars)))

    def discard(self) -> None:
        pass

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
        del directory, cancelled
        variables = dict(extra_vars or {})
        self.calls.append((playbook, variables))
        if playbook == "stop":
            return self.stop_answer
        if playbook == "deploy":
            assert tags == ("draft_config", "nccl_env")
            return self.deploy_answer(variables)
        if playbook == "identity":
            return self.identity_answer
        if playbook == "health":
            return self.health_answer
        if on_phase:
            on_phase("weights")
        return self.answer(len(self.restarts) - 1, variables)

    def command(self, playbook: str, extra_vars: Mapping[str, Any], tags: Sequence[str] = ()) -> str:
        del tags
        return f"{playbook} {dict(extra_vars)}"

    @property
    def restarts(self) -> list[dict[str, Any]]:
        return [variables for playbook, variables in self.calls if playbook == "restart"]

    @property
    def stops(self) -> list[dict[str, Any]]:
        return [variables for playbook, variables in self.calls if playbook == "stop"]


@dataclass
class FakeLoad:
    levels: Sequence[int] = (1,)
    repeats: int = 1
    answer: Callable[[int], Sequence[RequestRecord]] | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    flushed: int = 0
    info: Callable[[int], Mapping[str, Any]] = lambda _: {}
    asked: int = 0

    def server_info(self, base_url: str) -> Mapping[str, Any]:
        del base_url
        self.asked += 1
        return self.info(self.asked - 1)

    def flush_cache(self, base_url: str) -> None:
        assert base_url == "http://server"
        self.flushed += 1

    def run(
        self,
        base_url: str,
        *,
        run: int,
        concurrency: int,
        warmup: bool,
        time_scale: float,
        on_tokens: Callable[[int, float], None],
    ) -> Sequence[RequestRecord]:
        self.calls.append(
            {"url": base_url, "run": run, "warmup": warmup, "time_scale": time_scale, "concurrency": concurrency}
        )
        on_tokens(101, 1.0)
        if self.answer:
            return self.answer(len(self.calls) - 1)
        return [record(run=run, warmup=warmup, concurrency=concurrency)]


class Notes(SilentWatcher):
    """Keeps what the operator would read."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.ended: list[tuple[str, str, str]] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def cell_ended(self, cell: Any, state: str, text: str, seconds: float) -> None:
        del seconds
        self.ended.append((cell.cell_id, state, text))


def plan(blocks: int = 2, **changes: Any) -> Plan:
    arms = build_arms((2, 3))
    values: dict[str, Any] = {"max_blocks": blocks, "looks": (blocks,)} | changes
    usual = Plan(
        sweep_id="S1",
        created="2026-01-01T00:00:00+00:00",
        inventory="/inventory",
        limit="host",
        arms=arms,
        cells=schedule(arms, blocks, 1),
        blocks=blocks,
        seed=1,
        workload={},
        workload_fingerprint="f",
        max_running_requests=16,
        cuda_graph_max_bs=8,
        simulated=True,
    )
    return replace(usual, **values)


def sweep(
    directory: Path, playbooks: FakePlaybooks, load: FakeLoad, state: SweepState | None = None, **options: Any
) -> Sweep:
    directory.mkdir(exist_ok=True)
    decided = options.pop("plan", None) or plan()
    return Sweep(
        plan=decided,
        directory=directory,
        target=Target(
            Path("/inventory"), "host", {"sglang_server_log_dir": "/logs", "sglang_server_manager": "process"}
        ),
        state=state or SweepState(),
        playbooks=playbooks,
        load=load,
        watcher=options.pop("watcher", None) or Notes(),
        note=RunningNote(directory, decided.sweep_id),
        lock_directory=directory.parent / "locks",
        **options,
    )
