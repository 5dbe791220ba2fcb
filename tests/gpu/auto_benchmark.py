"""SGLang's own search, ``sglang.auto_benchmark``, for the step counts of a sweep: same server, same pair, same prompts.

    python3 -m tests.gpu.auto_benchmark --python ROOT/ml-env/bin/python3 --launch ROOT/state/launch.json \
        --prompts prompts.jsonl --out OUT [--steps 1,2,3] [--prompts-per-run 8] [--output-tokens 256] [--seconds 1800]

What it does in 0.5.15 (auto_benchmark_lib.py): every setting is launched once (``run_trial``: it ends what listens on
the port, starts the server in a session, starts ``sglang.benchmark.serving``, which waits for /health, and ends the
session by SIGTERM, after 20 s by SIGKILL), without speculation first, then with; the record with the highest (SLA met,
request rate, output throughput, …) is the best (``result_sort_key``). It repeats nothing and gives no interval. Of the
settings only ``speculative_num_steps`` varies: with topk 1 SGLang itself makes the draft tokens one more. This program
writes the configuration from the argv of a launch record, runs the tool, counts its launches and seconds, and prints
what it concludes. After --seconds the tool itself ends, with what it has measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.peer_client import Peer, installed_peer

OWN_FLAGS = ("--host", "--port", "--speculative-")
"""Left out of what every setting shares: the tool adds them itself."""
SAME_LOAD = {"--max-running-requests": "16", "--cuda-graph-max-bs-decode": "16"}
"""What a sweep sets for every arm; added when the launch record is of a plain deployment."""


def shared_arguments(argv: list[str]) -> list[str]:
    """Return the arguments of a launch that every setting shares."""
    arguments = argv[argv.index("sglang.launch_server") + 1 :]
    kept: list[str] = []
    skip = False
    for word in arguments:
        if word.startswith("--"):
            skip = word.startswith(OWN_FLAGS)
        if not skip:
            kept.append(word)
    for flag, value in SAME_LOAD.items():
        kept += [] if flag in kept else [flag, value]
    return kept


def value_of(argv: list[str], flag: str) -> str:
    """Return the value of a flag of a launch."""
    return argv[argv.index(flag) + 1]


def configuration(
    launch: dict[str, Any],
    dataset: Path,
    out: Path,
    steps: list[int],
    prompts: int,
    tokenizer: str = "",
    seconds: float = 1800,
) -> dict[str, Any]:
    """Return the tool's configuration; JSON is YAML too."""
    argv = launch["argv"]
    model = value_of(argv, "--model-path")
    # PYTHONPATH holds a stand-in for a package that only the measuring client imports.
    environment = {name: str(value) for name, value in launch["environment"].items()} | {"PYTHONPATH": ""}
    return {
        "server": {
            "command_prefix": argv[: argv.index("sglang.launch_server") + 1],
            "host": value_of(argv, "--host"),
            "port": int(value_of(argv, "--port")),
            "base_flags": {},
            "extra_args": shared_arguments(argv),
            "env": environment,
        },
        "benchmark": {
            "tokenizer": tokenizer or model,
            "model": model,
            "backend": "sglang",
            "qps": ["inf"],
            "max_concurrency": [1],
            "warmup_requests": 2,
            "flush_cache": True,
            "ready_check_timeout_sec": 200,
            "disable_ignore_eos": True,
            "output_dir": str(out / "auto_benchmark"),
        },
        "dataset": {"kind": "custom", "path": str(dataset), "num_prompts": prompts},
        "search": {"tier": 3, "max_candidates": None, "resume": False, "max_duration_hours": seconds / 3600},
        "speculative": {
            "enabled": True,
            "algorithm": value_of(argv, "--speculative-algorithm"),
            "draft_model_path": value_of(argv, "--speculative-draft-model-path"),
            "base_flags": {
                "speculative_eagle_topk": 1,
                "speculative_num_steps": steps[0],
                "speculative_num_draft_tokens": steps[0] + 1,
            },
            "search_space": {"speculative_num_steps": steps},
        },
    }


