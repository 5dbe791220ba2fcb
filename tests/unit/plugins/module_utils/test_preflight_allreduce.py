"""The timed all-reduce: what it says of ranks that end, fail, hang and lie; torch is a stand-in of a few lines."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_allreduce as allreduce
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_allreduce import GLOO, check_allreduce
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.python_site import answer_mark

from tests.unit.plugins.programs import python_program

ANSWER = {
    "world": 2,
    "backend": "nccl",
    "nccl": "2.28.9",
    "peer": True,
    "small": {"bytes": 14336, "seconds": 21.5e-6},
    "large": {"bytes": 64 << 20, "seconds": 0.5e-3},
}
PRINT = f"print('NCCL version 2.28.9')\nprint('\\n{answer_mark()}' + {json.dumps(json.dumps(ANSWER))}, flush=True)"
HANG = "import os, time\ntime.sleep(60)"
HANGS_WITH_PEERS = f"import os, time\nif os.environ.get('NCCL_P2P_DISABLE') != '1':\n    time.sleep(60)\n{PRINT}"
# As torch 2.11 has it, as far as the program uses it; the sum is right unless SUM says otherwise.
TORCH = """
import os
from . import cuda, distributed
bfloat16, float32 = "bfloat16", "float32"
class Kind(str):
    itemsize = 4
float32 = Kind("float32")
class Data:
    def __init__(self, elements, value):
        self.elements, self.value = elements, value
    def __ne__(self, wanted):
        return Data(self.elements, int(self.value != wanted) * self.elements)
    def sum(self):
        return self.value
def device(kind, index=0):
    return kind
def full(shape, value, dtype, device):
    return Data(shape[0], value)
def zeros(elements, dtype, device):
    return Data(elements, 0.0)
"""
DISTRIBUTED = """
import os
def init_process_group(backend, device_id=None):
    assert backend in ("gloo", "nccl")
    assert os.environ["MASTER_ADDR"] and os.environ["MASTER_PORT"]
    if os.environ.get("FAILS") == os.environ["RANK"]:
        raise RuntimeError(os.environ["WORDS"])
def all_reduce(data):
    world = int(os.environ["WORLD_SIZE"])
    if data.value:
        data.value = float(os.environ.get("SUM", world * (world + 1) / 2))
def barrier():
    pass
def destroy_process_group():
    pass
