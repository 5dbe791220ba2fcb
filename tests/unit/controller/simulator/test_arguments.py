import json
from pathlib import Path

import pytest

from controller.simulator.site.sglang.arguments import build_parser, human_readable_int, parse
from controller.simulator.site.sglang.resolution import captured_batch_sizes, describe, resolve

GOLDEN = (
    "--model-path {target} --trust-remote-code --tp-size 8 --mem-fraction-static 0.88 --host 0.0.0.0 --port 8000 "
    "--num-continuous-decode-steps 4 --disable-custom-all-reduce --speculative-algorithm EAGLE3 "
    "--speculative-draft-model-path {draft} --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 "
    "--speculative-num-steps 3"
)


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, Path]:
    target, draft = tmp_path / "target", tmp_path / "draft"
    for folder, length in ((target, 262144), (draft, 131072)):
        folder.mkdir()
        config = {"architectures": ["KimiK25ForConditionalGeneration"], "max_position_embeddings": length}
        (folder / "config.json").write_text(json.dumps(config))
    return target, draft


def resolved(models: tuple[Path, Path], *more: str, base: str = GOLDEN) -> tuple[dict[str, object], list[str]]:
    warnings: list[str] = []
    fields = parse([*base.format(target=models[0], draft=models[1]).split(), *more], warnings.append)
    resolve(fields, warnings.append)
    return fields, warnings


def test_the_golden_command_line(models: tuple[Path, Path]) -> None:
    fields, warnings = resolved(models)
    expected = {
        "tp_size": 8,
        "mem_fraction_static": 0.88,
        "port": 8000,
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": 3,
        "speculative_num_draft_tokens": 4,
        "max_running_requests": 48,
        "speculative_draft_model_revision": "main",
        "disable_custom_all_reduce": True,
    }
    assert {key: fields[key] for key in expected} == expected
    (warning,) = warnings
    assert warning.startswith("Max running requests is reset to 48 for speculative decoding.")


def test_there_are_437_flags_and_aliases() -> None:
    flags = {option for action in build_parser()._actions for option in action.option_strings}
    assert len(flags - {"-h", "--help"}) > 437  # aliases and --no- forms come on top of the 437 flags
    assert {"--tp-size", "--tensor-parallel-size", "--cuda-graph-max-bs", "--speculative-adaptive"} <= flags


def test_an_unknown_flag_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse(["--model-path", "x", "--no-such-flag"])
    assert stopped.value.code == 2
    assert "unrecognized arguments: --no-such-flag" in capsys.readouterr().err


def test_prefixes_are_accepted_and_ambiguous_ones_refused() -> None:
    fields = parse(["--model", "m", "--mem-fraction", "0.5", "--speculative-algo", "EAGLE3", "--tp", "2"])
    assert (fields["mem_fraction_static"], fields["speculative_algorithm"], fields["tp_size"]) == (0.5, "EAGLE3", 2)
    with pytest.raises(SystemExit):
        parse(["--model-path", "m", "--speculative", "x"])


def test_a_deprecated_flag_warns_and_stores() -> None:
    warnings: list[str] = []
    fields = parse(["--model-path", "m", "--cuda-graph-max-bs", "16", "--disable-cuda-graph"], warnings.append)
    assert fields["cuda_graph_max_bs_decode"] == 16
    assert fields["disable_cuda_graph"] is True
    assert len(warnings) == 2
    assert "'--cuda-graph-max-bs-decode' instead" in warnings[0]


def test_lists_json_and_units() -> None:
    line = "--model-path m --cuda-graph-bs-decode 1 2 4 --context-length 128k --served-model-name kimi"
    fields = parse(line.split())
    assert fields["cuda_graph_bs_decode"] == [1, 2, 4]
    assert fields["context_length"] == 128000
    assert human_readable_int("1K") == 1024
    assert human_readable_int("7") == 7


def test_a_config_file_comes_before_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(
        "# comment\nmodel-path: m\ntp-size: 4\nport: '9000'\ntrust-remote-code: true\nenable-metrics: false\n"
    )
    fields = parse(["--config", str(file), "--tp-size", "2"])
    assert (fields["model_path"], fields["tp_size"], fields["port"]) == ("m", 2, 9000)
    assert (fields["trust_remote_code"], fields["enable_metrics"]) == (True, False)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("server.txt", "a: b", "must be YAML"),
        ("server.yaml", "just words", "dictionary at root level"),
        ("server.yml", "a:\n  b: c", "dictionary at root level"),
    ],
)
def test_bad_config_files_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        parse(["--config", str(tmp_path / name)])


def test_config_needs_exactly_one_existing_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not found"):
        parse(["--config", str(tmp_path / "none.yaml")])
    with pytest.raises(ValueError, match="No config file"):
        parse(["--config"])
    with pytest.raises(ValueError, match="Multiple config files"):
        parse(["--config", "a.yaml", "--config", "b.yaml"])


def test_draft_tokens_are_rewritten_with_a_warning(models: tuple[Path, Path]) -> None:
    fields, warnings = resolved(models, "--speculative-num-steps", "5")
    assert fields["speculative_num_draft_tokens"] == 6
    assert "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1" in warnings[-1]


