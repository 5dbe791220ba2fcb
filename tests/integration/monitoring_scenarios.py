"""Situations of a server and its GPUs as Prometheus sees them, and which alerts fire in each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from tests.integration.monitoring import (
    LENGTH_LOW,
    MACHINE,
    OTHER_GPU,
    OWN_GPU,
    SERVER,
    SPEED_LOW,
    Role,
    promtool,
)

if TYPE_CHECKING:
    from pathlib import Path

INTERVAL_S = 30
PER_MINUTE = 60 // INTERVAL_S
SPEED, LENGTH = 60.0, 1.8
TOKENS_A_SAMPLE = SPEED * INTERVAL_S
DOWN, STALLED, ACCEPTANCE, SLOW = (
    f"SGLang{name}" for name in ("ServerDown", "ServerStalled", "AcceptanceCollapsed", "ThroughputLow")
)
HELD, XID, EXPORTER = (f"SGLang{name}" for name in ("GpuMemoryHeld", "GpuXid", "GpuExporterDown"))


def level(value: float, minutes: float = 40) -> str:
    return f"{value:g}+0x{int(minutes * PER_MINUTE)}"


def growth(per_sample: float, minutes: float = 40, start: float = 0.0) -> str:
    return f"{start:g}+{per_sample:g}x{int(minutes * PER_MINUTE)}"


def then(first_value: float, minutes: float, second_value: float) -> str:
    return f"{level(first_value, minutes)} {level(second_value)}"


def server(changed: dict[str, str] | None = None, *, instance: str = SERVER, length: float = LENGTH) -> dict[str, str]:
    """A server that makes 60 tokens/s for one request at a time; ``changed`` replaces series, "" takes them away."""
    where = f'job="sglang",instance="{instance}",machine="{MACHINE}"'
    requests = TOKENS_A_SAMPLE / 256
    verified = (TOKENS_A_SAMPLE - requests) / length
    series = {
        "up": level(1),
        "gen_throughput": level(SPEED),
        "num_running_reqs": level(1),
        "num_queue_reqs": level(0),
        "spec_accept_length": level(length),
        "generation_tokens_total": growth(TOKENS_A_SAMPLE),
        "num_requests_total": growth(requests),
        "spec_verify_calls_total": growth(verified),
        "realtime_tokens_total": growth(TOKENS_A_SAMPLE),
        "http_requests_active": level(1),
    } | (changed or {})
    more = {"realtime_tokens_total": ',mode="decode"', "http_requests_active": ',endpoint="/generate",method="POST"'}
    return {
        f"{'' if name == 'up' else 'sglang:'}{name}{{{where}{more.get(name, '')}}}": values
        for name, values in series.items()
        if values
    }


def gpus(used_mib: float, xid: float = 0, uuid: str = OWN_GPU, up: str = "") -> dict[str, str]:
    where = f'job="sglang-gpu",instance="{MACHINE}",machine="{MACHINE}"'
    card = f'{where},gpu="0",UUID="{uuid}"'
    return {
        f"up{{{where}}}": up or level(1),
        f"DCGM_FI_DEV_FB_USED{{{card}}}": level(used_mib),
        f"DCGM_FI_DEV_XID_ERRORS{{{card}}}": level(xid),
    }


FIGURES = ("gen_throughput", "num_running_reqs", "num_queue_reqs", "http_requests_active", "spec_accept_length")
COUNTS = ("generation_tokens_total", "realtime_tokens_total", "num_requests_total", "spec_verify_calls_total")
GONE = dict.fromkeys((*FIGURES, *COUNTS), "")
DOWN_ALL = GONE | {"up": level(0)}
IDLE = dict.fromkeys(FIGURES[:-1], level(0)) | dict.fromkeys(COUNTS, level(5000))
HUNG = {
    name: f"{growth(TOKENS_A_SAMPLE, 10)} {level(TOKENS_A_SAMPLE * 20)}"
    for name in ("generation_tokens_total", "realtime_tokens_total")
} | {
    "num_requests_total": f"{growth(7, 10)} {level(140)}",
    "spec_verify_calls_total": f"{growth(1000, 10)} {level(20000)}",
}


FEW = {
    "generation_tokens_total": growth(20),
    "num_requests_total": growth(2),
    "spec_verify_calls_total": growth(18),
}
MOMENT = f"{level(SPEED, 12)} {level(5, 4)} {level(SPEED)}"
BUSY_SERVER = "gpu2.example.org"
SLOW_ONE = {"gen_throughput": level(30)}
SLOW_FOUR = SLOW_ONE | {"num_running_reqs": level(4)}


@dataclass(frozen=True)
class Scenario:
    """Series, and which alerts are firing at which minute."""

    name: str
    series: dict[str, str]
    firing: dict[float, set[str]] = field(default_factory=dict)


SCENARIOS = [
    Scenario("healthy", server() | gpus(87000), {10: set(), 22: set()}),
    Scenario("idle", server(IDLE) | gpus(87000), {22: set()}),
    Scenario("down", server(DOWN_ALL), {9: set(), 12: {DOWN}}),
    Scenario("a launch takes its time", server(GONE | {"up": then(0, 8, 1)}), {9: set(), 20: set()}),
    Scenario("hangs while it decodes", server(HUNG), {10: set(), 14: set(), 20: {STALLED}}),
    Scenario("hangs while it reads a prompt", server(HUNG | {"num_running_reqs": level(0)}), {20: {STALLED}}),
    Scenario("hung and then gone", server(HUNG | {"up": then(1, 12, 0)}), {20: set(), 25: {DOWN}}),
    Scenario("one long request", server(HUNG | {"realtime_tokens_total": growth(TOKENS_A_SAMPLE)}), {22: set()}),
    Scenario("a dead draft", server(length=1.0), {22: {ACCEPTANCE}}),
    Scenario("just below", server(length=LENGTH_LOW - 0.01), {22: {ACCEPTANCE}}),
    Scenario("just above", server(length=LENGTH_LOW + 0.01), {22: set()}),
    Scenario("a dead draft, and hardly any traffic", server(FEW, length=1.0), {22: set()}),
    Scenario("a dead draft, uncounted", server({"spec_verify_calls_total": ""}, length=1.0), {22: {ACCEPTANCE}}),
    Scenario("slow", server({"gen_throughput": level(SPEED_LOW - 1)}), {22: {SLOW}}),
    Scenario("slow for a moment", server({"gen_throughput": MOMENT}), {17: set(), 22: set()}),
    Scenario("slow with fewer requests than measured", server(SLOW_ONE, instance=BUSY_SERVER), {22: set()}),
    Scenario("slow with as many", server(SLOW_FOUR, instance=BUSY_SERVER), {22: {SLOW}}),
    Scenario("no thresholds", server(SLOW_ONE, instance="gpu3.example.org", length=1.0), {22: set()}),
    Scenario("memory held", server(DOWN_ALL) | gpus(80000), {14: {DOWN}, 20: {DOWN, HELD}}),
    Scenario("memory of another card", server(DOWN_ALL) | gpus(80000, uuid=OTHER_GPU), {20: {DOWN}}),
    Scenario("a free card", server(DOWN_ALL) | gpus(600), {20: {DOWN}}),
    Scenario("another server runs", server() | server(DOWN_ALL, instance=BUSY_SERVER) | gpus(80000), {22: {DOWN}}),
    Scenario("the card fell off the bus", server() | gpus(80000, xid=79), {1: {XID}, 22: {XID}}),
    Scenario("a program's own fault", server() | gpus(80000, xid=43), {22: set()}),
    Scenario("another card fell off", server() | gpus(80000, xid=79, uuid=OTHER_GPU), {22: set()}),
    Scenario("the exporter is gone", server() | gpus(80000, up=level(0)), {14: set(), 20: {EXPORTER}}),
]


def as_test(scenario: Scenario) -> dict[str, Any]:
    """Return a test for promtool: at each minute exactly these alerts fire, each for one target."""
    queries = [
        {
            "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
            "eval_time": f"{minute}m",
            "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(alerts)],
        }
        for minute, alerts in scenario.firing.items()
    ]
    return {"name": scenario.name, "input_series": inputs(scenario.series), "promql_expr_test": queries}


def inputs(series: dict[str, str]) -> list[dict[str, str]]:
    return [{"series": name, "values": values} for name, values in series.items()]


def simulate(role: Role, folder: Path, *tests: dict[str, Any]) -> None:
    """Let promtool evaluate the rules over the series of each test and check what comes of it."""
    document = {
        "rule_files": [str(role.config / "sglang" / f"rules-{name}.yml") for name in ("recording", "alerts")],
        "evaluation_interval": f"{INTERVAL_S}s",
        "group_eval_order": ["sglang-recording", "sglang-alerts"],
        "tests": [{"interval": f"{INTERVAL_S}s"} | test for test in tests],
    }
    path = folder / "scenario.yml"
    path.write_text(yaml.safe_dump(document))
    promtool("test", "rules", str(path))
