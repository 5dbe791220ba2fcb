"""An arm that leaves NCCL's variables out: its schedulers have none of them, those of the arms around it have all."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest
import yaml

from controller.paths import SIMULATOR_INVENTORY
from tests.integration.simulated_sweep import SimulatedSweep

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLES: dict[str, str] = yaml.safe_load((SIMULATOR_INVENTORY / "group_vars" / "all.yml").read_text())[
    "nccl_env_variables"
]
ARM = "nccl-default=steps:3," + ",".join(f"{name}:" for name in VARIABLES)

SEED = "0"
"""Orders the arm without the variables first."""


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[SimulatedSweep]:
    one = SimulatedSweep.create(tmp_path, gpus=2)
    (one.inventory / "zzz_size.yml").write_text("inference:\n  hosts:\n    simulated: {sglang_server_tp_size: 2}\n")
    yield one
    one.clean()


class Environments:
    """What was seen in /proc/PID/environ of scheduler processes, by session, for as long as the block runs."""

    def __init__(self, simulated: SimulatedSweep) -> None:
        self._simulated = simulated
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.by_session: dict[int, dict[int, dict[str, str]]] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.3):
            for process in self._simulated.node.processes():
                with contextlib.suppress(OSError):
                    if process.name.startswith("sglang::scheduler"):
                        self._look(process.pid)

    def _look(self, pid: int) -> None:
        session = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3])
        words = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
        self.by_session.setdefault(session, {})[pid] = dict(word.split("=", 1) for word in words if "=" in word)


def test_schedulers_of_the_arm_have_none_of_the_variables(simulated: SimulatedSweep) -> None:
    with Environments(simulated) as seen:
        done = simulated.sweep("--steps", "3", "--arm", ARM, "--no-baseline", "--blocks", "1", "--seed", SEED)
    assert done.returncode == 0, done.stderr
    launches = [record for record in simulated.records() if record["kind"] == "server"]
    assert [record["arm"] for record in launches] == ["nccl-default", "steps-3"]
    for record in launches:
        schedulers = seen.by_session[record["launch"]["session"]]
        assert len(schedulers) == 2
        for environment in schedulers.values():
            found = {name: environment[name] for name in VARIABLES if name in environment}
            assert found == ({} if record["arm"] == "nccl-default" else VARIABLES)

    preparing = [record for record in simulated.records() if record.get("playbook") == "deploy.yml"]
    assert len(preparing) == 2, "what leaves variables out is proved once, before its first launch"
