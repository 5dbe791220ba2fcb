"""A launch by the controller and one by a script are taken apart in the same way, whoever ran the sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controller.journal import Journal
from controller.load.records import InterTokenSummary, RequestRecord
from tests.bench.server_watch import Life, ServerWatch
from tests.gpu.cost import Part, beside_launches_s, last_server, load_s, sweep_parts

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = RequestRecord(
    prompt_id=0,
    run=0,
    warmup=False,
    started_s=1.0,
    ttft_s=0.5,
    e2e_s=3.0,
    decode_s=2.5,
    prompt_tokens=5,
    completion_tokens=9,
    verify_steps=3,
    accept_histogram=None,
    inter_token_s=InterTokenSummary.of([]),
    text_sha256="",
)


def server(steps: int, *more: str) -> dict[str, object]:
    argv = ["python3", "-m", "sglang.launch_server", "--speculative-num-steps", str(steps), *more]
    return {"argv": argv, "port": 8000}


def write_sweep(directory: Path) -> None:
    moment = iter([100.0, 110.0, 160.0, 168.0, 170.0, 170.0, 180.0, 220.0, 228.0, 230.0])
    with Journal(directory / "journal.jsonl", clock=lambda: next(moment)) as journal:
        for cell in ("b01-steps-3", "b01-adaptive"):
            adaptive = ["--speculative-adaptive"] if "adaptive" in cell else []
            journal.append("cell", cell=cell, state="launching")
            journal.append("playbook", cell=cell, playbook="restart.yml" if adaptive else "deploy.yml")
            journal.append("server", cell=cell, launch=server(3, *adaptive), info={})
            journal.append("run", cell=cell, requests=[REQUEST.to_json()])
            journal.append("cell", cell=cell, state="done")


def test_the_rest_is_what_neither_server_nor_load_took() -> None:
    assert Part("bare", wall=60.0, loading=41.0, stopping=4.0, load=6.0).rest == pytest.approx(9.0)
    assert load_s([[], []]) == 0


def test_a_launch_that_deployed_too_is_told_apart(tmp_path: Path) -> None:
    write_sweep(tmp_path)
    lives = [Life(1, started=112.0, ready=152.0, asked=171.0, gone=176.0), Life(2, started=178.0, ready=218.0)]
    parts = sweep_parts(tmp_path, ServerWatch(tmp_path, before=lives))
    assert [(part.who, part.wall, part.loading, part.stopping, part.load) for part in parts] == [
        ("deploying", 70.0, 40.0, 0.0, 4.0),
        ("controller", 60.0, 40.0, 5.0, 4.0),
    ]


def test_a_launch_that_failed_is_not_beside_the_launches(tmp_path: Path) -> None:
    moment = iter([100.0, 101.0, 151.0, 151.5, 200.0, 200.0, 202.0])
    with Journal(tmp_path / "journal.jsonl", clock=lambda: next(moment)) as journal:
        journal.append("sweep")
        for cell, end in (("b01-adaptive", "failed"), ("b01-steps-3", "done")):
            journal.append("cell", cell=cell, state="launching")
            journal.append("cell", cell=cell, state=end)
        journal.append("cell", cell="b02-adaptive", state="failed")  # was not launched
        journal.append("end")
    assert beside_launches_s(tmp_path) == pytest.approx(1.0 + 0.5 + 2.0)


def test_the_script_launches_what_always_took_the_same_steps(tmp_path: Path) -> None:
    write_sweep(tmp_path)
    assert "--speculative-adaptive" not in last_server(tmp_path, 3)["launch"]["argv"]
    with pytest.raises(SystemExit, match=r"no server of .* had 5 draft steps"):
        last_server(tmp_path, 5)
