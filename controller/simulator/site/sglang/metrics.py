"""/metrics in the text exposition format, with the names, helps and labels of SGLang 0.5.15 (``data/metrics.json``)."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from .arguments import DATA


class Metrics:
    """Counts what has happened and renders it.

    Args:
        model_name: served model name, a label of nearly everything.
        speculative: (steps, draft tokens), None without speculation: then no ``spec_*`` value is exported.
        constants: values known since the start, by metric name.
    """

    def __init__(self, model_name: str, speculative: tuple[int, int] | None, constants: dict[str, float]) -> None:
        self._model_name = model_name
        self._speculative = speculative
        self._values: dict[str, float] = dict(constants)
        if speculative is not None:
            self._values.update(
                {"sglang:spec_num_steps": speculative[0], "sglang:spec_num_draft_tokens": speculative[1]}
            )
        self._observations: dict[str, list[tuple[float, int]]] = {}
        self._requests: dict[tuple[str, str], int] = {}
        self._responses: dict[tuple[str, str, int], int] = {}
        self._active: dict[tuple[str, str], int] = {}
        self._families: list[dict[str, Any]] = json.loads((DATA / "metrics.json").read_text(encoding="utf-8"))

    def request_begins(self, path: str, method: str) -> None:
        """Count a request to the HTTP server."""
        key = (path, method)
        self._requests[key] = self._requests.get(key, 0) + 1
        self._active[key] = self._active.get(key, 0) + 1

    def request_ends(self, path: str, method: str, status: int) -> None:
        """Count its response."""
        self._active[path, method] -= 1
        key = (path, method, status)
        self._responses[key] = self._responses.get(key, 0) + 1

    def finished(
        self, *, prompt: int, cached: int, made: int, verified: int, seconds: float, first_token: float
    ) -> None:
        """Count a request that was generated to its end."""
        self._add("sglang:num_requests_total", 1)
        self._add("sglang:prompt_tokens_total", prompt)
        self._add("sglang:generation_tokens_total", made)
        self._add("sglang:cached_tokens_total", cached)
        self._add("sglang:spec_verify_calls_total", verified)
        self._observe("sglang:e2e_request_latency_seconds", seconds)
        self._observe("sglang:time_to_first_token_seconds", first_token)
        self._observe("sglang:queue_time_seconds", 0.0)
        self._observe("sglang:prompt_tokens_histogram", prompt)
        self._observe("sglang:uncached_prompt_tokens_histogram", prompt - cached)
        self._observe("sglang:generation_tokens_histogram", made)
        if made > 1:
            # Each token of a chunk counts by itself, with its share of the pause.
            self._observe("sglang:inter_token_latency_seconds", (seconds - first_token) / (made - 1), made - 1)

    def _add(self, name: str, amount: float) -> None:
        self._values[name] = self._values.get(name, 0.0) + amount

    def _observe(self, name: str, value: float, times: int = 1) -> None:
        self._observations.setdefault(name, []).append((value, times))

    def render(self, statistics: dict[str, Any]) -> str:
        """Return the exposition text; ``statistics`` is the scheduler's last snapshot."""
        self._values.update(
            {
                "sglang:process_cpu_seconds_total": time.process_time(),
                "sglang:gen_throughput": statistics.get("gen_throughput", 0.0),
                "sglang:spec_accept_length": statistics.get("accept_length", 0.0),
                "sglang:spec_accept_rate": statistics.get("accept_rate", 0.0),
                "sglang:num_running_reqs": statistics.get("running", 0),
                "sglang:num_queue_reqs": statistics.get("queued", 0),
                "sglang:num_used_tokens": statistics.get("used_tokens", 0),
                "sglang:kv_used_tokens": statistics.get("used_tokens", 0),
                "sglang:cuda_graph_passes_total": statistics.get("forwards", 0),
            }
        )
        if self._speculative is not None and statistics.get("steps") is not None:
            steps = statistics["steps"]
            self._values.update({"sglang:spec_num_steps": steps})
            if steps != self._speculative[0]:
                self._values["sglang:spec_num_draft_tokens"] = steps + 1
        lines: list[str] = []
        for family in self._families:
            name = family["name"]
            if name.startswith("sglang:spec_") and self._speculative is None:
                continue
            lines += (f"# HELP {name} {family['help']}", f"# TYPE {name} {family['type']}")
            if name.startswith("sglang:http_"):
                lines += self._http(name)
            elif family["type"] == "histogram":
                lines += self._histogram(family)
            else:
                lines += [_line(name, self._labels(labels), self._values.get(name, 0.0)) for labels in family["labels"]]
        return "\n".join(lines) + "\n"

    def _labels(self, labels: dict[str, str]) -> dict[str, str]:
        names = {"model_name": self._model_name, "pid": str(os.getpid())}
        return {key: names.get(key, value) for key, value in labels.items()}

    def _http(self, name: str) -> list[str]:
        if name == "sglang:http_responses_total":
            return [
                _line(name, {"endpoint": path, "method": method, "status_code": str(status)}, count)
                for (path, method, status), count in self._responses.items()
            ]
        counts = self._requests if name == "sglang:http_requests_total" else self._active
        return [_line(name, {"endpoint": path, "method": method}, count) for (path, method), count in counts.items()]

    def _histogram(self, family: dict[str, Any]) -> list[str]:
        name, observed = family["name"], self._observations.get(family["name"], [])
        lines = []
        for fixed in family["labels"]:
            labels = self._labels(fixed)
            for bound in family.get("buckets", []):
                count = sum(times for value, times in observed if value <= float(bound))
                lines.append(_line(f"{name}_bucket", {**labels, "le": bound}, count))
            count = sum(times for _, times in observed)
            lines.append(_line(f"{name}_bucket", {**labels, "le": "+Inf"}, count))
            lines.append(_line(f"{name}_sum", labels, sum(value * times for value, times in observed)))
            lines.append(_line(f"{name}_count", labels, count))
        return lines


def _line(name: str, labels: dict[str, str], value: float) -> str:
    text = ",".join(f'{key}="{label}"' for key, label in labels.items())
    return f"{name}{{{text}}} {float(value)}" if text else f"{name} {float(value)}"
