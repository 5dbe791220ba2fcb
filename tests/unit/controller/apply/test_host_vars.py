from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from controller.apply import host_vars
from controller.apply.host_vars import BEGIN, END, FILE, HostVars, rendered, settings_in
from controller.exits import InputError
from controller.inventory import read_target

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS = {"sglang_server_speculative": True, "sglang_server_speculative_num_steps": 3}
CONTENT = rendered(SETTINGS, "Why\nand when")
HAND = "# kept\nansible_user: root   # by us\nsecret: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  3061\n"


@pytest.fixture
def ours(tmp_path: Path) -> HostVars:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("inference:\n  hosts:\n    box: {ansible_host: 192.0.2.9, sglang_server_port: 1}\n")
    return HostVars.of(inventory, "box")


def file_layout(ours: HostVars, text: str = HAND, name: str = "box.yml") -> Path:
    path = ours.directory / "host_vars" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode())
    return path


def seen_by_ansible(ours: HostVars) -> dict[str, object]:
    variables = read_target(ours.directory / "hosts.yml", "box").variables
    return {name: variables.get(name) for name in (*SETTINGS, "ansible_user")}


def test_without_anything_a_folder_with_one_file_is_made_and_removed(ours: HostVars) -> None:
    assert ours.read() is None
    path = ours.write(CONTENT)
    assert path == ours.path == ours.folder / FILE
    assert path.stat().st_mode & 0o777 == 0o644
    assert yaml.safe_load(path.read_text()) == SETTINGS
    assert path.read_text().startswith("---\n# Why\n# and when\n")
    assert ours.read() == CONTENT
    assert settings_in(ours.read(), path) == SETTINGS
    assert seen_by_ansible(ours) == {**SETTINGS, "ansible_user": None}
    ours.write(None)
    assert ours.read() is None
    assert not ours.folder.exists()  # an empty folder would hide box.yml
    ours.write(None)


def test_what_was_copied_out_of_the_inventory_is_for_its_owner_alone(ours: HostVars) -> None:
    path = ours.write(rendered({"sglang_server_environment": {"A": "1"}}, "x"))
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_operators_folder_keeps_its_files(ours: HostVars) -> None:
    ours.folder.mkdir(parents=True)
    (ours.folder / "main.yml").write_text(HAND)
    ours.write(CONTENT)
    ours.write(None)
    assert [path.name for path in ours.folder.iterdir()] == ["main.yml"]
    assert (ours.folder / "main.yml").read_text() == HAND


@pytest.mark.parametrize("name", ["box", "box.yml", "box.yaml"])
def test_the_operators_file_gets_a_block_and_no_folder_that_would_hide_it(ours: HostVars, name: str) -> None:
    path = file_layout(ours, HAND.replace("secret", "other").replace("!vault", ""), name)
    before = path.read_bytes()
    path.chmod(0o640)
    assert ours.write(CONTENT) == path
    assert path.stat().st_mode & 0o777 == 0o640
    assert not ours.folder.is_dir()
    assert path.read_bytes().startswith(before)
    assert ours.read() == CONTENT
    assert seen_by_ansible(ours) == {**SETTINGS, "ansible_user": "root"}
    ours.write(rendered({"sglang_server_speculative": False}, "less"))
    assert path.read_text().count(BEGIN) == path.read_text().count(END) == 1
    ours.write(None)
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", [HAND, HAND.replace("\n", "\r\n"), "", "---\n", "# only a comment\n", "a: 1"])
def test_every_other_byte_stays(ours: HostVars, text: str) -> None:
    path = file_layout(ours, text)
    ours.write(CONTENT)
    assert path.read_bytes().decode().startswith(text)
    assert ours.read() == CONTENT
    ours.write(None)
    assert path.read_bytes().decode() == (text if text.endswith("\n") or not text else f"{text}\n")


