"""What this repository relies on in SGLang: flags, log markers, endpoints, fields and rules, by version."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.context_length import CONTEXT_LENGTH_KEYS

if TYPE_CHECKING:
    from tests.contract.wheels import Wheel

FIRST, LAST = (0, 5, 6), (0, 5, 99)


@dataclass(frozen=True)
class Expectation:
    """Something that must be in the source of every version from ``since`` on and before ``until``.

    Attributes:
        group: heading in the table.
        name: row in the table.
        wordings: regular expressions, oldest first; one of them must match.
        since: first version that must have it.
        until: first version that must no longer have it.
        place: path prefix in the wheel; empty for all server sources.
    """

    group: str
    name: str
    wordings: tuple[str, ...]
    since: tuple[int, ...] = FIRST
    until: tuple[int, ...] = LAST
    place: str = ""

    def found_in(self, wheel: Wheel) -> tuple[int, ...]:
        """Numbers (from 1) of the wordings that are there."""
        text = "\n".join(wheel.read(name) for name in wheel.names(self.place)) if self.place else wheel.server_sources
        return tuple(number for number, wording in enumerate(self.wordings, 1) if re.search(wording, text))

    def expected_in(self, version: tuple[int, ...]) -> bool:
        """Whether a version must have it."""
        return self.since <= version < self.until


def _marker(name: str, *wordings: str) -> Expectation:
    return Expectation("log marker", name, tuple(re.escape(wording) for wording in wordings))


SERVER_FLAGS = (
    *("--model-path", "--trust-remote-code", "--tp-size", "--mem-fraction-static", "--host", "--port", "--config"),
    *("--num-continuous-decode-steps", "--disable-custom-all-reduce", "--max-running-requests", "--context-length"),
    *("--random-seed", "--enable-metrics", "--speculative-algorithm", "--speculative-draft-model-path"),
    *("--speculative-eagle-topk", "--speculative-num-draft-tokens", "--speculative-num-steps"),
)
"""Flags that the role sglang_server renders and that every version must know."""
VERSIONED_FLAGS = {
    "--cuda-graph-max-bs": (FIRST, (0, 5, 20)),
    "--cuda-graph-max-bs-decode": ((0, 5, 14), LAST),
    "--speculative-adaptive": ((0, 5, 11), LAST),
}
"""Flag -> first version with it and first version without it."""

METRICS = dict.fromkeys(
    (
        *("gen_throughput", "spec_accept_length", "num_running_reqs", "num_queue_reqs", "token_usage"),
        *("generation_tokens_total", "num_requests_total", "time_to_first_token_seconds"),
    ),
    FIRST,
) | {"realtime_tokens_total": (0, 5, 7), "http_requests_active": (0, 5, 8), "spec_verify_calls_total": (0, 5, 13)}
"""Metric of ``/metrics`` that the live view or the role monitoring reads -> first version with it."""

EXPECTATIONS = (
    _marker("distributed init begins", "Init torch distributed begin.", "Init parallel begin."),
    _marker("weights begin", "Load weight begin."),
    _marker("weights end", "Load weight end."),
    Expectation(
        "log marker",
        "KV cache allocated",
        (
            r"KV Cache is allocated\.",
            r"\{cache_name\} is allocated\. dtype",
            r"\{cache_name\} \{'VA upper bound' if self\.post_capture_active else 'is allocated'\}",
        ),
    ),
    _marker("memory pool ends", "Memory pool end."),
    Expectation(
        "log marker",
        "target graphs begin",
        (r"begin\. This can take up to several minutes", r"[Cc]apture .*(CUDA|cuda) graph begin\. backend="),
    ),
    Expectation(
        "log marker",
        "draft graphs begin",
        (r"Capture draft cuda graph begin", r"Capture draft decode CUDA graph begin"),
    ),
    _marker("scheduler ready", "max_total_num_tokens="),
    _marker("serving", "The server is fired up and ready to roll!"),
    _marker("decode line", "accept len: "),
    _marker("context clash", "is greater than the derived context_length"),
    _marker("KV pool too small", "Not enough memory. Please try to increase --mem-fraction-static."),
    _marker("a child failed", "Received sigquit from a child process."),
    _marker("graph capture failed", "Capture cuda graph failed:"),
    *(
        Expectation("endpoint", path, (rf'"{path}"',))
        for path in ("/health", "/health_generate", "/server_info", "/model_info", "/generate", "/flush_cache")
    ),
    Expectation("field", "meta_info spec_verify_ct", ('"spec_verify_ct"',)),
    Expectation(
        "field", "meta_info accept histogram", ('"spec_accept_histogram"', '"spec_correct_drafts_histogram"'), (0, 5, 9)
    ),
    Expectation("field", "meta_info e2e_latency", ('"e2e_latency"',)),
    Expectation("field", "server_info internal_states", ("internal_states",)),
    Expectation("field", "server_info avg_spec_accept_length", ("avg_spec_accept_length",)),
    *(Expectation("metric", name, (rf'"sglang:{name}"',), since) for name, since in METRICS.items()),
    Expectation(
        "rule",
        "context length keys",
        (r"CONTEXT_LENGTH_KEYS\s*=\s*\[\s*" + r",\s*".join(f'"{key}"' for key in CONTEXT_LENGTH_KEYS),),
    ),
    Expectation("rule", "override variable", ("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",)),
    Expectation("rule", "draft gets the target's length", (r"target_worker\.model_runner\.model_config\.context_len",)),
    Expectation(
        "rule",
        "topk 1: tokens are steps + 1",
        (r"adjusted to speculative_num_steps \+ 1 when speculative_eagle_topk == 1",),
    ),
    Expectation("rule", "no numbers given: 3, 1, 4", (r"return \(3, 1, 4\)|return 3, 1, 4",)),
    Expectation(
        "rule", "48 requests with speculation", (r"max_running_requests = 48", r"max_running_requests\W{1,20}48\b")
    ),
    Expectation("rule", "spec v2 switch", ("SGLANG_ENABLE_SPEC_V2",), FIRST, (0, 5, 21)),
    Expectation(
        "rule",
        "7 is the largest adaptive candidate",
        (r'candidate_steps"(?:,|:) \[1, 3, 7\]', r'candidate_steps": \[1, 3, 5, 7\]'),
        (0, 5, 11),
    ),
    Expectation("rule", "an adaptive start is a candidate", (r"is not in the adaptive\b",), (0, 5, 13)),
    Expectation(
        "rule",
        "a logits buffer for the adaptive start alone",
        (r'"""Rows the shared logits buffer needs\."""\s+num_tokens_per_(?:bs|req) =',),
        (0, 5, 15),
        (0, 5, 19),
    ),
    Expectation("EAGLE-3", "Llama draft", (r"class LlamaForCausalLMEagle3\b",), place="sglang/srt/models/"),
    Expectation(
        "EAGLE-3", "MLA draft", (r"class Eagle3DeepseekV2ForCausalLM\b",), (0, 5, 12), place="sglang/srt/models/"
    ),
    Expectation(
        "EAGLE-3",
        "Kimi-K2.5 target",
        (r"def set_eagle3_layers_to_capture",),
        (0, 5, 10),
        place="sglang/srt/models/kimi_k25.py",
    ),
)
