"""/metrics in the text exposition format, with the names, helps and labels of SGLang 0.5.15 (``data/metrics.json``)."""

from __future__ import annotations

import bisect
import itertools
import json
import os
import time
from typing import Any

from .arguments import DATA


class _Histogram:
    """Values counted by bucket."""

    def __init__(self, bounds: list[str]) -> None:
        self.bounds = bounds
        self._limits = [float(bound) for bound in bounds]
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float, times: int = 1) -> None:
        self._counts[bisect.bisect_left(self._limits, value)] += times
        self.sum += value * times

    def cumulative(self) -> list[int]:
        """Return how many values are not above each bound, and how many there are in all."""
        return list(itertools.accumulate(self._counts))


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
        self._requests: dict[tuple[str, str], int] = {}
        self._responses: dict[tuple[str, str, int], int] = {}
        self._active: dict[tuple[str, str], int] = {}
        self._families: list[dict[str, Any]] = json.loads((DATA / "metrics.json").read_text(encoding="utf-8"))
        self._histograms = {
            family["name"]: _Histogram(family.get("buckets", []))
            for family in self._families
            if family["type"] == "histogram"
        }

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

    def first_output(self, seconds: float) -> None:
        """Count the time to the first output of a request."""
        self._histograms["sglang:time_to_first_token_seconds"].add(seconds)

    def output(self, seconds: float, tokens: int) -> None:
        """Count the pause before a further output: each of its tokens by itself, with its share of the pause."""
        self._histograms["sglang:inter_token_latency_seconds"].add(seconds / tokens, tokens)

    def finished(self, *, prompt: int, cached: int, made: int, verified: int, seconds: float) -> None:
        """Count a request that was generated to its end."""
        self._add("sglang:num_requests_total", 1)
        self._add("sglang:prompt_tokens_total", prompt)
        self._add("sglang:generation_tokens_total", made)
        self._add("sglang:cached_tokens_total", cached)
        self._add("sglang:spec_verify_calls_total", verified)
        for name, value in (
            ("e2e_request_latency_seconds", seconds),
            ("queue_time_seconds", 0.0),
            ("prompt_tokens_histogram", prompt),
            ("uncached_prompt_tokens_histogram", prompt - cached),
            ("generation_tokens_histogram", made),
        ):
            self._histograms[f"sglang:{name}"].add(value)

    def _add(self, name: str, amount: float) -> None:
        self._values[name] = self._values.get(name, 0.0) + amount

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
        name = family["name"]
        histogram = self._histograms[name]
        counts = histogram.cumulative()
        lines = []
        for fixed in family["labels"]:
            labels = self._labels(fixed)
            for bound, count in zip([*histogram.bounds, "+Inf"], counts):  # noqa: B905 - Python 3.9 has no strict
                lines.append(_line(f"{name}_bucket", {**labels, "le": bound}, count))
            lines.append(_line(f"{name}_sum", labels, histogram.sum))
            lines.append(_line(f"{name}_count", labels, counts[-1]))
        return lines


def _line(name: str, labels: dict[str, str], value: float) -> str:
    text = ",".join(f'{key}="{label}"' for key, label in labels.items())
    return f"{name}{{{text}}} {float(value)}" if text else f"{name} {float(value)}"