def test_what_stands_after_the_block_stays_too(ours: HostVars) -> None:
    path = file_layout(ours)
    ours.write(CONTENT)
    path.write_text(f"{path.read_text()}later: 1\n")
    ours.write(rendered({"sglang_server_tp_size": 2}, "x"))
    assert path.read_text().startswith(HAND)
    assert path.read_text().endswith(f"{END}\nlater: 1\n")
    ours.write(None)
    assert path.read_text() == f"{HAND}later: 1\n"


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("{ansible_user: root}\n", "box.yml", "no plain list"),
        ("a: 1\n...\n", "box.yml", "no plain list"),
        ("- a\n", "box.yml", "does not hold variables"),
        ("a: [\n", "box.yml", "is not YAML"),
        ("$ANSIBLE_VAULT;1.1;AES256\n3061\n", "box.yml", "encrypted as a whole"),
        ('{"a": 1}\n', "box.json", "is JSON"),
        (f"{BEGIN}\na: 1\n", "box.yml", "damaged"),
        (f"{END}\na: 1\n{BEGIN}\n", "box.yml", "damaged"),
    ],
)
def test_a_file_that_cannot_take_the_block_is_refused_and_stays(
    ours: HostVars, text: str, name: str, words: str
) -> None:
    path = file_layout(ours, text, name)
    with pytest.raises(InputError, match=words):
        ours.write(CONTENT)
    assert path.read_text() == text


def test_a_file_that_is_no_text_and_one_that_cannot_be_written(ours: HostVars, tmp_path: Path) -> None:
    path = file_layout(ours)
    path.write_bytes(b"a: \xff\n")
    with pytest.raises(InputError, match="UTF-8"):
        ours.read()
    path.unlink()
    path.symlink_to(tmp_path)  # a folder behind the name of a file
    with pytest.raises(InputError, match="a folder with the name of a file"):
        ours.read()
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("")
    with pytest.raises(InputError, match="cannot keep the settings"):
        ours.write(CONTENT)


def test_a_link_stays_a_link(ours: HostVars, tmp_path: Path) -> None:
    real = tmp_path / "real.yml"
    real.write_text("a: 1\n")
    file_layout(ours).unlink()
    link = ours.directory / "host_vars" / "box.yml"
    link.symlink_to(real)
    ours.write(CONTENT)
    assert link.is_symlink()
    assert END in real.read_text()


def test_a_directory_is_the_inventory_itself_and_a_bad_name_is_refused(tmp_path: Path) -> None:
    assert HostVars.of(tmp_path, "box").directory == tmp_path
    for name in ("a/b", "..", ".x"):
        with pytest.raises(InputError, match="name"):
            HostVars.of(tmp_path, name)


def test_what_is_set_by_hand_is_found_with_file_and_line(
    ours: HostVars, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_vars, "REPOSITORY", tmp_path / "checkout")
    assert ours.set_by_hand(SETTINGS) == []
    path = file_layout(ours, f"{HAND}sglang_server_speculative: false\n")
    (found,) = ours.set_by_hand(SETTINGS)
    assert (found.name, found.path, found.line) == ("sglang_server_speculative", path, 6)
    assert "box.yml, line 6" in found.sentence
    path.write_text(f"{BEGIN}\n{CONTENT}{END}\nsglang_server_speculative_num_steps: 1\n")
    (found,) = ours.set_by_hand(SETTINGS)
    assert path.read_text().splitlines()[found.line - 1] == "sglang_server_speculative_num_steps: 1"
    path.unlink()

    for name in ("zz.yml", ".hidden.yml", "old.yml~", "notes.txt", "deep/er.yaml", "vaulted.yml"):
        (ours.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (ours.folder / name).write_text("sglang_server_speculative: 1\n")
    (ours.folder / "vaulted.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n3061\n")
    ours.write(CONTENT)
    found_names = [one.path.name for one in ours.set_by_hand(SETTINGS)]
    assert found_names == ["er.yaml", "zz.yml"]
    beside = tmp_path / "checkout" / "playbooks" / "host_vars" / "box.yml"
    beside.parent.mkdir(parents=True)
    beside.write_text("sglang_server_speculative: 1\n")
    assert ours.set_by_hand(SETTINGS)[-1].path == beside


def test_ansible_reads_the_folder_and_not_the_file_beside_it(ours: HostVars) -> None:
    """The reason for the block: this is what a folder beside the operator's file would do."""
    file_layout(ours, "ansible_user: root\n")
    ours.folder.mkdir()
    assert seen_by_ansible(ours)["ansible_user"] is None


@pytest.mark.parametrize("write", [lambda ours: ours.write(CONTENT), lambda ours: ours.write(None)])
def test_a_crash_while_writing_leaves_the_old_file(
    ours: HostVars, write: Callable[[HostVars], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file_layout(ours, f"a: 1\n{BEGIN}\nb: 1\n{END}\n")
    before = path.read_bytes()

    def die(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "replace", die)
    with pytest.raises(InputError, match="No space left"):
        write(ours)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["box.yml"]
