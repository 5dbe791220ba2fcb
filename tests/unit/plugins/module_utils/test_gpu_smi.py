from __future__ import annotations

import contextlib

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_smi import (
    ComputeApp,
    Gpu,
    NvidiaSmiFormatError,
    normalise_bus_id,
    parse_compute_apps,
    parse_gpus,
)
from hypothesis import given
from hypothesis import strategies as st

words = st.text(
    st.characters(blacklist_categories=("Cc", "Cs", "Zs", "Zl", "Zp"), blacklist_characters=","), min_size=1
)
names = st.lists(words, min_size=1, max_size=4).map(", ".join).map(str.strip)
mebibytes = st.integers(0, 10**6)


@given(st.lists(st.tuples(st.integers(0, 15), st.uuids(), mebibytes, mebibytes)))
def test_gpus_come_back_as_written(rows: list[tuple[int, object, int, int]]) -> None:
    gpus = [Gpu(index, f"GPU-{uuid}", "00000000:01:00.0", used, total) for index, uuid, used, total in rows]
    text = "".join(f"{g.index}, {g.uuid}, {g.bus_id}, {g.used_mib}, {g.total_mib}\n" for g in gpus)
    assert parse_gpus(text) == gpus


@given(st.lists(st.tuples(st.uuids(), st.integers(1, 2**22), names, st.none() | mebibytes)))
def test_compute_apps_come_back_as_written(rows: list[tuple[object, int, str, int | None]]) -> None:
    apps = [ComputeApp(f"GPU-{uuid}", pid, name, used) for uuid, pid, name, used in rows]
    lines = [f"{a.gpu_uuid}, {a.pid}, {a.name}, {'[N/A]' if a.used_mib is None else a.used_mib}" for a in apps]
    assert parse_compute_apps("\n".join(lines) + "\n\n") == apps


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in (parse_gpus, parse_compute_apps):
        with contextlib.suppress(NvidiaSmiFormatError):
            assert isinstance(parse(text), list)


@pytest.mark.parametrize(
    "line",
    [
        "0, GPU-1, 00000000:01:00.0, 4",
        "0, GPU-1, 00000000:01:00.0, [N/A], 97887",
        "No devices were found",
        "NVIDIA-SMI has failed, because, it, could, not",
    ],
)
def test_a_gpu_line_without_memory_is_refused(line: str) -> None:
    with pytest.raises(NvidiaSmiFormatError, match=r"got|in"):
        parse_gpus(line)


@pytest.mark.parametrize("line", ["GPU-1, 17, python3", "GPU-1, x, python3, 4", "GPU-1, 17, python3, 4 MiB"])
def test_another_compute_line_is_refused(line: str) -> None:
    with pytest.raises(NvidiaSmiFormatError):
        parse_compute_apps(line)


@pytest.mark.parametrize("unknown", ["[N/A]", "[Not Supported]", "[Insufficient Permissions]", "N/A"])
def test_memory_that_the_driver_does_not_give(unknown: str) -> None:
    assert parse_compute_apps(f"GPU-1, 17, [Not Found], {unknown}") == [ComputeApp("GPU-1", 17, "[Not Found]", None)]


def test_no_processes_in_words() -> None:
    assert parse_compute_apps("No running processes found\n") == []


@pytest.mark.parametrize(
    ("given_id", "expected"),
    [
        ("00000000:C1:00.0", "0000:c1:00.0"),
        ("0001:01:00.0", "0001:01:00.0"),
        ("01:00.0", "01:00.0"),
        ("xyz:01:00.0", "xyz:01:00.0"),
    ],
)
def test_bus_ids(given_id: str, expected: str) -> None:
    assert normalise_bus_id(given_id) == expected
