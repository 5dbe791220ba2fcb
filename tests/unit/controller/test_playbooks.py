"""The adapter against real Ansible, in a small checkout of its own: every trap of ansible-runner that can be tested."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import ansible_runner
import pexpect
import pytest

import controller.playbooks
from controller import inventory as inventory_module
from controller.exits import TargetError
from controller.inventory import Target
from controller.playbooks import OWNER_VARIABLE, Playbooks, discard_private_data


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "checkout"
    (root / "playbooks").mkdir(parents=True)
    (root / "inventory.yml").write_text(
        "inference:\n  hosts:\n    here:\n      ansible_connection: local\n"
        "      ansible_python_interpreter: '{{ ansible_playbook_python }}'\n"
        "    gone: {ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: 1}\n"
    )
    (root / "ansible.cfg").write_text("[defaults]\nretry_files_enabled = false\ntimeout = 3\n")
    monkeypatch.setattr(controller.playbooks, "REPOSITORY", root)
    monkeypatch.setattr(inventory_module, "REPOSITORY", root)
    return root


def write(checkout: Path, name: str, tasks: str) -> None:
    body = textwrap.indent(textwrap.dedent(tasks), "    ")
    (checkout / "playbooks" / f"{name}.yml").write_text(f"- hosts: inference\n  gather_facts: false\n  tasks:\n{body}")


def playbooks(checkout: Path, host: str = "here", **options: Any) -> Playbooks:
    return Playbooks(Target(checkout / "inventory.yml", host, {}), **options)


def test_extra_vars_and_environment_do_not_leak_from_run_to_run(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        checkout,
        "show",
        """
        - ansible.builtin.debug:
            msg: "steps={{ steps | default(0) }} only={{ only | default('none') }} FOO={{ lookup('env', 'FOO') }}"
    """,
    )
    monkeypatch.setenv("FOO", "first")
    runner = playbooks(checkout)
    first = runner.run("show", directory=tmp_path / "cell", extra_vars={"steps": 2, "only": "first"})
    monkeypatch.setenv("FOO", "second")
    second = runner.run("show", directory=tmp_path / "cell", extra_vars={"steps": 3})
    assert first.output is not None
    assert second.output is not None
    assert "steps=2 only=first FOO=first" in first.output.read_text()
    assert "steps=3 only=none FOO=second" in second.output.read_text()
    assert first.output != second.output


def test_only_the_output_is_kept_and_no_secret_of_the_environment(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_PASSWORD", "hunter2-environment")
    write(checkout, "show", "- ansible.builtin.debug: {msg: hello}\n")
    run = playbooks(checkout).run("show", directory=tmp_path / "cell", extra_vars={"secret": "hunter2-extra"})
    assert run.ok
    files = [path for path in (tmp_path / "cell").rglob("*") if path.is_file()]
    assert files == [run.output]
    assert "hunter2" not in files[0].read_text()
    assert files[0].stat().st_mode & 0o777 == 0o600


def test_the_environment_that_ansible_gets(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("ANSIBLE_HOST_KEY_CHECKING", raising=False)
    names = ("PATH", "ANSIBLE_HOST_KEY_CHECKING", "ANSIBLE_CONFIG", OWNER_VARIABLE)
    lines = " ".join(f"{name}=[{{{{ lookup('env', '{name}') }}}}]" for name in names)
    write(checkout, "show", f'- ansible.builtin.debug: {{msg: "{lines}"}}\n')
    run = playbooks(checkout, owner="/sweeps/one").run("show", directory=tmp_path)
    assert run.ok, run.sentence
    assert run.output is not None
    text = run.output.read_text()
    assert f"PATH=[{Path(sys.executable).parent}{os.pathsep}" in text
    assert "ANSIBLE_HOST_KEY_CHECKING=[True]" in text
    assert f"ANSIBLE_CONFIG=[{checkout}/ansible.cfg]" in text
    assert f"{OWNER_VARIABLE}=[/sweeps/one]" in text


def test_a_cancel_is_fast_keeps_our_signal_handlers_and_is_reported(checkout: Path, tmp_path: Path) -> None:
    write(checkout, "wait", "- ansible.builtin.command: sleep 30\n")
    before = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    children: list[int] = []
    asked = threading.Event()
    timer = threading.Timer(2.0, asked.set)
    timer.start()
    started = time.monotonic()
    run = playbooks(checkout, on_child=children.append).run("wait", directory=tmp_path, cancelled=asked.is_set)
    assert run.status == "cancelled"
    assert time.monotonic() - started < 4.0
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert len(children) == 1
    assert run.sentence == "wait.yml was interrupted"
    assert run.output is not None
    assert not list(tmp_path.glob(".ansible-*"))


def test_a_failed_task_gives_its_sentence_result_and_timing(checkout: Path, tmp_path: Path) -> None:
    write(
        checkout,
        "fail",
        """
        - name: Ignored
          ansible.builtin.command: "false"
          ignore_errors: true
        - name: Fails
          ansible.builtin.fail: {msg: "the model is missing;\\n  give another"}
    """,
    )
    run = playbooks(checkout).run("fail", directory=tmp_path)
    assert run.status == "failed"
    assert run.sentence == "the model is missing; give another"
    assert run.failure is not None
    assert run.failure.task == "Fails"
    assert [task.task for task in run.tasks] == ["Ignored", "Fails"]
    assert run.tasks[0].seconds > 0.05
    assert run.seconds > sum(task.seconds for task in run.tasks)
    assert json.dumps([task.as_json() for task in run.tasks])


def test_unreachable_is_not_failed(checkout: Path, tmp_path: Path) -> None:
    write(checkout, "show", "- ansible.builtin.command: 'true'\n")
    run = playbooks(checkout, "gone").run("show", directory=tmp_path)
    assert run.status == "unreachable"
    assert run.sentence.startswith("the target cannot be reached: ")
    assert "\n" not in run.sentence


@pytest.mark.parametrize(
    "content", ["- hosts: inference\n  roles: [no_such_role]\n", "- hosts: inference\n  tasks: [}\n"]
)
def test_a_playbook_that_cannot_start_is_failed_with_a_reason(checkout: Path, tmp_path: Path, content: str) -> None:
    (checkout / "playbooks" / "broken.yml").write_text(content)
    run = playbooks(checkout).run("broken", directory=tmp_path)
    assert run.status == "failed"
    assert not run.tasks
    assert len(run.sentence) > 20


def test_no_matching_host_is_not_success(checkout: Path, tmp_path: Path) -> None:
    (checkout / "playbooks" / "other.yml").write_text("- hosts: nobody\n  tasks: []\n")
    assert playbooks(checkout).run("other", directory=tmp_path).status == "failed"


def test_the_live_phase_comes_from_retries(checkout: Path, tmp_path: Path) -> None:
    write(
        checkout,
        "retry",
        """
        - ansible.builtin.command: sh -c 'echo x >> {{ playbook_dir }}/count; wc -l < {{ playbook_dir }}/count'
          register: probe
          until: probe.stdout | int >= 3
          retries: 5
          delay: 0
    """,
    )
    seen: list[str] = []
    run = playbooks(checkout).run("retry", directory=tmp_path, on_phase=seen.append)
    assert run.ok
    assert seen == []  # this module reports no phase; the events test covers one that does


def test_an_error_of_ours_in_a_callback_ends_ansible_and_is_raised(checkout: Path, tmp_path: Path) -> None:
    write(checkout, "wait", "- ansible.builtin.command: sleep 30\n")
    children: list[int] = []

    def broken(pid: int) -> None:
        children.append(pid)
        raise ZeroDivisionError

    started = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        playbooks(checkout, on_child=broken).run("wait", directory=tmp_path)
    assert time.monotonic() - started < 10
    assert not Path(f"/proc/{children[0]}/cmdline").exists() or not Path(f"/proc/{children[0]}/cmdline").read_bytes()


def test_a_late_pexpect_timeout_does_not_hide_how_the_play_ended(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ansible_runner.run

    def late(**arguments: Any) -> None:
        real(**arguments)
        raise pexpect.exceptions.TIMEOUT("something still holds the terminal")

    monkeypatch.setattr(ansible_runner, "run", late)
    write(checkout, "show", "- ansible.builtin.debug: {msg: hello}\n")
    write(checkout, "fail", "- ansible.builtin.fail: {msg: no}\n")
    assert playbooks(checkout).run("show", directory=tmp_path).ok
    assert playbooks(checkout).run("fail", directory=tmp_path).status == "failed"


def test_four_runs_in_four_threads_do_not_mix(checkout: Path, tmp_path: Path) -> None:
    write(checkout, "show", '- ansible.builtin.debug: {msg: "number={{ number }}"}\n')
    outputs: dict[int, str] = {}

    def go(number: int) -> None:
        run = playbooks(checkout).run("show", directory=tmp_path / str(number), extra_vars={"number": number})
        outputs[number] = run.output.read_text() if run.output else ""

    threads = [threading.Thread(target=go, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(f"number={number}" in outputs[number] for number in range(4))


def test_a_deep_directory_is_no_problem(checkout: Path, tmp_path: Path) -> None:
    write(checkout, "show", "- ansible.builtin.command: 'true'\n")
    deep = tmp_path.joinpath(*["a-rather-long-directory-name"] * 6)
    assert playbooks(checkout).run("show", directory=deep).ok


def test_a_missing_playbook_and_an_unwritable_directory_are_errors(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"no playbook nothing\.yml"):
        playbooks(checkout).run("nothing", directory=tmp_path)
    write(checkout, "show", "- ansible.builtin.debug: {msg: hello}\n")
    (tmp_path / "file").write_text("")
    with pytest.raises(TargetError, match="cannot keep"):
        playbooks(checkout).run("show", directory=tmp_path / "file")


def test_the_command_can_be_copied(checkout: Path) -> None:
    write(checkout, "show", '- ansible.builtin.debug: {msg: "{{ text }} {{ number + 1 }}"}\n')
    line = playbooks(checkout).command("show", {"text": 'it\'s "quoted"', "number": 2})
    words = shlex.split(line)
    assert words[:5] == ["ansible-playbook", "-i", "inventory.yml", "-l", "here"]
    assert json.loads(words[-1]) == {"text": 'it\'s "quoted"', "number": 2}
    done = subprocess.run(
        line,
        shell=True,
        cwd=checkout,
        env=inventory_module.ansible_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "quoted" in done.stdout
    assert " 3" in done.stdout
    assert "-e" not in playbooks(checkout).command("show", {})


def test_what_a_killed_controller_left_of_ansible_goes(tmp_path: Path) -> None:
    left = tmp_path / "cells" / "b01" / "ansible" / ".ansible-restart-1" / "env"
    left.mkdir(parents=True)
    (left / "extravars").write_text("secret")
    (tmp_path / "cells" / "b01" / "ansible" / "restart.log").write_text("kept")
    assert discard_private_data(tmp_path) == 1
    assert [path.name for path in (tmp_path / "cells" / "b01" / "ansible").iterdir()] == ["restart.log"]


def test_a_command_for_copying_shows_no_secret(checkout: Path) -> None:
    extra = {"sglang_server_environment": {"HF_TOKEN": "hunter2", "NCCL_ALGO": "Tree"}}
    command = playbooks(checkout).command("restart", extra)
    assert "hunter2" not in command
    assert '"NCCL_ALGO": "Tree"' in command


def test_the_output_that_is_kept_is_redacted(checkout: Path, tmp_path: Path) -> None:
    write(checkout, "show", """- ansible.builtin.debug: {msg: "api_key='hunter2' NCCL_ALGO=Tree"}\n""")
    run = playbooks(checkout).run("show", directory=tmp_path)
    assert run.output is not None
    assert "hunter2" not in run.output.read_text()
    assert "NCCL_ALGO=Tree" in run.output.read_text()