def test_steps_without_topk_is_a_type_error(models: tuple[Path, Path]) -> None:
    base = GOLDEN.replace("--speculative-eagle-topk 1 ", "")
    with pytest.raises(TypeError, match="'>' not supported between instances of 'NoneType' and 'int'"):
        resolved(models, base=base)


def test_topk_without_steps_is_a_bare_assertion(models: tuple[Path, Path]) -> None:
    with pytest.raises(AssertionError):
        resolved(models, base=GOLDEN.replace(" --speculative-num-steps 3", ""))


def test_no_numbers_means_automatic_ones(models: tuple[Path, Path]) -> None:
    fields, _ = resolved(models, base=GOLDEN.partition(" --speculative-eagle-topk")[0])
    names = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")
    assert [fields[name] for name in names] == [3, 1, 4]


def test_without_speculation_running_requests_are_not_capped(models: tuple[Path, Path]) -> None:
    fields, warnings = resolved(models, base=GOLDEN.partition(" --speculative-algorithm")[0])
    assert fields["max_running_requests"] is None
    assert warnings == []
    assert captured_batch_sizes(fields, 4096)[-1] == 256


def test_graphs_are_captured_up_to_the_running_requests(models: tuple[Path, Path]) -> None:
    fields, _ = resolved(models)
    sizes = captured_batch_sizes(fields, 48)
    assert sizes == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 40, 44, 48]


def test_the_largest_batch_that_can_occur_is_captured_too(models: tuple[Path, Path]) -> None:
    fields, _ = resolved(models)
    assert captured_batch_sizes(fields, 9)[-2:] == [8, 9]


def test_adaptive_refuses_other_steps(models: tuple[Path, Path]) -> None:
    with pytest.raises(ValueError, match=r"=2 is not in the adaptive config candidate_steps \[0, 1, 3, 7\]\. Pass one"):
        resolved(models, "--speculative-adaptive", "--speculative-num-steps", "2")


def test_adaptive_reads_its_candidates_from_a_file(models: tuple[Path, Path], tmp_path: Path) -> None:
    tiers = tmp_path / "tiers.json"
    tiers.write_text(json.dumps({"1": {"candidate_steps": [2, 5]}, "8": {"candidate_steps": [1]}}))
    adaptive = ("--speculative-adaptive", "--speculative-adaptive-config", str(tiers))
    with pytest.raises(ValueError, match=r"=3 is not in the adaptive config candidate_steps \[1, 2, 5\]"):
        resolved(models, *adaptive)
    fields, _ = resolved(models, *adaptive, "--speculative-num-steps", "5")
    assert fields["speculative_num_draft_tokens"] == 6
    fields, _ = resolved(models, *adaptive, base=GOLDEN.partition(" --speculative-eagle-topk")[0])
    names = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")
    assert [fields[name] for name in names] == [2, 1, 3]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (("--speculative-eagle-topk", "4"), "speculative_eagle_topk=4 (only topk=1 is supported)"),
        (
            ("--speculative-algorithm", "STANDALONE"),
            "speculative_algorithm=STANDALONE (only EAGLE",
        ),
        (("--enable-dp-attention",), "enable_dp_attention=True is not supported"),
    ],
)
def test_adaptive_is_dropped_where_it_cannot_work(
    models: tuple[Path, Path], more: tuple[str, ...], reason: str
) -> None:
    fields, warnings = resolved(models, "--speculative-adaptive", *more)
    assert not fields["speculative_adaptive"]
    assert warnings[0].startswith(f"speculative_adaptive disabled: {reason}")
    assert warnings[0].endswith("Falling back to static speculative params.")


@pytest.mark.parametrize(
    ("flags", "backends"),
    [
        ((), ("full", "breakable")),
        (("--disable-cuda-graph",), ("disabled", "disabled")),
        (("--disable-prefill-cuda-graph",), ("full", "disabled")),
        (("--disable-decode-cuda-graph",), ("disabled", "breakable")),
        (("--disable-cuda-graph", "--cuda-graph-backend-decode", "full"), ("full", "disabled")),
    ],
)
def test_backends_of_graphs(models: tuple[Path, Path], flags: tuple[str, ...], backends: tuple[str, str]) -> None:
    graphs = resolved(models, *flags)[0]["cuda_graph_config"]
    assert isinstance(graphs, dict)
    assert (graphs["decode"]["backend"], graphs["prefill"]["backend"]) == backends


def test_a_missing_model_path_is_the_real_error(models: tuple[Path, Path]) -> None:
    with pytest.raises(OSError, match="Incorrect path_or_model_id: '/no/such/model'"):
        resolved(models, "--model-path", "/no/such/model")


def test_the_description_names_every_field(models: tuple[Path, Path]) -> None:
    fields, _ = resolved(models, "--api-key", "secret")
    text = describe(fields)
    assert text.startswith("ServerArgs(model_path='")
    assert "api_key='secret'" in text  # in clear, as the real server logs it
    assert "cuda_graph_config=CudaGraphConfig(decode=PhaseConfig(backend='full'" in text
