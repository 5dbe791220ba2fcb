"""The module: both scopes on a machine without GPUs, and what it does with failed checks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import preflight_run
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_errors import GpuError
from ansible_collections.sglang_ops.eagle3.plugins.modules import preflight_info

from tests.unit.plugins import draft_models as models
from tests.unit.plugins.programs import python_program

if TYPE_CHECKING:
    from pathlib import Path


class EndedError(Exception):
    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(str(result))
        self.result = result


class FakeModule:
    params: ClassVar[dict[str, Any]] = {}
    warnings: ClassVar[list[str]] = []

    def __init__(self, **_: Any) -> None:
        type(self).warnings = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def exit_json(self, **result: Any) -> None:
        raise EndedError(result)

    def fail_json(self, **result: Any) -> None:
        raise EndedError({**result, "failed": True})


def parameters(folder: Path, **changes: Any) -> dict[str, Any]:
    python = python_program(
        folder / "python",
        "import json, sys\n"
        "if '-m' in sys.argv: print('options:\\n  --model-path P\\n  --tp-size N'); sys.exit()\n"
        "answer = {'versions': {'sglang': sys.argv[0] and '0.5.15'}, 'requires': [], 'torch_cuda': None}\n"
        "print('SGLANG_OPS_ANSWER ' + json.dumps(answer))\n",
    )
    target, draft = models.write_target(folder / "target"), models.write_draft(folder / "draft")
    flags = f"--model-path {target} --tp-size 8 --port 1 --speculative-algorithm EAGLE3 --speculative-eagle-topk 1"
    flags += f" --speculative-draft-model-path {draft} --speculative-num-steps 3 --speculative-num-draft-tokens 4"
    defaults = {name: argument.get("default") for name, argument in preflight_info.ARGUMENTS.items()}
    return {
        **defaults,
        "argv": [python, "-m", "sglang.launch_server", *flags.split()],
        "environment": {"TRITON_CACHE_DIR": str(folder), "HOME": str(folder)},
        "log_dir": str(folder),
        "state_dir": str(folder),
        "scope": "container",
        "nvidia_smi": "no-such-nvidia-smi",
        "host": "box",
        **changes,
    }


def by_name(result: dict[str, Any]) -> dict[str, Any]:
    return {row["name"]: row for row in result["checks"]}


def test_container(tmp_path: Path) -> None:
    result = preflight_info.run(parameters(tmp_path))
    rows = by_name(result)
    assert rows["context-length"]["ok"] is False
    assert rows["server-flags"]["ok"] is True
    assert rows["sglang-installed"]["detail"] == "SGLang 0.5.15"
    assert all(row["host"] == "box" for row in result["checks"])
    assert not result["ok"]
    json.dumps(result)


def test_variants_of_the_command_line(tmp_path: Path) -> None:
    params = parameters(tmp_path, allreduce=True, ask_interpreter="always")
    params["argv"] = params["argv"][:5]
    rows = by_name(preflight_info.run(params))
    assert rows["speculative-arguments"]["ok"] is None
    assert "its own --help" in rows["server-flags"]["detail"]
    assert "context-length" not in rows
    assert "all-reduce" in rows
    rows = by_name(preflight_info.run({**params, "allreduce": False, "argv": params["argv"][:3]}))
    assert rows["target-weights"]["detail"] == "no target model is given"
    unknown = {**params, "allreduce": False, "sglang_version": "0.9.9", "ask_interpreter": "never"}
    assert by_name(preflight_info.run(unknown))["server-flags"]["ok"] is None
    params["argv"][0] = "/no/such/python"
    rows = by_name(preflight_info.run({**params, "allreduce": False, "sglang_version": "0.5.15"}))
    assert "recorded data" in rows["server-flags"]["detail"]


def test_host_without_tools(tmp_path: Path) -> None:
    rows = by_name(preflight_info.run(parameters(tmp_path, scope="host", vmid=129)))
    assert rows["gpu-memory-free"]["ok"] is None
    assert rows["gpu-count"]["ok"] is None
    assert all(row["ok"] is not False or row["severity"] == "warning" for row in rows.values())


def test_host_with_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "import sys\nquery = sys.argv[1]\n"
        "if 'compute-apps' in query: sys.exit()\n"
        "print('12.0' if 'compute_cap' in query else '0, G, 00000000:01:00.0, 5, 97887' if 'uuid' in query "
        "else '0, [N/A], 580.1, 0')\n"
    )
    smi = python_program(tmp_path / "nvidia-smi", source)
    params = parameters(tmp_path, scope="host", nvidia_smi=smi, ownership="session")
    rows = by_name(preflight_info.run(params))
    assert rows["gpu-memory-free"]["detail"] == "1 GPUs are free"
    assert rows["gpu-count"]["ok"] is False
    no_pct = by_name(preflight_info.run({**params, "ownership": "container", "pct": "no-such-pct", "vmid": 1}))
    assert "no Proxmox host" in no_pct["gpu-memory-free"]["detail"]

    def broken(_: Any) -> Any:
        raise GpuError("It is broken.", ["look"])

    monkeypatch.setattr(preflight_run, "node_from", broken)
    rows = by_name(preflight_info.run(params))
    assert rows["gpu-memory-free"]["detail"] == "It is broken"


@pytest.mark.parametrize(
    ("changes", "failed", "warned"),
    [
        ({"fail_on": "never"}, False, False),
        ({"fail_on": "error"}, True, False),
        ({"fail_on": "error", "ignore": ["context-length"]}, False, True),
        ({"fail_on": "warning", "ignore": ["context-length"]}, True, False),
        ({"fail_on": "error", "patched_later": True}, False, True),
    ],
)
def test_verdicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], failed: bool, warned: bool
) -> None:
    params = parameters(tmp_path, unit="sglang.service", **changes)
    monkeypatch.setattr(preflight_info, "AnsibleModule", FakeModule)
    monkeypatch.setattr(FakeModule, "params", params)
    with pytest.raises(EndedError) as ended:
        preflight_info.main()
    assert bool(ended.value.result.get("failed")) is failed
    assert any("context-length" in text for text in FakeModule.warnings) is warned
    if failed:
        assert "context-length (box)" in ended.value.result["msg"]


def test_an_empty_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight_info, "AnsibleModule", FakeModule)
    monkeypatch.setattr(FakeModule, "params", parameters(tmp_path, argv=[]))
    with pytest.raises(EndedError, match="argv is empty"):
        preflight_info.main()
