from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from ansible_collections.sglang_ops.eagle3.plugins.module_utils import python_site
from ansible_collections.sglang_ops.eagle3.plugins.modules import draft_config as module

from tests.unit.plugins import draft_models as models

if TYPE_CHECKING:
    from collections.abc import Callable

Result = dict[str, Any]
OVERRIDE = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run the module on the folders draft and target of tmp_path; the version is 0.5.15 unless given."""

    def run(**options: Any) -> Result:
        check = options.pop("check", False)
        arguments: Result = {"draft_path": str(tmp_path / "draft"), "target_path": str(tmp_path / "target")}
        arguments |= {
            "sglang_version": "0.5.15",
            "tp_size": 8,
            "_ansible_check_mode": check,
            "_ansible_diff": True,
            **options,
        }
        with patch_module_args(arguments), pytest.raises(SystemExit):
            module.main()
        result: Result = json.loads(capsys.readouterr().out)
        return result

    models.write_draft(tmp_path / "draft")
    models.write_target(tmp_path / "target")
    return run


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_patch_again_and_revert(tmp_path: Path, call: Callable[..., Result]) -> None:
    draft = tmp_path / "draft"
    before = files(draft)
    first = call()
    assert (first["changed"], first["clash"]) == (True, True)
    assert (first["target_context_length"], first["draft_context_length"]) == (262144, 262144)
    assert first["trained_context_length"] == 131072
    assert first["changed_keys"] == {"max_position_embeddings": {"before": 131072, "after": 262144}}
    assert first["diff"]["before"].strip() == '"max_position_embeddings": 131072,'
    assert any("wrong draft" in note for note in first["notes"])
    assert any("not been trained past 131072" in note for note in first["notes"])
    assert (draft / "config.json").read_bytes() == before["config.json"].replace(b"131072", b"262144")

    second = call()
    assert (second["changed"], second["clash"], second["backup"]) == (False, False, first["backup"])
    assert second["notes"] == first["notes"]

    assert call(state="reverted", check=True)["changed"]
    assert call(state="reverted")["changed"]
    assert files(draft) == before
    assert not call(state="reverted")["changed"]


def test_check_mode_writes_nothing(tmp_path: Path, call: Callable[..., Result]) -> None:
    before = files(tmp_path / "draft")
    result = call(check=True)
    assert result["changed"]
    assert result["diff"]["after"].strip() == '"max_position_embeddings": 262144,'
    assert files(tmp_path / "draft") == before


def test_a_longer_target_later_keeps_the_first_original(tmp_path: Path, call: Callable[..., Result]) -> None:
    before = files(tmp_path / "draft")
    first = call()
    models.write_target(tmp_path / "target", max_position_embeddings=524288)
    second = call()
    assert second["changed"]
    assert second["backup"] == first["backup"]
    call(state="reverted")
    assert files(tmp_path / "draft") == before


def test_a_file_changed_after_the_patch_is_not_overwritten(tmp_path: Path, call: Callable[..., Result]) -> None:
    call()
    models.write_draft(tmp_path / "draft", models.draft_config(comment="new"))
    result = call(state="reverted")
    assert "was changed after it was patched" in result["msg"]
    again = call()
    assert again["changed"]
    assert any("belongs to an earlier config.json" in note for note in again["notes"])


def test_the_cache_layout_keeps_its_blob(tmp_path: Path, call: Callable[..., Result]) -> None:
    snapshot = models.write_cached_draft(tmp_path / "cache")
    blob = (tmp_path / "cache" / "blobs" / "c0ffee").read_bytes()
    result = call(draft_path=str(snapshot))
    config = snapshot / "config.json"
    assert not config.is_symlink()
    assert Path(result["backup"]).readlink() == Path("../../blobs/c0ffee")
    assert not call(draft_path=str(snapshot))["changed"]
    assert call(draft_path=str(snapshot), state="reverted")["changed"]
    assert config.readlink() == Path("../../blobs/c0ffee")
    assert config.read_bytes() == blob


def test_a_leftover_of_a_killed_run_goes(tmp_path: Path, call: Callable[..., Result]) -> None:
    call()
    leftover = tmp_path / "draft" / ".config.json.sglang_ops-1-2.tmp"
    leftover.touch()
    result = call()
    assert result["changed"]
    assert result["removed_leftovers"] == [str(leftover)]
    assert not call()["changed"]


def test_limit_context(tmp_path: Path, call: Callable[..., Result]) -> None:
    result = call(strategy="limit_context")
    assert result["msg"].endswith("draft_config_strategy: limit_context\nsglang_server_context_length: 131072")
    result = call(strategy="limit_context", context_length=131072)
    assert (result["changed"], result["context_length"], result["clash"]) == (False, 131072, False)
    call()
    assert "draft_config_state: reverted" in call(strategy="limit_context", context_length=131072)["msg"]
    assert len(list((tmp_path / "draft").iterdir())) == 3


def test_allow_override(call: Callable[..., Result]) -> None:
    result = call(strategy="allow_override")
    assert f'sglang_server_environment: {{{OVERRIDE}: "1"}}' in result["msg"]
    result = call(strategy="allow_override", server_environment={OVERRIDE: "true"})
    assert (result["changed"], result["environment"]) == (False, {OVERRIDE: "1"})
    assert any("illegal memory" in note for note in result["notes"])
    assert call(strategy="limit_context", context_length=262144)["failed"]


def test_an_explicit_length_takes_part(call: Callable[..., Result]) -> None:
    assert not call(context_length=100000)["changed"]
    result = call(context_length=300000)
    assert "more than the target's own length of 262144" in result["msg"]
    assert call(context_length=300000, server_environment={OVERRIDE: "1"})["draft_context_length"] == 300000


def test_errors_fail_unless_they_are_only_to_be_warned_about(tmp_path: Path, call: Callable[..., Result]) -> None:
    models.write_draft(tmp_path / "draft", models.draft_config(draft_vocab_size="absent"))
    result = call()
    assert "AttributeError" in result["msg"]
    assert [finding["id"] for finding in result["findings"]] == ["draft-vocab-size-missing"]
    assert call(checks="warn")["changed"]


def test_damaged_weights_are_a_finding(tmp_path: Path, call: Callable[..., Result]) -> None:
    (tmp_path / "draft" / "model.safetensors").write_bytes(b"")
    assert [finding["id"] for finding in call()["findings"]] == ["weights-damaged"]


def test_a_yarn_draft_without_its_original_length_is_noted(tmp_path: Path, call: Callable[..., Result]) -> None:
    models.write_draft(tmp_path / "draft", models.draft_config(rope_scaling={"rope_type": "yarn", "factor": 2.0}))
    assert any("original_max_position_embeddings is missing" in note for note in call(check=True)["notes"])
    assert not call(sglang_version="0.5.9")["clash"]
    models.write_draft(tmp_path / "draft", models.draft_config(rope_scaling={"rope_type": "linear", "factor": 1.0}))
    assert not any("rotary" in note for note in call(check=True)["notes"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"draft_path": ""}, "draft_path is empty"),
        ({"target_path": ""}, "target_path is empty"),
        ({"target_path": "/no/such/model"}, "no such model path: /no/such/model"),
        ({"target_path": "/"}, "no config.json in /"),
        ({"sglang_version": "newest"}, "give three numbers"),
        ({"tp_size": 0}, "tp_size is 0"),
    ],
)
def test_refusals(call: Callable[..., Result], options: Result, sentence: str) -> None:
    assert sentence in call(**options)["msg"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("[]", "a JSON object is needed"), ('{"a" 1}', "line 1 column 6"), ('{"seq_length": "x"}', "a number is needed")],
)
def test_bad_configurations(tmp_path: Path, call: Callable[..., Result], text: str, sentence: str) -> None:
    (tmp_path / "draft" / "config.json").write_text(text)
    assert sentence in call()["msg"]


def test_unreadable_configuration(tmp_path: Path, call: Callable[..., Result]) -> None:
    (tmp_path / "target" / "config.json").unlink()
    (tmp_path / "target" / "config.json").mkdir()
    assert "cannot read" in call()["msg"]


def test_a_directory_that_cannot_be_written(call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refuse(path: Any, flags: int, *mode: int) -> int:
        if flags & os.O_CREAT and "sglang_ops" in str(path):
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *mode)

    monkeypatch.setattr(os, "open", refuse)
    assert "Permission denied; run as a user who may write there" in call()["msg"]


@pytest.mark.parametrize(
    ("answer", "version"), [("0.5.9", "0.5.9"), (None, None), (python_site.InterpreterError("gone."), None)]
)
def test_the_interpreter_is_asked_for_the_version(
    call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, answer: Any, version: str | None
) -> None:
    def answered(_python: str, _distribution: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(module, "installed_version", answered)
    result = call(sglang_version="", python="/venv/bin/python3", check=True)
    assert result["sglang_version"] == version
    assert any("not known" in note for note in result["notes"]) == (version is None)


def test_documentation_agrees_with_the_arguments() -> None:
    documented = yaml.safe_load(module.DOCUMENTATION)["options"]
    assert {
        name: {key: value for key, value in option.items() if key != "description"}
        for name, option in documented.items()
    } == module.ARGUMENTS
    assert yaml.safe_load(module.EXAMPLES)
    assert yaml.safe_load(module.RETURN)
