"""How a server is, from the events of a day: it starts, serves, goes, comes back, dies."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from controller.watch import words
from controller.watch.events import (
    Access,
    FactsRead,
    Gpu,
    GpusSeen,
    LogGrew,
    ServerAnswered,
    ServerSilent,
    TargetAsked,
    TargetNote,
)
from controller.watch.reading import Reading, ServerFacts
from controller.watch.screen import Pane, draw
from controller.watch.state import ASK_AGAIN_S, ASK_SOON_S, Condition, Watched

DATA = Path(__file__).parents[3] / "data" / "sglang-0.5.15"
MOMENT = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
ACCESS = Access(url="http://192.0.2.1:8000", log_file="/var/log/sglang/server.log")
ARGV = ["python3", "-m", "sglang.launch_server", "--model-path", "/m", "--api-key", "hunter22"]
SPECULATION = ["--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3"]
BUSY = Reading(tokens_per_s=60.0, acceptance_length=1.8, running=2, queued=1)
SILENT = ServerSilent("http://192.0.2.1:8000 does not answer: it takes no connection")


def asked(phase: str = "serving", *, ready: bool = True, **more: Any) -> TargetAsked:
    launch = {"launch_id": "x", "pid": 7, "argv": ARGV + SPECULATION, "log_file": "/logs/3step.log", "owner": ""}
    health = {"ready": ready, "dead": False, "phase": phase, "launch": launch, "elapsed_s": 100.0, "failure": None}
    return TargetAsked(health | more, ACCESS)


def how(found: Watched) -> Condition:
    """The condition now; a function, because it changes behind a type checker's back."""
    return found.condition


def watched(*events: Any) -> Watched:
    found = Watched()
    for number, event in enumerate(events):
        found.take(event, float(number))
    return found


def test_nothing_is_known_at_first() -> None:
    found = watched()
    assert how(found) is Condition.ASKING
    assert found.wants_asking(0.0)
    assert found.phase == ""
    assert {value for _, value in words.rows(found, 0.0)} == {words.UNKNOWN}


def test_a_server_that_serves() -> None:
    found = watched(asked(), FactsRead(ServerFacts("m", "0.5.15", "EAGLE3", 3, 48)), ServerAnswered(BUSY))
    assert how(found) is Condition.SERVING
    assert found.phase == "serving"
    assert not found.wants_asking(1e6)
    rows = dict(words.rows(found, 3600.0))
    assert rows["tok/s"].startswith("60.0")
    assert rows["L"] == "1.80 of at most 4"
    assert rows["cycle"] == "60.0 ms"
    assert rows["requests"] == "2 running of at most 48, 1 queued"
    assert rows["launch"] == "steps-3 (EAGLE3), up 1 h 1 min"
    assert rows["log"] == "/logs/3step.log"
    assert "hunter22" not in rows["flags"]
    assert "--speculative-num-steps 3" in rows["flags"]


def test_the_cycle_is_a_median_of_looks() -> None:
    slow = Reading(tokens_per_s=6.0, acceptance_length=1.8, running=2)
    found = watched(asked(), ServerAnswered(BUSY), ServerAnswered(slow), ServerAnswered(BUSY))
    assert found.cycle_s == pytest.approx(0.06)
    found.take(ServerAnswered(Reading(tokens_per_s=0.0, running=0)), 9.0)
    assert found.cycle_s is None
    assert words.headline(found) == "serving, idle"


def test_one_look_without_an_answer_is_forgiven_and_two_are_not() -> None:
    found = watched(asked(), ServerAnswered(BUSY), SILENT)
    assert how(found) is Condition.SERVING
    found.take(SILENT, 3.0)
    assert how(found) is Condition.SILENT
    assert "does not answer" in " ".join(found.sentences)
    assert not found.wants_asking(ASK_SOON_S - 1)
    assert found.wants_asking(ASK_SOON_S)
    found.take(asked("weights", ready=False), 10.0)
    assert how(found) is Condition.STARTING
    assert words.headline(found) == "starting: weights"
    assert found.sentences == []
    assert not found.wants_asking(10.0 + ASK_AGAIN_S - 1)
    assert found.wants_asking(10.0 + ASK_AGAIN_S)
    found.take(ServerAnswered(BUSY), 30.0)
    assert how(found) is Condition.SERVING
    assert found.wants_asking(30.0)


