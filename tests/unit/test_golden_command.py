"""The default inventory renders exactly one command and one environment; the same words stand in the unit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.nccl_startup_files import UNSET

REPOSITORY = Path(__file__).parents[2]
ENVIRONMENT = (
    "NCCL_PROTO=LL NCCL_ALGO=Ring NCCL_P2P_LEVEL=SYS NCCL_MAX_NCHANNELS=16 NCCL_BUFFSIZE=16777216"
    " NCCL_NTHREADS=512 EAGLE3_PROFILE=1"
)
COMMAND = (
    "/root/ml-env/bin/python3 -m sglang.launch_server --model-path /shared/kimi-k2.5-int4"
    " --trust-remote-code --tp-size 8 --mem-fraction-static 0.88 --host 0.0.0.0 --port 8000"
    " --num-continuous-decode-steps 4 --disable-custom-all-reduce"
    " --speculative-algorithm EAGLE3 --speculative-draft-model-path /data/eagle3/output_100k_sglang/4"
    " --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 --speculative-num-steps 3"
)
LOG_FILE = "/data/eagle3/synth_100k/logs/sglang_eagle3_nccl_3step.log"

PLAY = """\
- hosts: inference
  gather_facts: false
  connection: local
  tasks:
    - ansible.builtin.import_role: {name: sglang_server, tasks_from: check}
    - ansible.builtin.copy:
        dest: "{{ out }}/server.json"
        content: >-
          {{ {'argv': __sglang_server_argv, 'environment': __sglang_server_all_environment,
          'log_file': sglang_server_log_file, 'private': __sglang_server_private_settings} }}
        mode: "0600"
    - ansible.builtin.template:
        src: "{{ templates }}/sglang.service.j2"
        dest: "{{ out }}/sglang.service"
        mode: "0644"
      vars: {__sglang_server_input_files: {results: []}}
    - ansible.builtin.template: {src: "{{ templates }}/environment.j2", dest: "{{ out }}/sglang.env", mode: "0600"}
