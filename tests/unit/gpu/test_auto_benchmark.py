"""The configuration for SGLang's own search is made from a launch record; its conclusion is read from what it keeps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.gpu.auto_benchmark import conclusion, configuration, sentences, shared_arguments, write_dataset

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = (
    "/r/ml-env/bin/python3 -m sglang.launch_server --model-path /r/models/target --trust-remote-code --tp-size 1 "
    "--host 127.0.0.1 --port 8000 --disable-custom-all-reduce --enable-metrics --speculative-algorithm EAGLE3 "
    "--speculative-draft-model-path /r/models/draft --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 "
    "--speculative-num-steps 3 --attention-backend triton"
)
ARGV = COMMAND.split()


def test_every_setting_shares_all_but_speculation_and_address() -> None:
    shared = " ".join(shared_arguments(ARGV))
    assert shared == (
        "--model-path /r/models/target --trust-remote-code --tp-size 1 --disable-custom-all-reduce --enable-metrics "
        "--attention-backend triton --max-running-requests 16 --cuda-graph-max-bs-decode 16"
    )


def test_the_search_is_over_steps_and_does_not_leak_the_stand_in(tmp_path: Path) -> None:
    made = configuration({"argv": ARGV, "environment": {"A": 1}}, tmp_path / "d", tmp_path, [1, 2, 3], 8)
    assert made["server"]["command_prefix"] == ["/r/ml-env/bin/python3", "-m", "sglang.launch_server"]
    assert (made["server"]["host"], made["server"]["port"]) == ("127.0.0.1", 8000)
    assert made["server"]["env"] == {"A": "1", "PYTHONPATH": ""}
    assert made["speculative"]["search_space"] == {"speculative_num_steps": [1, 2, 3]}
    assert made["speculative"]["draft_model_path"] == "/r/models/draft"


def test_the_data_set_holds_the_prompts_of_the_sweep(tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"id": number, "text": f"text {number}"}) + "\n" for number in range(5)))
    write_dataset(prompts, tmp_path / "dataset.jsonl", 2, 64)
    rows = [json.loads(line) for line in (tmp_path / "dataset.jsonl").read_text().splitlines()]
    assert rows == [{"prompt": "text 0", "output_len": 64}, {"prompt": "text 1", "output_len": 64}]


def test_the_conclusion_is_the_highest_throughput_and_failures_are_told(tmp_path: Path) -> None:
    records = [
        {
            "stage": "base",
            "server_flags": {},
            "metrics": {"output_throughput": 500.0, "mean_tpot_ms": 2.0, "mean_ttft_ms": 80.4},
        },
        {"stage": "speculative", "server_flags": {"speculative_num_steps": 3}, "metrics": {"output_throughput": 700.0}},
        {"stage": "speculative", "server_flags": {"speculative_num_steps": 5}, "error": "RuntimeError('no')"},
    ]
    (tmp_path / "live_results.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    for number in range(3):
        (tmp_path / f"server_{number}.log").touch()
    found = conclusion(tmp_path)
    assert found["launches"] == 3
    assert found["best"]["steps"] == 3
    assert "no" in found["rows"][2]["error"]
    assert sentences({**found, "seconds": 9.4, "left_out": [7]}) == [
        "3 launches in 9 s, one a setting",
        "  no speculation   500.0 tok/s; mean TTFT 80 ms, 1000 / mean TPOT 500.0 tok/s",
        "  3 steps          700.0 tok/s",
        "  5 steps          RuntimeError('no')",
        "  no time for 7 steps",
        "it concludes: 3 steps; no interval, no repetition",
    ]


def test_a_search_that_had_no_time_concludes_nothing(tmp_path: Path) -> None:
    assert conclusion(tmp_path) == {"launches": 0, "rows": [], "best": None}
