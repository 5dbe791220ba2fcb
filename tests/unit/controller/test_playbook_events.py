from __future__ import annotations

from typing import Any

from controller.launch_progress import LaunchProgress
from controller.playbook_events import EventCollector

HEALTH = "sglang_ops.eagle3.sglang_health"


def event(name: str, **data: Any) -> dict[str, Any]:
    return {"event": name, "pid": 42, "event_data": data}


def test_retries_carry_the_live_phase_and_say_it_once() -> None:
    seen: list[str] = []
    collector = EventCollector(on_phase=seen.append)
    for phase in ("starting", "weights", "weights", "", "target_graphs"):
        collector.feed(event("runner_retry", res={"phase": phase}))
    collector.feed(
        event("runner_on_ok", task_action=HEALTH, task="Wait", res={"phase": "serving", "ready": True}, duration=2.5)
    )
    assert seen == ["starting", "weights", "target_graphs", "serving"]
    assert collector.results["sglang_health"]["ready"] is True
    assert collector.tasks[0].seconds == 2.5


def test_how_far_a_launch_is_comes_with_every_look_and_before_a_new_phase() -> None:
    seen: list[object] = []
    collector = EventCollector(on_phase=seen.append, on_progress=seen.append)
    loading = {"phase": "weights", "phase_left_s": 20, "eta_s": 50.5, "shards": {"done": 3, "total": 64}}
    for result in (loading, loading | {"shards": {"done": 9, "total": 64}}, {"phase": ""}):
        collector.feed(event("runner_retry", res=result))
    assert seen == [
        LaunchProgress("weights", 20.0, 50.5, (3, 64)),
        "weights",
        LaunchProgress("weights", 20.0, 50.5, (9, 64)),
    ]


def test_the_first_event_names_the_process() -> None:
    children: list[int] = []
    collector = EventCollector(on_child=children.append)
    collector.feed(event("playbook_on_start"))
    collector.feed(event("playbook_on_play_start"))
    assert children == [42]


def test_the_statistics_outrank_the_return_code() -> None:
    for statistics, expected in (
        ({"processed": {"h": 1}, "ok": {"h": 1}}, "ok"),
        ({"processed": {"h": 1}, "failures": {"h": 1}}, "failed"),
        ({"processed": {"h": 1}, "dark": {"h": 1}, "failures": {}}, "unreachable"),
        ({"processed": {}}, "failed"),
    ):
        collector = EventCollector()
        collector.feed(event("playbook_on_stats", **statistics))
        assert collector.status(0, cancelled=False) == expected
        assert collector.status(None, cancelled=True) == "cancelled"


def test_without_statistics_nothing_is_success_by_default() -> None:
    collector = EventCollector()
    assert collector.status(0, cancelled=False) == "failed"
    collector.feed(event("runner_on_ok", task="a", res={}))
    assert collector.status(0, cancelled=False) == "ok"
    assert collector.status(2, cancelled=False) == "failed"
    collector.feed(event("runner_on_unreachable", task="a", res={"msg": "no route"}))
    assert collector.status(4, cancelled=False) == "unreachable"


def test_a_failure_keeps_the_module_result_and_an_ignored_one_is_none() -> None:
    collector = EventCollector()
    collector.feed(event("runner_on_failed", task="a", task_action="x", res={"msg": "m"}, ignore_errors=True))
    ignored = collector.failure
    result = {"msg": "dead\n because", "failure": {"class": "oom"}, "phase": "weights"}
    collector.feed(event("runner_on_failed", task="b", task_action=HEALTH, res=result))
    assert ignored is None
    assert collector.failure is not None
    assert collector.failure.message == "dead because"
    assert collector.failure.result["failure"] == {"class": "oom"}
    collector.feed(event("runner_on_failed", task="c", task_action="x", res={}))
    assert collector.failure.message == "the task gave no message"


def test_errors_before_the_first_task_are_kept_and_warnings_are_not() -> None:
    collector = EventCollector()
    collector.feed({"event": "verbose", "stdout": "[WARNING]: something"})
    collector.feed({"event": "verbose", "stdout": "[ERROR]: no such role"})
    collector.feed({"event": "verbose"})
    collector.feed({})
    assert collector.error_text == ["[ERROR]: no such role"]
