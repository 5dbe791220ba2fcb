"""What ``--shared-plan`` and ``--join`` refuse before a database is asked."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import pytest

from controller.cli import main
from controller.cli.fleet import check_sharing
from controller.exits import Exit, InputError
from controller.fleet.database import check_url, driver
from controller.fleet.leases import Alone
from controller.fleet.prepare import FleetContext, Sharing, resumed_fleet_sweep
from tests.unit.controller.fleet.timed_host import Heard
from tests.unit.controller.report.sample import BASELINE, SLOWER, write_sweep

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "url", ["postgresql://me:secret@host/db", "postgresql://me@host/db?password=secret", "mysql://me:secret@host/db"]
)
def test_a_password_has_no_place_on_a_command_line(url: str) -> None:
    with pytest.raises(InputError, match=r"~/\.pgpass") as caught:
        check_url(url)
    assert "secret" not in caught.value.sentence


def test_a_url_of_something_else_is_refused() -> None:
    assert check_url("postgresql://me@host/db") == "postgresql://me@host/db"
    for url in ("host=x dbname=y", "mysql://host/db", "postgresql://[broken"):
        with pytest.raises(InputError, match="URL"):
            check_url(url)


def test_a_missing_driver_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **more: Any) -> Any:
        if name == "psycopg":
            raise ImportError("No module named 'psycopg'")
        return real(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install 'sglang-eagle3-ops\[fleet\]'"):
        driver()


@pytest.mark.parametrize(
    ("hosts", "url", "join", "resume", "words"),
    [
        ("a", None, "S1", False, "give --shared-plan too"),
        ("a", "postgresql://h/d", "S1", True, "leave out --join"),
        (None, "postgresql://h/d", None, False, "say with --hosts"),
    ],
)
def test_options_that_lack_another(
    tmp_path: Path, hosts: str | None, url: str | None, join: str | None, resume: bool, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        check_sharing(hosts, url, join, tmp_path if resume else None)


def test_the_stop_rule_needs_all_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("inference:\n  hosts:\n    gpu1: {ansible_host: 192.0.2.1}\n")
    words = ["sweep", "--hosts", "gpu1", "-i", str(inventory), "--shared-plan", "postgresql://h/d"]
    assert main([*words, "--steps", "2", "--max-blocks", "9"]) == Exit.USAGE
    assert "--max-blocks and --budget look at all figures" in capsys.readouterr().err
    assert main([*words[:5], "--shared-plan", "postgresql://me:pw@h/d", "--steps", "2"]) == Exit.USAGE
    assert "~/.pgpass" in capsys.readouterr().err


def test_a_sweep_of_one_host_is_not_resumed_as_a_fleet(tmp_path: Path) -> None:
    directory = write_sweep(tmp_path / "s", {"baseline": BASELINE, "steps-2": SLOWER})
    with pytest.raises(InputError, match="measured one host"):
        resumed_fleet_sweep(FleetContext(directory, (), Heard()), Sharing("postgresql://h/d"))


def test_a_controller_that_is_alone_has_every_block() -> None:
    alone = Alone()
    assert alone.agree({"driver": "580"}) == {}
    assert alone.keep([1, 2]) == {1, 2}
    assert alone.take("a", [3, 1]) == 3
    assert alone.take("a", []) is None
    assert alone.finish(3)
    assert alone.renew() == set()
    assert alone.others().trouble == ""
    alone.give_back(3)
    alone.close()