def test_a_server_that_introduces_itself_again_is_another_one() -> None:
    found = watched(asked(), FactsRead(ServerFacts("m")), ServerAnswered(BUSY), SILENT, FactsRead(ServerFacts("m")))
    assert found.wants_asking(100.0)


def test_a_dead_launch_says_why() -> None:
    failure = {"class": "kv-oom", "phase": "memory_pool", "cause": "no room", "remedy": "less", "runbook": "docs/x.md"}
    found = watched(asked("dead", ready=False, dead=True, failure=failure), SILENT, SILENT)
    assert how(found) is Condition.DEAD
    assert words.headline(found) == "dead: memory_pool"
    assert found.sentences == ["kv-oom: no room; less (docs/x.md)"]


def test_a_log_that_grows_where_no_server_was_is_a_reason_to_ask() -> None:
    found = watched(asked("dead", ready=False, dead=True, launch=None), SILENT)
    assert not found.wants_asking(ASK_SOON_S)
    found.take(LogGrew("[2026-01-01 00:00:00] server_args=ServerArgs(model_path='m')\n"), 2.0)
    assert found.wants_asking(ASK_SOON_S)


def test_no_server_and_no_target() -> None:
    absent = watched(asked("dead", ready=False, dead=True, launch=None), SILENT)
    assert how(absent) is Condition.ABSENT
    assert absent.sentences == ["nothing runs here; start it with: ansible-playbook deploy.yml"]
    away = watched(TargetAsked({}, sentence="the target cannot be reached: no route"))
    assert how(away) is Condition.UNREACHABLE
    assert away.sentences == ["the target cannot be reached: no route"]
    assert not away.wants_asking(1.0)
    assert away.wants_asking(ASK_AGAIN_S)


def test_the_log_tells_the_phase_of_a_start() -> None:
    lines = (DATA / "eagle3-3step.log").read_text().splitlines(keepends=True)
    begin = next(number for number, line in enumerate(lines) if "Load weight begin" in line)
    found = watched(asked("starting", ready=False), LogGrew("".join(lines[: begin + 1]), fresh=True))
    assert (how(found), found.phase) == (Condition.STARTING, "weights")
    found.take(LogGrew("".join(lines[begin + 1 :])), 3.0)
    assert found.phase == "serving"
    assert how(found) is Condition.SILENT  # the log says that it serves, and nobody answers
    # The next launch appends to the same file.
    found.take(LogGrew("".join(lines[:begin])), 4.0)
    assert found.phase != "serving"


def test_the_log_can_be_diagnosed() -> None:
    found = watched()
    assert found.log.diagnosis() == [("diagnosis", "there is no log to read")]
    found.take(LogGrew((DATA / "draft-context-mismatch.log").read_text(), fresh=True), 0.0)
    rows = dict(found.log.diagnosis())
    assert rows["class"].startswith("draft-context: ")
    assert rows["runbook"] == "docs/runbooks/draft-context.md"


def test_the_log_shows_no_secret() -> None:
    found = watched(LogGrew("[2026-01-01 00:00:00] server_args=ServerArgs(api_key='hunter22', x=1)\n", fresh=True))
    assert "x=1" in found.log.tail(5)[0]
    assert "hunter22" not in found.log.tail(5)[0]


