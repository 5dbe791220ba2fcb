"""The error that ends a GPU cleaning or a look at the GPUs."""

from __future__ import annotations

from typing import List

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_runbooks import RUNBOOKS


class GpuError(Exception):
    """One sentence that says what is wrong, steps that help, and the page that explains it.

    Args:
        sentence: what is wrong and where.
        next_steps: what the reader can do, in order.
        diagnosis: key of ``RUNBOOKS``; empty where no page applies.
    """

    def __init__(self, sentence: str, next_steps: List[str], diagnosis: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.next_steps = next_steps
        self.diagnosis = diagnosis
        self.runbook = RUNBOOKS[diagnosis] if diagnosis else ""

    def message(self) -> str:
        """The sentence, the next steps and the runbook as one text for ``fail_json``."""
        steps = "; ".join(f"({number}) {step}" for number, step in enumerate(self.next_steps, start=1))
        page = f" Runbook: {self.runbook}." if self.runbook else ""
        return f"{self.sentence} Next: {steps}.{page}"
