"""The programs that compare the load generator with another client read both sides right; no client is fetched here."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.bench.bench_load import timed_server
from tests.bench.bench_load_clients import take_turn
from tests.bench.cpu_watch import CpuWatch
from tests.bench.load_clients import SEED, Question, can_be_warm, run_peer, unshuffled, warm_peer
from tests.bench.peer_client import Peer, PeerError
from tests.gpu.fidelity import Level, show
from tests.gpu.metrics_record import Sample, parse
from tests.gpu.server_witness import Account, counted_length

# Stands in for bench_serving: two answers, three tokens each, one second of decoding each.
STAND_IN = """
import json, sys
words = sys.argv[1:]
value = lambda name: words[words.index(name) + 1]
assert len(open(value("--dataset-path")).readlines()) == int(value("--num-prompts")) == 2
assert value("--max-concurrency") == "2" and value("--sharegpt-output-len") == "3"
line = {"output_lens": [3, 3], "itls": [[0.5, 0.5], [0.25, 0.75]], "ttfts": [0.1, 0.3], "errors": ERRORS,
        "completed": COMPLETED, "output_throughput": 5.0}
open(value("--output-file"), "w").write(json.dumps(line) + chr(10))
"""


def peer(folder: Path, *, errors: str = "['', '']", completed: str = "2") -> Peer:
    program = folder / "stand_in.py"
    program.write_text(STAND_IN.replace("ERRORS", errors).replace("COMPLETED", completed))
    return Peer("stand-in", (sys.executable, str(program)), str(folder))


QUESTION = Question("http://127.0.0.1:1", ("prompt 1", "prompt 2"), concurrency=2, output_tokens=3)


def test_the_peers_result_is_read(tmp_path: Path) -> None:
    run = run_peer(QUESTION, peer(tmp_path))
    assert run.decode_rate == pytest.approx(2.0)
    assert run.output_rate == 5.0
    assert run.ttft_ms == pytest.approx(200.0)
    assert (run.requests, run.tokens, run.acceptance_length) == (2, 6, None)


def test_the_peer_asks_in_our_order_although_it_shuffles() -> None:
    texts = [f"prompt {number}" for number in range(9)]
    shuffled = unshuffled(texts)
    assert shuffled != texts
    random.seed(SEED)  # as bench_serving does
    random.shuffle(shuffled)
    assert shuffled == texts


def test_a_peer_that_fails_is_no_figure(tmp_path: Path) -> None:
    with pytest.raises(PeerError, match="1 of 2 requests failed"):
        run_peer(QUESTION, peer(tmp_path, errors="['', 'reset']", completed="1"))
    with pytest.raises(PeerError, match="ended with 3"):
        run_peer(QUESTION, Peer("broken", (sys.executable, "-c", "raise SystemExit(3)"), str(tmp_path)))
    with pytest.raises(PeerError, match="wrote no result"):
        run_peer(QUESTION, Peer("mute", (sys.executable, "-c", ""), str(tmp_path)))


def test_a_warm_peer_imports_once(tmp_path: Path) -> None:
    (tmp_path / "heavy.py").write_text("print('imported', file=open(__file__ + '.seen', 'a'))\n")
    program = peer(tmp_path)
    source = tmp_path / "stand_in.py"
    source.write_text(f"import heavy\nprint('a table')\n{source.read_text()}")
    program.environment["PYTHONPATH"] = str(tmp_path)
    with warm_peer(program) as warm:
        rates = [run_peer(QUESTION, program, warm).decode_rate for _ in range(3)]
    assert rates == pytest.approx([2.0] * 3)
    assert (tmp_path / "heavy.py.seen").read_text() == "imported\n"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise SystemExit(4)", "exit 4"),
        ("raise ValueError('no server')", "ValueError: no server"),
        ("import os, sys; print('killed', file=sys.stderr, flush=True); os._exit(3)", "ended with 3: killed"),
    ],
)
def test_a_warm_peer_that_fails_says_why(tmp_path: Path, code: str, words: str) -> None:
    program = tmp_path / "failing.py"
    program.write_text(code)
    failing = Peer("failing", (sys.executable, str(program)), str(tmp_path))
    with warm_peer(failing) as warm:
        for _ in range(2):
            with pytest.raises(PeerError, match=words):
                run_peer(QUESTION, failing, warm)


@pytest.mark.parametrize(
    ("words", "can"),
    [
        (("python3", "-m", "sglang.bench_serving"), True),
        (("python3", "bench_serving.py"), True),
        (("python3", "-u", "bench_serving.py"), False),
        (("podman", "run", "image", "bench_serving"), False),
        (("bench_serving",), False),
    ],
)
def test_only_a_python_program_is_kept_warm(words: tuple[str, ...], can: bool) -> None:
    assert can_be_warm(Peer("peer", words, "")) == can


def test_a_warm_peer_cannot_reach_the_pipes_of_its_owner(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("")
    program = peer(tmp_path)
    source = tmp_path / "stand_in.py"
    noise = (
        "import beside, os, subprocess, sys\n"
        "assert sys.stdin.read() == ''\n"
        "os.write(1, b'\\xff no answer\\n')\n"
        "subprocess.run(['echo', 'none either'])\n"
    )
    source.write_text(noise + source.read_text())
    with warm_peer(program) as warm:
        rates = [run_peer(QUESTION, program, warm).decode_rate for _ in range(2)]
    assert rates == pytest.approx([2.0] * 2)


def test_a_warm_peer_that_never_answers_ends_with_its_owner(tmp_path: Path) -> None:
    program, running = tmp_path / "hanging.py", tmp_path / "running"
    program.write_text(f"import time\nopen({str(running)!r}, 'w').close()\ntime.sleep(600)\n")

    class OutOfTimeError(Exception):
        pass

    def out_of_time(*_: object) -> None:
        raise OutOfTimeError

    def interrupt(main: int) -> None:
        while not running.exists():
            time.sleep(0.01)
        signal.pthread_kill(main, signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, out_of_time)
    try:
        warm = warm_peer(Peer("hanging", (sys.executable, str(program)), ""))
        threading.Thread(target=interrupt, args=(threading.get_ident(),), daemon=True).start()
        with pytest.raises(OutOfTimeError), warm:
            warm.run([])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not Path(f"/proc/{warm.pid}").exists()


def test_the_own_client_as_a_process_agrees_with_the_server() -> None:
    with timed_server(chunks=10, gap_ms=30, ttft_ms=50) as port:
        texts = tuple(f"prompt {number}" for number in range(4))
        question = Question(f"http://127.0.0.1:{port}", texts, concurrency=2, output_tokens=19)
        turn = take_turn(question, None)
    assert turn.run.acceptance_length == pytest.approx(2.0)
    assert turn.run.decode_rate == pytest.approx(turn.true_rate, rel=0.2)
    assert turn.run.ttft_ms >= turn.true_ttft_ms >= 50
    assert turn.cpu_share < 1


def test_processor_time_is_that_of_the_window() -> None:
    watch = CpuWatch(os.getpid())
    begin = time.perf_counter()
    time.sleep(0.1)
    middle = time.perf_counter()
    while time.process_time() < time.perf_counter() - middle and time.perf_counter() - middle < 0.3:
        pass
    while time.perf_counter() - middle < 0.3:
        pass
    end = time.perf_counter()
    watch.stop()
    assert watch.share(begin, middle) < watch.share(middle, end)
    assert watch.share(end, begin) != watch.share(end, begin)  # not a number


def test_what_the_server_counts_is_read() -> None:
    def sample(answers: int) -> Sample:
        counted = f"sglang:num_requests_total {answers}\nsglang:generation_tokens_total {7 * answers}\n"
        return parse(f'{counted}sglang:spec_verify_calls_total{{tp_rank="0"}} {3 * answers}\n', 0.0)

    assert counted_length(sample(1), sample(5)) == pytest.approx(2.0)
    assert counted_length(sample(1), sample(1)) is None
    assert counted_length(None, sample(1)) is None


def account(**said: float) -> Account:
    nothing = dict.fromkeys(("counted_length", "logged_length", "gauge", "logged_rate"))
    return Account(**{**nothing, "gauge_seen": 0, "lines": 2, **said})  # type: ignore[arg-type]


def test_a_level_that_differs_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = dataclasses.replace(run_peer(QUESTION, peer(tmp_path)), verify_steps=2)  # L = (6 - 2) / 2
    level = Level(
        2, 3, own=[run], peer=[run], acceptance=[(run, account(counted_length=2.0, gauge=3.0, logged_length=3.0))]
    )
    assert show(level, 0.02)  # with two at a time neither gauge nor log is judged
    assert "1.0000" in capsys.readouterr().out
    level.acceptance = [(run, account(counted_length=2.06))]
    assert not show(level, 0.02)
    assert show(level, 0.05)
    alone = Level(1, 3, own=[run], peer=[run], acceptance=[(run, account(logged_length=2.06))])
    assert not show(alone, 0.02)
