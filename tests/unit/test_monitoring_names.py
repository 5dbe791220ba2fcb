"""Rules and dashboard of the role monitoring use names that exist: the server's, dcgm-exporter's, or recorded ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jinja2
import yaml

from controller.watch.reading import WANTED
from tests.contract.expectations import METRICS

ROOT = Path(__file__).parents[2]
ROLE = ROOT / "roles" / "monitoring"
RECORDING = (ROLE / "templates" / "rules-recording.yml.j2").read_text(encoding="utf-8")
ALERTS = (ROLE / "templates" / "rules-alerts.yml.j2").read_text(encoding="utf-8")
DASHBOARD: dict[str, Any] = json.loads((ROLE / "files" / "sglang-eagle3.json").read_text(encoding="utf-8"))
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
ALL = "\n".join([RECORDING, ALERTS, *QUERIES])

EXPORTED = set(
    re.findall(
        r"^(sglang:\w+)",
        (ROOT / "tests/data/sglang-0.5.15/metrics-eagle3.txt").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
)
# NVIDIA/dcgm-exporter, etc/default-counters.csv: active rows of the set that it ships.
DCGM = {
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_XID_ERRORS",
}


def test_every_name_of_sglang_is_one_that_the_real_server_exports() -> None:
    used = set(re.findall(r"(?<![\w:])sglang:\w+", ALL))
    assert len(used) > 8
    assert used <= EXPORTED


def test_every_name_of_sglang_is_looked_for_in_every_release() -> None:
    used = {name.removeprefix("sglang:").removesuffix("_bucket") for name in re.findall(r"(?<![\w:])sglang:\w+", ALL)}
    assert used | {name.removeprefix("sglang:") for name in WANTED} == set(METRICS)


def test_every_label_that_is_matched_is_one_that_the_real_server_writes() -> None:
    text = (ROOT / "tests/data/sglang-0.5.15/metrics-eagle3.txt").read_text(encoding="utf-8")
    assert 'sglang:http_requests_active{endpoint="/generate"' in text
    assert re.search(r'sglang:time_to_first_token_seconds_bucket\{[^}]*le="', text)


def test_every_name_of_dcgm_is_among_its_default_counters() -> None:
    used = set(re.findall(r"DCGM_\w+", ALL))
    assert {"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_XID_ERRORS"} <= used <= DCGM


def test_every_recorded_name_is_recorded_before_it_is_used() -> None:
    recorded = re.findall(r"record: (\S+)", RECORDING)
    assert set(re.findall(r"instance:[\w:]+", ALERTS + "\n".join(QUERIES))) <= set(recorded)
    for place, name in enumerate(recorded):
        body = RECORDING.split(f"record: {name}\n", 1)[1].split("record:", 1)[0]
        assert set(re.findall(r"instance:[\w:]+", body)) <= set(recorded[:place]), name


def test_without_an_exporter_there_is_no_rule_about_gpus() -> None:
    brackets = jinja2.Environment("[%", "%]", "[[", "]]", autoescape=False)  # noqa: S701 - YAML, as the role renders it
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text(encoding="utf-8"))
    text = brackets.from_string(ALERTS).render(defaults)
    names = [rule["alert"] for rule in yaml.safe_load(text)["groups"][0]["rules"]]
    assert names == ["SGLangServerDown", "SGLangServerStalled", "SGLangAcceptanceCollapsed", "SGLangThroughputLow"]
    assert "DCGM" not in text


def test_the_dashboard_is_whole() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (column, row)
        for panel in panels
        for place in [panel["gridPos"]]
        for column in range(place["x"], place["x"] + place["w"])
        for row in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)), "panels lie over each other"
    assert max(column for column, _ in cells) < 24
    assert all(panel["title"] and panel["description"] and panel["targets"] for panel in panels)
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in panels)
    assert {variable["name"] for variable in DASHBOARD["templating"]["list"]} == {"datasource", "instance"}


def test_every_alert_says_what_it_is_what_to_do_and_where_to_read_on() -> None:
    blocks = ALERTS.split("- alert: ")[1:]
    assert len(blocks) == ALERTS.count("runbook_url:") > 0
    for block in blocks:
        name = block.split("\n", 1)[0]
        assert re.search(r"severity: (critical|warning)\n", block), name
        assert re.search(r"summary: .+\.\n", block), name
        page = re.search(r"runbook_url: \[\[ monitoring_runbook_base_url \]\]/([\w-]+\.md)\n", block)
        assert page, name
        text = (ROOT / "docs" / "runbooks" / page[1]).read_text(encoding="utf-8")
        headings = ["Meaning", "Impact", "Diagnosis", "Mitigation", "Verify", "If that fails"]
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == headings, page[1]
        index = (ROOT / "docs" / "runbooks" / "README.md").read_text(encoding="utf-8")
        assert f"`{name}`" in index
        assert f"`{name}`" in (ROLE / "README.md").read_text(encoding="utf-8")
