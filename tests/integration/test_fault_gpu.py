"""A GPU that has fallen off the bus: nvidia-smi refuses, answers with words instead of numbers, or never answers."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import gpu_sampling, stall_evidence
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_query import NvidiaSmi
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.node_identity import gpu_identity
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_driver_checks import check_driver
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.preflight_read_driver import read_driver
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable
from ansible_collections.sglang_ops.eagle3.plugins.modules import gpu_reap

if TYPE_CHECKING:
    from pathlib import Path

LOST = "Unable to determine the device handle for GPU 0000:41:00.0: GPU is lost.  Reboot the system to recover this GPU"
UNKNOWN = "Unable to determine the device handle for GPU0000:41:00.0: Unknown Error"
# Field 1 of every query here is the index or the UUID; the other fields of a lost GPU are words.
ROWS = r"""
fields=$(printf %s "${1#*=}" | tr ',' '\n')
for index in 0 1; do
  row=""
  for field in $fields; do
    case "$field" in
      index) value=$index;; uuid|gpu_uuid) value="GPU-$index";; pci.bus_id) value="00000000:4$index:00.0";;
      name) value="RTX";; pid) exit 0;; driver_version) value=580.95.05;; compute_cap) value=12.0;;
      *) if [ $index = 1 ]; then value="WORDS"; else value=4; fi;;
    esac
    row="$row, $value"
  done
  echo "${row#, }"
done
"""
ANSWERS = {
    "lost": (f"echo '{LOST}'; exit 15", "GPU 0000:41:00.0"),
    "unknown-error": (f"echo '{UNKNOWN}' >&2; exit 255", "GPU 0000:41:00.0"),
    "fields": (ROWS.replace("WORDS", "[Unknown Error]"), "GPU 1"),
    "requires-reset": (ROWS.replace("WORDS", "[GPU requires reset]"), "GPU 1"),
    "table-words": (ROWS.replace("WORDS", "ERR!"), "GPU 1"),
}


def program(folder: Path, body: str) -> str:
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("answer", ANSWERS)
def test_whoever_asks_is_told_which_gpu_and_never_to_reset_it(tmp_path: Path, answer: str) -> None:
    body, gpu = ANSWERS[answer]
    smi = program(tmp_path, body)
    with pytest.raises(GpuError) as raised:
        NvidiaSmi(smi, 10).gpus()
    check = check_driver(read_driver(smi, 10))
    assert check.ok is False
    for text in (raised.value.message(), f"{check.detail} {check.remedy}"):
        assert f"lost {gpu}" in text
        assert "power-cycle the host in a window" in text
        assert "gpu-reset" not in text
    assert "docs/runbooks/nvidia-smi-fails.md" in raised.value.message()
    # Sampling goes on without what it cannot read; evidence of a stall and the node's identity manage without it.
    sample = gpu_sampling.look(smi, gpu_sampling.REASON_FIELDS[0])
    assert sample is None or sample[1]["memory_mib"] is None
    evidence = stall_evidence.collect([], ProcessTable(), smi)
    assert evidence["gpus"] == [] or evidence["gpus"][1]["memory_used_mib"] is None
    assert evidence["spinning"] is False
    known = {"GPUs": "GPU-0 GPU-1", "GPU kinds": "2 x RTX", "driver": "580.95.05"}
    assert gpu_identity(smi) == (known if evidence["gpus"] else {})


@pytest.mark.parametrize("answer", [*ANSWERS, "hang"])
def test_cleaning_ends_nothing_by_guess(tmp_path: Path, capsys: pytest.CaptureFixture[str], answer: str) -> None:
    smi = program(tmp_path, ANSWERS[answer][0] if answer in ANSWERS else "sleep 60")
    table = ProcessTable()
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as server:
        identity = {"pid": server.pid, "session": server.pid, "start_ticks": table.start_ticks(server.pid)}
        record = {"launch_id": "one", **identity, "boot_id": table.boot_id()}
        (tmp_path / "launch.json").write_text(json.dumps(record))
        arguments: dict[str, Any] = {"ownership": "session", "state_dir": str(tmp_path), "nvidia_smi": smi}
        began = time.monotonic()
        with patch_module_args({**arguments, "mode": "all", "timeout_s": 1}), pytest.raises(SystemExit):
            gpu_reap.main()
        seconds = time.monotonic() - began
        alive = server.poll() is None
        server.kill()
    result = json.loads(capsys.readouterr().out)
    assert result["failed"] is True
    assert result["killed"] == []
    assert alive
    assert seconds < 10
    expected = f"lost {ANSWERS[answer][1]}" if answer in ANSWERS else "gave no answer within 1 s"
    assert expected in result["msg"]