def test_gpus_as_one_line() -> None:
    found = watched(GpusSeen((Gpu(0, 1024.0, 2048.0, 100.0, 50.0), Gpu(1, 1536.0, 2048.0, 90.0, None))))
    assert words.gpu_memory(found.gpus) == "2 x 1.0-1.5 of 2.0 GiB"
    assert words.gpu_power(found.gpus) == "2 x 90-100 W, 190 W in all, hottest 50 °C"
    found.take(TargetNote("gpu", "the GPUs are not known: hangs"), 1.0)
    assert words.gpu_memory(found.gpus) == words.UNKNOWN
    assert found.sentences == ["the GPUs are not known: hangs"]
    found.take(GpusSeen((Gpu(0, None, None, None, None),)), 2.0)
    assert found.sentences == []
    assert words.gpu_power(found.gpus) == words.UNKNOWN


def test_a_server_without_speculation() -> None:
    launch = {"argv": ARGV, "launch_id": "x", "owner": "/sweeps/1"}
    found = watched(
        asked(launch=launch), FactsRead(ServerFacts("m", "0.5.15")), ServerAnswered(Reading(80.0, None, 1, 0))
    )
    rows = dict(words.rows(found, 0.0))
    assert rows["L"] == "no speculation"
    assert rows["cycle"] == "12.5 ms"
    assert rows["launch"].startswith("baseline (no speculation), up ")
    assert rows["launch"].endswith("of sweep /sweeps/1")


def test_a_server_that_chooses_its_steps_itself() -> None:
    argv = [*ARGV, "--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3", "--speculative-adaptive"]
    found = watched(
        asked(launch={"argv": argv, "launch_id": "x"}),
        FactsRead(ServerFacts("m", "0.5.15", "EAGLE3", 3, 48)),
        ServerAnswered(BUSY),
    )
    rows = dict(words.rows(found, 0.0))
    assert rows["launch"].startswith("adaptive (EAGLE3), up ")
    assert rows["L"] == "1.80", "it may go beyond the steps that it began with"


def test_one_line_and_one_document_hold_the_same() -> None:
    found = watched(asked(), ServerAnswered(BUSY), GpusSeen((Gpu(0, 1024.0, 2048.0, 100.0, 50.0),)))
    line = words.line(found, "host", MOMENT, 2.0)
    assert line == (
        "12:00:00 host: serving; 60.0 tok/s; L 1.80; cycle 60.0 ms; requests 2 running, 1 queued; "
        "1 x 1.0 of 2.0 GiB; 1 x 100 W, 100 W in all, hottest 50 °C"
    )
    document = json.loads(json.dumps(words.document(found, "host", 2.0)))
    assert document["condition"] == "serving"
    assert document["cycle_s"] == pytest.approx(0.06)
    assert document["gpus"][0]["power_w"] == 100.0
    assert document["launch"]["age_s"] == 102.0
    assert "hunter22" not in json.dumps(document)
    assert json.loads(json.dumps(words.document(watched(), "host", 0.0)))["launch"] is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s"), (65, "1 min 5 s"), (3700, "1 h 1 min"), (200_000, "2 d 7 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


def test_a_sparkline_begins_at_nothing() -> None:
    assert words.sparkline([0.0, 4.0, 8.0]) == "▁▅█"
    assert words.sparkline([0.0]) == words.sparkline([]) == ""


@pytest.mark.parametrize("pane", Pane)
@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_every_screen_fits(pane: Pane, size: tuple[int, int]) -> None:
    log = LogGrew((DATA / "eagle3-3step.log").read_text(), fresh=True)
    found = watched(asked(), ServerAnswered(BUSY), GpusSeen((Gpu(0, 1024.0, 2048.0, 100.0, 50.0),)), log)
    console = Console(width=size[0], height=size[1], force_terminal=True, record=True, file=io.StringIO())
    console.print(draw(found, "host", pane, height=size[1], now=5.0, moment=MOMENT))
    text = console.export_text()
    assert len(text.splitlines()) <= size[1]
    assert "q quit" in text
    assert "host" in text
    wanted = {Pane.FIGURES: "60.0 ms", Pane.LOG: "Decode batch", Pane.DIAGNOSIS: "runbook"}
    assert wanted[pane] in text