"""


@pytest.mark.parametrize(
    ("source", "limit_s", "ok", "words"),
    [
        (PRINT, 30, True, "2 ranks, NCCL 2.28.9, peer access: 14 KiB in 21.5 us, 64 MiB in 0.50 ms (134.2 GB/s, 134.2"),
        ("pass", 30, False, "rank 0 ended without a result"),
        (
            "import os, time\nos.environ['RANK'] == '1' and exit('boom')\ntime.sleep(60)",
            30,
            False,
            "rank 1 failed: boom",
        ),
        (HANG, 1, False, "ranks 0, 1 of 2 did not end within 1 s (NCCL_ALGO=Ring); with NCCL_P2P_DISABLE=1 neither"),
        (HANGS_WITH_PEERS, 1, False, "(NCCL_ALGO=Ring); with NCCL_P2P_DISABLE=1 it ends: 2 ranks, NCCL 2.28.9"),
        ("import sys\nprint('no torch', file=sys.stderr)\nsys.exit(77)", 30, None, "no torch"),
        ("exit(77)", 30, None, "it said nothing"),
    ],
)
def test_verdict(tmp_path: Path, source: str, limit_s: float, ok: bool | None, words: str) -> None:
    check = check_allreduce(python_program(tmp_path / "python", source), 2, {"NCCL_ALGO": "Ring"}, limit_s)
    assert check.ok is ok
    assert words in check.detail


def test_bandwidth_on_the_bus_of_eight(tmp_path: Path) -> None:
    source = PRINT.replace('\\"world\\": 2', '\\"world\\": 8')
    check = check_allreduce(python_program(tmp_path / "python", source), 2, {}, 30)
    # 64 MiB / 0.5 ms, and that times 2 * 7 / 8.
    assert "(134.2 GB/s, 234.9 GB/s on the bus)" in check.detail


def test_peers_are_not_at_fault_when_there_were_none(tmp_path: Path) -> None:
    check = check_allreduce(python_program(tmp_path / "python", HANG), 2, {"NCCL_P2P_DISABLE": 1}, 1)
    assert check.detail.endswith("did not end within 1 s (NCCL_P2P_DISABLE=1)")
    assert "peer copies are not at fault" in check.remedy
    assert check.runbook == "docs/runbooks/p2p-hang.md"


def test_ranks_that_have_answered_need_not_leave(tmp_path: Path) -> None:
    begin = time.monotonic()
    assert check_allreduce(python_program(tmp_path / "python", f"{PRINT}\n{HANG}"), 2, {}, 1).ok
    assert time.monotonic() - begin < 10


def test_every_rank_is_ended_with_what_it_started(tmp_path: Path) -> None:
    source = (
        "import os, subprocess, time, pathlib\n"
        f"child = subprocess.Popen(['sleep', '60'])\n"
        f"pathlib.Path({str(tmp_path)!r}, os.environ['RANK']).write_text(str(child.pid))\n"
        "time.sleep(60)"
    )
    check_allreduce(python_program(tmp_path / "python", source), 2, {"NCCL_P2P_DISABLE": "1"}, 1)
    children = [int((tmp_path / rank).read_text()) for rank in "01"]
    deadline = time.monotonic() + 5
    while any(_lives(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_lives(child) for child in children)


def _lives(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_the_environment_is_the_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_PROTO", "Simple")
    shown = tmp_path / "shown"
    source = f"import json, os\nopen({str(shown)!r}, 'w').write(json.dumps(dict(os.environ)))\n{PRINT}"
    given = {"NCCL_ALGO": "Ring", "NCCL_CUMEM_ENABLE": "1", "LD_LIBRARY_PATH": "/cuda", "NCCL_IB_DISABLE": 1}
    check_allreduce(python_program(tmp_path / "python", source), 2, given, 30)
    seen = json.loads(shown.read_text())
    assert {name: value for name, value in seen.items() if name.startswith("NCCL_")} == {
        "NCCL_ALGO": "Ring",
        "NCCL_CUMEM_ENABLE": "1",
        "NCCL_IB_DISABLE": "1",
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_DEBUG": "WARN",
    }
    assert seen["LD_LIBRARY_PATH"] == "/cuda"
    assert (seen["WORLD_SIZE"], seen["CUDA_DEVICE_MAX_CONNECTIONS"]) == ("2", "8")


def test_it_is_not_run() -> None:
    assert check_allreduce("/no/such/python", 2, {}, 1).ok is None
    assert check_allreduce("python", 1, {}, 1).ok is None


@pytest.fixture
def torch(tmp_path: Path) -> dict[str, str]:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(TORCH)
    (package / "cuda.py").write_text("def device_count():\n    return 1\n")
    (package / "distributed.py").write_text(DISTRIBUTED)
    return {"PYTHONPATH": str(tmp_path)}


def rehearse(environment: dict[str, str], backend: str = GLOO) -> Any:
    return check_allreduce(sys.executable, 3, environment, 60, backend=backend)


def test_the_program_runs(torch: dict[str, str]) -> None:
    check = rehearse(torch)
    assert check.ok, check
    assert check.detail.startswith("3 ranks, gloo: 28 KiB in ")
    assert "128 MiB in" in check.detail


def test_a_wrong_sum_is_found(torch: dict[str, str]) -> None:
    check = rehearse({**torch, "SUM": "5"})
    assert "wrong sum: 7168 of 7168 elements, where 6.0 is right" in check.detail


def test_too_few_gpus(torch: dict[str, str]) -> None:
    check = rehearse(torch, "nccl")
    assert (check.ok, check.detail) == (None, "torch sees 1 GPUs, 3 are wanted")


@pytest.mark.parametrize(
    ("words", "failure_class"),
    [
        ("NCCL WARN Error: failed to extend /dev/shm/nccl-x to 9637892 bytes, error: No space left", "shm-small"),
        ("No CUDA GPUs are available", "lxc-device"),
        ("something new", ""),
    ],
)
def test_the_failing_rank_names_the_cause(torch: dict[str, str], words: str, failure_class: str) -> None:
    check = rehearse({**torch, "FAILS": "2", "WORDS": words})
    assert check.ok is False
    assert words in check.detail
    assert check.detail.startswith(f"rank 2 failed ({failure_class}): " if failure_class else "rank 2 failed: ")
    assert allreduce.NAME == "all-reduce"
