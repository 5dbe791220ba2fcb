"""The role monitoring run for real: its files, every alert in promtool's simulation, and a real Prometheus.

The real one scrapes a simulated server.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from controller.simulator import create_node
from tests.integration.monitoring import LENGTH_LOW, MACHINE, REPOSITORY, SERVER, Role, promtool, require_programs
from tests.integration.monitoring_scenarios import (
    DOWN,
    INTERVAL_S,
    SCENARIOS,
    SLOW,
    Scenario,
    as_test,
    inputs,
    level,
    server,
    simulate,
)
from tests.integration.simulated_launch import Launch, free_port
from tests.integration.simulated_node import recap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE_S = 40.0


@pytest.fixture(scope="module")
def role(tmp_path_factory: pytest.TempPathFactory) -> Role:
    """The role, looked at in check mode, then run, then run again as beside a Prometheus with its own configuration."""
    require_programs()
    made = Role(tmp_path_factory.mktemp("monitoring"))
    every = {"monitoring_scrape_interval_s": INTERVAL_S}
    looked = made.play("--check", "--diff", monitoring_prometheus_config="fragment", **every)
    assert looked.returncode == 0, looked.stdout + looked.stderr
    assert "SGLangServerDown" in looked.stdout
    assert "does not mention" in looked.stdout
    assert not made.config.exists()
    assert not made.dashboards.exists()
    done = made.play(**every)
    assert done.returncode == 0, done.stdout + done.stderr
    before = content(made.root)
    again = made.play(monitoring_prometheus_config="fragment", **every)
    assert recap(again.stdout)["changed"] == 0, again.stdout
    assert "does not mention" not in again.stdout
    assert content(made.root) == before
    return made


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def jobs(role: Role) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((role.config / "sglang" / "scrape.yml").read_text())["scrape_configs"]
    return found


def test_what_is_written(role: Role) -> None:
    promtool("check", "config", str(role.config / "prometheus.yml"))
    targets = yaml.safe_load((role.config / "sglang" / "targets-server.yml").read_text())
    assert [target["targets"] for target in targets] == [
        ["192.0.2.129:8000"],
        ["gpu2.example.org"],
        ["192.0.2.129:8000"],
    ]
    assert [target["labels"]["machine"] for target in targets] == [MACHINE, MACHINE, "pve2.example.org"]
    assert [target["labels"].get("__scheme__") for target in targets] == [None, "https", None]
    assert targets[0]["labels"]["instance"] == SERVER
    assert [job["job_name"] for job in jobs(role)] == ["sglang", "sglang-gpu"]
    runbooks = {rule["annotations"]["runbook_url"].rpartition("/")[2] for rule in role.rules("alerts")}
    assert all((REPOSITORY / "docs" / "runbooks" / page).is_file() for page in runbooks), runbooks


def test_scenarios(role: Role, tmp_path: Path) -> None:
    simulate(role, tmp_path, *(as_test(scenario) for scenario in SCENARIOS))


def test_a_wrong_expectation_is_noticed(role: Role, tmp_path: Path) -> None:
    wrong = Scenario("wrong", server(), {22: {DOWN}})
    with pytest.raises(AssertionError, match="wrong"):
        simulate(role, tmp_path, as_test(wrong))


def test_every_alert_has_a_scenario_in_which_it_fires(role: Role) -> None:
    fires = {name for scenario in SCENARIOS for alerts in scenario.firing.values() for name in alerts}
    assert fires == {rule["alert"] for rule in role.rules("alerts")}


def test_the_words_of_an_alert_are_filled_in(role: Role, tmp_path: Path) -> None:
    (rule,) = [rule for rule in role.rules("alerts") if rule["alert"] == SLOW]
    values = {"$labels.instance": SERVER, '$value | printf "%.1f"': "40.0"}
    words = {
        name: re.sub(r"\{\{ (.+?) \}\}", lambda match: values[match[1]], text)
        for name, text in rule["annotations"].items()
    }
    expected = {
        "exp_labels": {"severity": "warning", "instance": SERVER, "machine": MACHINE},
        "exp_annotations": words,
    }
    check = {"eval_time": "22m", "alertname": SLOW, "exp_alerts": [expected]}
    series = server({"gen_throughput": level(40)})
    simulate(role, tmp_path, {"input_series": inputs(series), "alert_rule_test": [check]})


def test_the_recorded_figures(role: Role, tmp_path: Path) -> None:
    def figures(series: dict[str, str], **expected: float) -> dict[str, Any]:
        # Rounded, because rates are floats.
        queries = [
            {
                "expr": f"round(1000 * sum(instance:sglang_{name.replace('__', ':')}))",
                "eval_time": "22m",
                "exp_samples": [{"labels": "{}", "value": value}],
            }
            for name, value in expected.items()
        ]
        return {"input_series": inputs(series), "promql_expr_test": queries}

    simulate(
        role,
        tmp_path,
        figures(
            server(),
            acceptance_length__rate15m=1800,
            cycle_seconds__mean=30,
            generation_tokens_per_second__sum=60000,
            open_requests__sum=1000,
        ),
        figures(server({"spec_accept_length": "", "spec_verify_calls_total": ""}), cycle_seconds__mean=17),
    )


def test_a_server_without_metrics_is_refused(tmp_path: Path) -> None:
    require_programs()
    role = Role(tmp_path)
    role.hosts["inference"]["hosts"][SERVER]["sglang_server_enable_metrics"] = False
    done = role.play("--check")
    assert done.returncode == 2
    assert f"The server of {SERVER} exports no metrics" in done.stdout
    assert not role.config.exists()


class Prometheus:
    """A real one with its data in a directory of the test."""

    def __init__(self, config: Path, data: Path) -> None:
        self.port = free_port()
        self.log = data.with_suffix(".log")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={config}",
                    f"--storage.tsdb.path={data}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdout=log,
                stderr=log,
                env=os.environ | {"GOMAXPROCS": "1"},
            )
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}/api/v1", timeout=10, trust_env=False)

    def query(self, expression: str) -> list[dict[str, Any]]:
        answer = self.client.get("/query", params={"query": expression})
        assert answer.status_code != 400, answer.text  # no valid query; 503 while it starts
        found: list[dict[str, Any]] = answer.raise_for_status().json()["data"]["result"]
        return found

    def value(self, expression: str) -> float | None:
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def wait(self, expression: str, fits: Callable[[float], bool]) -> float:
        deadline = time.monotonic() + PATIENCE_S
        seen: float | None = None
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            with contextlib.suppress(httpx.HTTPError):
                seen = self.value(expression)
                if seen is not None and fits(seen):
                    return seen
            time.sleep(0.1)
        raise AssertionError(f"{expression} was {seen} at last; {self.log.read_text()[-2000:]}")

    def close(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(20)


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    require_programs()
    node = create_node(tmp_path / "node", profile="fast", gpus=2)
    with Launch(node, "--context-length", "131072", "--enable-metrics", steps=3) as started:
        yield started.ready()


def quick_configuration(role: Role, folder: Path, port: int) -> Path:
    """Return a configuration with what the role wrote, in seconds instead of minutes, for one simulated server."""
    folder.mkdir()
    target = {"targets": [f"127.0.0.1:{port}"], "labels": {"instance": SERVER, "machine": MACHINE}}
    (folder / "targets.yml").write_text(yaml.safe_dump([target]))
    for name in ("recording", "alerts"):
        text = (role.config / "sglang" / f"rules-{name}.yml").read_text()
        quick = re.sub(r"(interval|for): \w+$", r"\1: 1s", text, flags=re.MULTILINE)
        (folder / f"rules-{name}.yml").write_text(quick)
    job = jobs(role)[0] | {"scrape_interval": "1s", "file_sd_configs": [{"files": [str(folder / "targets.yml")]}]}
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(folder / "rules-*.yml")], "scrape_configs": [job]}))
    return path


def test_a_real_prometheus_sees_the_server_its_figures_and_its_end(role: Role, tmp_path: Path, launch: Launch) -> None:
    prometheus = Prometheus(quick_configuration(role, tmp_path / "quick", launch.port), tmp_path / "data")
    try:
        prometheus.wait('up{job="sglang"}', lambda value: value == 1)
        for _ in range(3):
            launch.generate(tokens=512)
        speed = prometheus.wait("instance:sglang_generation_tokens_per_second:sum", lambda value: value > 0)
        (series,) = prometheus.query("instance:sglang_generation_tokens_per_second:sum")
        assert series["metric"]["instance"] == SERVER
        assert series["metric"]["machine"] == MACHINE
        assert speed > 100  # simulated time runs twenty times faster
        length = prometheus.wait('sglang:spec_accept_length{job="sglang"}', lambda value: value > 1)
        assert length < 4
        assert prometheus.value("instance:sglang_acceptance_length:low") == LENGTH_LOW
        names = set(prometheus.client.get("/label/__name__/values").json()["data"])
        dashboard = json.loads((role.dashboards / "sglang-eagle3.json").read_text())
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                prometheus.query(target["expr"].replace("$instance", ".+"))  # is a valid query
        assert {"sglang:num_running_reqs", "sglang:generation_tokens_total", "sglang:spec_verify_calls_total"} <= names

        launch.process.kill()
        prometheus.wait('up{job="sglang"}', lambda value: value == 0)
        prometheus.wait('ALERTS{alertname="SGLangServerDown",alertstate="firing"}', lambda value: value == 1)
        (group,) = [
            group
            for group in prometheus.client.get("/rules", params={"type": "alert"}).json()["data"]["groups"]
            if group["name"] == "sglang-alerts"
        ]
        assert {rule["health"] for rule in group["rules"]} == {"ok"}
        (down,) = [rule for rule in group["rules"] if rule["name"] == "SGLangServerDown"]
        assert down["alerts"][0]["annotations"]["summary"] == f"The SGLang server on {SERVER} does not answer."
    finally:
        prometheus.close()
