"""A load generator whose launches are as fast as a test says."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tests.unit.controller.sweep.fakes import FakeLoad, FakePlaybooks, record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controller.load.records import RequestRecord


@dataclasses.dataclass
class SpeedLoad(FakeLoad):
    """Answers with ``speed(arm, number of the launch of that arm from 0)`` in tokens per second."""

    playbooks: FakePlaybooks = dataclasses.field(default_factory=FakePlaybooks)
    speed: Callable[[str, int], float] = lambda *_: 80.0

    def run(self, base_url: str, *, warmup: bool, **more: Any) -> Sequence[RequestRecord]:
        super().run(base_url, warmup=warmup, **more)
        names = [arm_of(variables) for variables in self.playbooks.restarts]
        seconds = 100 / self.speed(names[-1], names[:-1].count(names[-1]))
        steps = None if names[-1].startswith("baseline") else 50
        return [
            dataclasses.replace(
                record(warmup=warmup, run=more["run"], concurrency=more["concurrency"]),
                decode_s=seconds,
                e2e_s=seconds + 0.1,
                verify_steps=steps,
            )
        ]


def arm_of(variables: Mapping[str, Any]) -> str:
    """Return the arm that a restart launched, from the name of its log."""
    name = str(variables["sglang_server_log_file"]).rpartition("/")[2].removesuffix(".log")
    return name.partition("-b")[2].partition("-")[2]
