from __future__ import annotations

from typing import Any

import pytest

from controller.exits import InputError
from controller.load.server import ServerError
from controller.load.workload import load
from controller.sweep import http_load
from controller.sweep.http_load import HttpLoad
from tests.unit.controller.sweep.fakes import record


def refuse(*_: Any, **__: Any) -> None:
    raise ServerError("gone")


def test_progress_counts_tokens_and_unscaled_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(url: str, _: Any, *, on_request: Any, **options: Any) -> list[Any]:
        assert (url, options["api_key"], options["time_scale"]) == ("http://server", "key", 0.5)
        for _ in range(2):
            on_request(record())
        return [record(), record()]

    monkeypatch.setattr(http_load, "run_workload", run)
    seen: list[int] = []
    one = HttpLoad(load("mixed", repeats=1), "key")
    found = one.run(
        "http://server",
        run=0,
        concurrency=1,
        warmup=False,
        time_scale=0.5,
        on_tokens=lambda count, _: seen.append(count),
    )
    assert len(found) == 2
    assert seen == [101, 202]
    assert (tuple(one.levels), one.repeats) == ((1,), 1)


def test_a_server_that_is_gone_is_left_to_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_load, "server_info", refuse)
    monkeypatch.setattr(http_load, "flush_cache", refuse)
    one = HttpLoad(load("mixed", repeats=1))
    assert one.server_info("http://server") == {}
    one.flush_cache("http://server")


def test_no_warm_up_and_an_unusable_address() -> None:
    one = HttpLoad(load("mixed", repeats=1, warmup_prompts=0))
    options: dict[str, Any] = {"run": 0, "concurrency": 1, "time_scale": 1.0, "on_tokens": lambda *_: None}
    assert one.run("http://server", warmup=True, **options) == []
    with pytest.raises(InputError, match="cannot send load"):
        one.run("not an address", warmup=False, **options)
