"""Flags and refusals of a server on several machines, from the role's own variables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
PLAY = """\
- hosts: inference
  gather_facts: false
  connection: local
  tasks:
    - ansible.builtin.set_fact: {__preflight_result: {checks: [{name: sglang-installed, detail: "{{ release }}"}]}}
    - ansible.builtin.import_role: {name: preflight, tasks_from: same_release}
    - ansible.builtin.import_role: {name: sglang_server, tasks_from: check}
    - ansible.builtin.debug: {msg: "{{ __sglang_server_argv | join(' ') }}"}
    - ansible.builtin.include_role: {name: zombie_cleanup}
      when: cleans | default(false)
"""
CASES = """\
- hosts: inference
  gather_facts: false
  connection: local
  tasks:
    - {ansible.builtin.include_tasks: case.yml, loop: "{{ cases }}", loop_control: {loop_var: case}}
"""
CASE = """\
- vars:
    sglang_server_nnodes: "{{ case.nnodes | default(2) }}"
    sglang_server_tp_size: "{{ case.tp_size | default(16) }}"
    sglang_server_node_rank: "{{ case.node_rank | default(0) }}"
    sglang_server_dist_init_addr: "{{ case.addr | default('10.0.0.1:25000') }}"
  block:
    - {ansible.builtin.include_role: {name: sglang_server, tasks_from: check}}
    - {ansible.builtin.debug: {msg: it was not refused}}
  rescue:
    - {ansible.builtin.debug: {msg: "refused: {{ ansible_failed_result.msg }}"}}
"""
HOSTS = {
    "first": {"ansible_host": "10.0.0.1", "installed": "0.5.15"},
    "second": {"ansible_host": "10.0.0.2", "installed": "0.5.14"},
}


def play(folder: Path, *options: str, playbook: str = PLAY, **variables: Any) -> tuple[int, str]:
    """Run a play for two machines; return its exit status and what it printed."""
    (folder / "play.yml").write_text(playbook)
    (folder / "hosts.yml").write_text(json.dumps({"inference": {"hosts": HOSTS}}))
    given = {
        "ansible_python_interpreter": sys.executable,
        "sglang_server_model_path": "/m",
        "sglang_server_speculative": False,
        "release": "SGLang 0.5.15",
        **variables,
    }
    if playbook == PLAY:
        given |= {"sglang_server_nnodes": 2, "sglang_server_tp_size": 16}
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(folder / "hosts.yml"), *options]
    environment = {
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "ANSIBLE_ROLES_PATH": str(REPOSITORY / "roles"),
        "ANSIBLE_NOCOLOR": "1",
    }
    run = subprocess.run(
        [*command, str(folder / "play.yml"), "-e", json.dumps(given)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return run.returncode, run.stdout + run.stderr


def test_the_place_in_the_play_is_the_rank(tmp_path: Path) -> None:
    code, output = play(tmp_path)
    assert code == 0, output
    for rank in range(2):
        assert f"--tp-size 16 --nnodes 2 --node-rank {rank} --dist-init-addr 10.0.0.1:25000 --mem" in output


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        (
            {"release": "SGLang {{ installed }}"},
            "different releases of SGLang (first has SGLang 0.5.15, second has SGLang 0.5.14); install the same one",
        ),
        ({"cleans": True, "zombie_cleanup_delegate_to": "pve"}, "two of them would be cleaned as the same container"),
    ],
)
def test_a_group_that_is_not_whole(tmp_path: Path, variables: dict[str, Any], says: str) -> None:
    code, output = play(tmp_path, **variables)
    assert code == 2
    assert says in " ".join(output.split())


def test_settings_that_cannot_work(tmp_path: Path) -> None:
    cases = {
        "sglang_server_nnodes is two, but must be a whole number of machines": {"nnodes": "two"},
        "sglang_server_nnodes is 4, but this play has 2 (first, second)": {"nnodes": 4},
        "sglang_server_tp_size is 7, which 2 machines": {"tp_size": 7},
        "sglang_server_node_rank is 2, but must be from 0 to 1": {"node_rank": 2},
        "127.0.0.1:25000, which other machines cannot reach": {"addr": "127.0.0.1:25000"},
        "[::1]:25000, which other machines cannot reach": {"addr": "[::1]:25000"},
        "is 10.0.0.1, but must be an address and a port": {"addr": "10.0.0.1"},
    }
    (tmp_path / "case.yml").write_text(CASE)
    code, output = play(tmp_path, playbook=CASES, cases=list(cases.values()))
    assert code == 0, output
    text = " ".join(output.split())
    assert [says for says in cases if text.count(says) < 2 * len(HOSTS)] == []
    assert "it was not refused" not in text
