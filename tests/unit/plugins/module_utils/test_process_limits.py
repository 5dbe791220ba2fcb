from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_limits import (
    LimitError,
    Shortfall,
    parse_limits,
    parse_wish,
    read_granted,
    shortfalls,
)

KERNEL = """\
Limit                     Soft Limit           Hard Limit           Units
Max open files            20000                1048576              files
Max locked memory         8388608              unlimited            bytes
Max realtime timeout      unlimited            unlimited            us
"""


def test_the_soft_limits_are_those_that_count() -> None:
    assert parse_limits(KERNEL) == {"nofile": 20000, "memlock": 8388608}
    assert parse_limits("Max locked memory         unlimited            unlimited            bytes") == {
        "memlock": "unlimited"
    }


@pytest.mark.parametrize(
    ("text", "limit"),
    [("infinity", "unlimited"), ("unlimited", "unlimited"), (-1, "unlimited"), (1048576, 1048576), (" 7 ", 7)],
)
def test_wishes(text: str | int, limit: int | str) -> None:
    assert parse_wish(text) == limit


@pytest.mark.parametrize("text", ["8G", "", "-2"])
def test_a_wish_that_is_no_number(text: str) -> None:
    with pytest.raises(LimitError, match="neither a whole number nor infinity"):
        parse_wish(text)


@pytest.mark.parametrize(
    ("wanted", "granted", "short"),
    [
        ("unlimited", "unlimited", False),
        ("unlimited", 8388608, True),
        (1048576, "unlimited", False),
        (1048576, 20000, True),
        (1024, 20000, False),
    ],
)
def test_less_than_wished_is_a_shortfall(wanted: int | str, granted: int | str, short: bool) -> None:
    found = shortfalls({"memlock": wanted}, {"memlock": granted})
    assert found == ([Shortfall("memlock", wanted, granted)] if short else [])


def test_the_oom_score_has_to_be_equal() -> None:
    assert shortfalls({"oom_score_adj": -500}, {"oom_score_adj": 0}) == [Shortfall("oom_score_adj", -500, 0)]
    assert not shortfalls({"oom_score_adj": 100}, {"oom_score_adj": 100})
    assert not shortfalls({"nofile": 5}, {})


def test_sentences_name_value_wish_and_remedy() -> None:
    memlock = Shortfall("memlock", "unlimited", 8388608).sentence("sglang.service (pid 12)")
    assert "sglang.service (pid 12) may have 8388608 bytes of memlock instead of unlimited" in memlock
    assert "'lxc.prlimit.memlock: unlimited' into /etc/pve/lxc/<vmid>.conf" in memlock
    assert "20000 of nofile instead of 1048576" in Shortfall("nofile", 1048576, 20000).sentence("it")
    assert "oom_score_adj 0 instead of -500" in Shortfall("oom_score_adj", -500, 0).sentence("it")


def test_this_process() -> None:
    granted = read_granted(os.getpid())
    assert granted is not None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert granted["nofile"] == soft
    assert granted["oom_score_adj"] == int(Path("/proc/self/oom_score_adj").read_text())


def test_a_process_that_is_gone(tmp_path: Path) -> None:
    assert read_granted(7, str(tmp_path)) is None
    (tmp_path / "7").mkdir()
    (tmp_path / "7/limits").write_text("")
    (tmp_path / "7/oom_score_adj").write_text("")
    assert read_granted(7, str(tmp_path)) is None
