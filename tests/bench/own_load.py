"""The controller's load generator as a process of its own: a question (JSON) on standard input, records on output.

``{"url": …, "texts": […], "concurrency": 8, "output_tokens": 128, "ignore_eos": true}``
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from controller.load.client import run_workload
from controller.load.workload import Prompt, Workload


def main() -> None:
    """Ask every text once and print the records."""
    question = json.load(sys.stdin)
    texts, concurrency = question["texts"], question["concurrency"]
    workload = Workload(
        "comparison",
        tuple(Prompt(id=number, category="", text=text) for number, text in enumerate(texts)),
        output_tokens=question["output_tokens"],
        concurrency_levels=(concurrency,),
        repeats=1,
        prompts_per_run=len(texts),
        warmup_prompts=0,
        ignore_eos=question["ignore_eos"],
    )
    records = run_workload(question["url"], workload, run=0, concurrency=concurrency)
    json.dump([record.to_json() for record in records], sys.stdout)


if __name__ == "__main__":
    main()