def write_dataset(prompts: Path, file: Path, count: int, output_tokens: int) -> None:
    """Write the tool's data set from a sweep's prompts (one JSON object with ``text`` a line)."""
    lines = prompts.read_text().splitlines()[:count]
    rows = [{"prompt": json.loads(line)["text"], "output_len": output_tokens} for line in lines]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def conclusion(folder: Path) -> dict[str, Any]:
    """Return what the tool kept: a row for each launch, and the one that it calls best; nothing when it had no time."""
    rows = []
    kept = folder / "live_results.jsonl"
    for line in kept.read_text().splitlines() if kept.exists() else ():
        record = json.loads(line)
        metrics = record.get("metrics") or {}
        rows.append(
            {
                "stage": record["stage"],
                "steps": record["server_flags"].get("speculative_num_steps"),
                "output_tokens_per_s": metrics.get("output_throughput"),
                "ttft_ms": metrics.get("mean_ttft_ms"),
                "tpot_ms": metrics.get("mean_tpot_ms"),
                "accept_length": metrics.get("accept_length"),
                "error": str(record.get("error", ""))[:500],
            }
        )
    measured = [row for row in rows if row["output_tokens_per_s"]]
    best = max(measured, key=lambda row: row["output_tokens_per_s"]) if measured else None
    return {"launches": len(list(folder.glob("server_*.log"))), "rows": rows, "best": best}


def sentences(found: dict[str, Any]) -> list[str]:
    """Return what the tool did and concludes, a line a setting.

    It ranks by output tokens over wall time, in which the time to the first token counts; decode speed is without it.
    """
    lines = [f"{found['launches']} launches in {found['seconds']:.0f} s, one a setting"]
    for row in found["rows"]:
        rate = f"{row['output_tokens_per_s']:.1f} tok/s" if row["output_tokens_per_s"] else row["error"] or "nothing"
        if row["tpot_ms"] and row["ttft_ms"]:
            rate += f"; mean TTFT {row['ttft_ms']:.0f} ms, 1000 / mean TPOT {1000 / row['tpot_ms']:.1f} tok/s"
        lines.append(f"  {_setting(row):16} {rate}")
    if found["left_out"]:
        lines.append(f"  no time for {', '.join(map(str, found['left_out']))} steps")
    if found["best"]:
        lines.append(f"it concludes: {_setting(found['best'])}; no interval, no repetition")
    return lines


def _setting(row: dict[str, Any]) -> str:
    return "no speculation" if row["steps"] is None else f"{row['steps']} steps"


def run(peer: Peer, config: Path, log: Path) -> float:
    """Run the tool and return its seconds; what it prints is kept.

    Raises:
        SystemExit: it failed.
    """
    command = [*peer.command[:-1], "sglang.auto_benchmark", "run", "--config", str(config)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"} | peer.environment
    begun = time.monotonic()
    with log.open("w") as stream:
        done = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"error: sglang.auto_benchmark ended with {done.returncode}; see {log}")
    return time.monotonic() - begun


def search(
    peer: Peer,
    launch: dict[str, Any],
    dataset: Path,
    out: Path,
    steps: list[int],
    prompts: int,
    seconds: float = 1800,
) -> dict[str, Any]:
    """Configure the tool, run it, and return what it concludes and in how many seconds; all of it is kept in ``out``.

    Raises:
        SystemExit: it failed.
    """
    config = out / "auto_benchmark.yaml"
    document = configuration(launch, dataset, out, steps, prompts, peer.tokenizer, seconds)
    config.write_text(json.dumps(document, indent=1) + "\n")
    took = run(peer, config, out / "auto_benchmark.log")
    return conclusion(out / "auto_benchmark") | {"seconds": round(took, 1)}


def main() -> int:
    """Configure, run, and print what it concludes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="interpreter that has sglang")
    parser.add_argument("--launch", type=Path, required=True, help="launch record of a server with speculation")
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokenizer", default="", help="folder of one, when the target's has none (a simulated node)")
    parser.add_argument("--steps", default="1,2,3")
    parser.add_argument("--prompts-per-run", type=int, default=8)
    parser.add_argument("--output-tokens", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=1800, help="when the tool ends with what it has")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    launch = json.loads(options.launch.read_text())
    steps = [int(word) for word in options.steps.split(",")]
    dataset = options.out / "dataset.jsonl"
    write_dataset(options.prompts, dataset, options.prompts_per_run, options.output_tokens)
    with tempfile.TemporaryDirectory(prefix="auto-benchmark-") as folder:
        tokenizer = options.tokenizer or value_of(launch["argv"], "--model-path")
        peer = installed_peer(options.python, tokenizer, Path(folder))
        found = search(peer, launch, dataset, options.out, steps, options.prompts_per_run, options.seconds)
    found["left_out"] = sorted(set(steps) - {row["steps"] for row in found["rows"]})
    (options.out / "auto_benchmark.json").write_text(json.dumps(found, indent=1) + "\n")
    print("\n".join(sentences(found)))
    return 0 if found["best"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