"""


def run_play(folder: Path, variables: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    play = folder / "play.yml"
    play.write_text(PLAY)
    extra = {
        "out": str(folder),
        "templates": str(REPOSITORY / "roles/sglang_server/templates"),
        "ansible_python_interpreter": sys.executable,
        **(variables or {}),
    }
    inventory = str(REPOSITORY / "inventory/production.yml")
    command = [
        str(Path(sys.executable).parent / "ansible-playbook"),
        "-i",
        inventory,
        str(play),
        "-e",
        json.dumps(extra),
    ]
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "ANSIBLE_ROLES_PATH": str(REPOSITORY / "roles"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
    }
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def rendered(folder: Path, variables: dict[str, Any] | None = None) -> dict[str, Any]:
    run = run_play(folder, variables)
    assert run.returncode == 0, run.stdout + run.stderr
    content: dict[str, Any] = json.loads((folder / "server.json").read_text())
    return content


def unit_words(unit: str) -> list[str]:
    lines = unit[unit.index("ExecStart=") + len("ExecStart=") :].splitlines()
    words: list[str] = []
    for line in lines:
        words += line.removesuffix("\\").split()
        if not line.endswith("\\"):
            break
    return words


def test_the_default_inventory(tmp_path: Path) -> None:
    server = rendered(tmp_path)
    assert server["argv"] == COMMAND.split()
    assert [f"{name}={value}" for name, value in server["environment"].items()] == ENVIRONMENT.split()
    assert server["log_file"] == LOG_FILE

    unit = (tmp_path / "sglang.service").read_text()
    assert unit_words(unit) == COMMAND.split()
    assert f"StandardOutput=append:{LOG_FILE}\n" in unit
    flags = [line.split()[0] for line in unit.splitlines() if line.startswith("  --")]
    assert len(flags) == COMMAND.count(" --")
    lines = [line for line in (tmp_path / "sglang.env").read_text().splitlines() if not line.startswith("#")]
    assert [line.replace('"', "") for line in lines] == ENVIRONMENT.split()


def test_a_launch_without_a_variable(tmp_path: Path) -> None:
    given = {"NCCL_ALGO": None, "NCCL_PROTO": None, "NCCL_DEBUG": "WARN"}
    environment = rendered(tmp_path, {"sglang_server_environment": given})["environment"]
    left = [word for word in ENVIRONMENT.split() if not word.startswith(("NCCL_ALGO", "NCCL_PROTO"))]
    expected = [*left, "NCCL_DEBUG=WARN", f"{UNSET}=NCCL_ALGO,NCCL_PROTO"]
    assert [f"{name}={value}" for name, value in environment.items()] == expected
    lines = [line for line in (tmp_path / "sglang.env").read_text().splitlines() if not line.startswith("#")]
    assert [line.replace('"', "") for line in lines] == expected


def test_without_speculation(tmp_path: Path) -> None:
    server = rendered(tmp_path, {"sglang_server_speculative": False})
    assert server["argv"] == COMMAND[: COMMAND.index(" --speculative")].split()
    assert server["log_file"].endswith("/sglang_baseline.log")


def test_other_settings(tmp_path: Path) -> None:
    variables = {
        "sglang_server_speculative_num_steps": 5,
        "sglang_server_max_running_requests": 8,
        "sglang_server_cuda_graph_max_bs": 4,
        "sglang_server_context_length": 131072,
        "sglang_server_random_seed": 0,
        "sglang_server_enable_metrics": True,
        "sglang_server_extra_flags": {
            "zeta": 'a "b" $c',
            "--alpha": True,
            "mid": [1, 2],
            "off": False,
            "none": None,
            "json": {"a": 1},
        },
    }
    argv = rendered(tmp_path, variables)["argv"]
    text = " ".join(argv)
    expected = (
        "--max-running-requests 8 --cuda-graph-max-bs-decode 4 --context-length 131072 --random-seed 0 --enable-metrics"
        " --speculative-algorithm"
    )
    assert expected in text
    assert "--speculative-num-draft-tokens 6 --speculative-num-steps 5" in text
    assert argv[-8:] == ["--alpha", "--json", '{"a": 1}', "--mid", "1", "2", "--zeta", 'a "b" $c']
    assert '--zeta "a \\"b\\" $$c"' in (tmp_path / "sglang.service").read_text()


def test_a_key_is_passed_by_file(tmp_path: Path) -> None:
    variables = {
        "sglang_server_api_key": 12345678,
        "sglang_server_admin_api_key": "admin: 'key'",
        "sglang_server_extra_flags": {"--ssl-keyfile-password": "of the key", "ssl-keyfile": "/k.pem"},
    }
    server = rendered(tmp_path, variables)
    assert server["argv"][-4:] == ["--ssl-keyfile", "/k.pem", "--config", "/etc/sglang/server.yaml"]
    assert not [word for word in server["argv"] if "key" in word and "keyfile" not in word]
    assert server["private"] == {
        "api-key": "12345678",
        "admin-api-key": "admin: 'key'",
        "ssl-keyfile-password": "of the key",
    }


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"sglang_server_speculative_num_steps": 0}, "num_steps is 0, but must be a whole number"),
        ({"sglang_server_speculative_num_steps": -1}, "num_steps is -1, but must be a whole number"),
        ({"sglang_server_speculative_num_steps": "a"}, "num_steps is a, but must be a whole number"),
        ({"sglang_server_model_path": ""}, "sglang_server_model_path is empty"),
        ({"sglang_server_speculative_draft_model_path": ""}, "draft_model_path is empty"),
        ({"sglang_server_speculative_eagle_topk": 2}, "num_draft_tokens is not set"),
        ({"sglang_server_extra_flags": {"--api_key": "x"}}, "set sglang_server_api_key instead"),
        ({"sglang_server_api_key": "-x"}, "begins with a dash"),
        ({"sglang_server_admin_api_key": "1234567"}, "sglang_server_admin_api_key is shorter than 8"),
        ({"sglang_server_api_key": "12345678", "sglang_server_extra_flags": {"config": "x"}}, "takes one --config"),
    ],
)
def test_settings_that_cannot_work(tmp_path: Path, variables: dict[str, Any], says: str) -> None:
    run = run_play(tmp_path, variables)
    assert run.returncode == 2
    assert says in run.stdout
