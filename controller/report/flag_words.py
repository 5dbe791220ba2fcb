"""The words for every flag code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.report.numbers import change, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.analysis.result import Flag

# Fields in braces are taken from the flag's values by ``_words``.
SENTENCES = {
    "mixed_simulated": (
        "Simulated and real launches are mixed in this sweep; no figure can be compared. "
        "Measure them in separate sweeps."
    ),
    "no_baseline": (
        "No launch without speculation is in this sweep, so whether speculation pays cannot be said. "
        "Add an arm with sglang_server_speculative=false."
    ),
    "draft_unwired": (
        "the acceptance length is {acceptance_length}: no draft token is ever accepted. "
        "The draft model is not connected to this target (algorithm EAGLE instead of EAGLE3, "
        "a draft of another model, or a wrong vocabulary map); this is a fault, not a slow configuration."
    ),
    "no_verify_steps": (
        "the server reported no verify steps although the arm asks for speculation: speculation was not active. "
        "Look for --speculative-algorithm in its command line and in /server_info."
    ),
    "unexpected_speculation": (
        "the server reported verify steps although the arm asks for none. "
        "Look for --speculative-algorithm in its command line."
    ),
    "launch_failed": "the launch gave no measurement ({failure}).",
    "requests_failed": "{failed} of {requests} requests failed; they are not part of the figures.",
    "joined_chunks": (
        "the first chunk of {joined} of {requests} answers held more than one token: chunks are joined on the way "
        "(a proxy, or a busy server), so decode times are slightly short."
    ),
    "slow_first_run": (
        "the cycles of the first run took {cycle_change} against the later ones: "
        "the server was still warming up. Warm up longer."
    ),
    "outlier_launch": (
        "{tokens_per_s} tok/s lies far from the other launches of the arm (median {median_tokens_per_s}). "
        "It stays in the figures; repeat it only for a cause that is known."
    ),
    "high_variation": (
        "launches differ by {cv_percent} % (coefficient of variation, {lowest_tokens_per_s} to "
        "{highest_tokens_per_s} tok/s): one launch says little about the next."
    ),
    "throttled": (
        "the GPUs ran with lower clocks in a part of the samples ({reasons}; lowest clock {sm_mhz} MHz, highest "
        "temperature {temperature_c} C). The launch stays in the figures."
    ),
    "foreign_process": "others used these GPUs right before or after the launch: {processes}.",
    "foreign_memory": (
        "the memory in use on a GPU grew by {growth_mib} MiB while the server served, which allocates no more by "
        "then: somebody else used it."
    ),
    "outputs_differ": (
        "its answers at temperature 0 agree with the baseline's in {with_baseline_percent} % of the pairs of launches, "
        "the baseline's with its own in {within_baseline_percent} % ({prompts} prompts, p = {p}): speculation should "
        "not change what the model says."
    ),
    "accepted_changes": (
        "the sweep was continued although this changed: {differences}. Launches before and after it are pooled as "
        "asked ({cells} after it)."
    ),
    "hosts_disagree": (
        "the speed-up is not the same on all hosts ({by_host}; p = {p}): its mean holds for these hosts together, so "
        "read it host by host."
    ),
    "hosts_differ": (
        "hosts that are not alike were mixed as asked ({differences}). Arms are still compared on one host each time, "
        "but the answer may differ between them."
    ),
    "hosts_lost": (
        "hosts were lost on the way: {hosts}. {superseded} of their launches belong to blocks that another host did "
        "anew, and are in no figure."
    ),
    "drift": (
        "cycle times changed by {cycle_change} over the sweep (Mann-Kendall p = {p}): "
        "look at clocks, temperature and other work on the host."
    ),
    "baseline_moved": (
        "the baseline itself moved between {lowest_tokens_per_s} and {highest_tokens_per_s} tok/s, "
        "more than the margin: compare within blocks only."
    ),
}


def flag_sentence(flag: Flag) -> str:
    """Return one sentence (or a few) for a flag, beginning with where it was seen."""
    words = SENTENCES[flag.code].format(**_words(flag.values))
    place = [part for part in (flag.arm, flag.cell_id and f"cell {flag.cell_id}") if part]
    if flag.concurrency is not None:
        place.append(f"concurrency {flag.concurrency}")
    return f"{', '.join(place)}: {words}" if place else words[0].upper() + words[1:]


def _words(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the values as they are written."""
    words = {}
    for name, value in values.items():
        if name == "cycle_ratio":
            words["cycle_change"] = change(value)
        elif name == "cv":
            words["cv_percent"] = plain(value * 100, 0)
        elif name.endswith("_percent"):
            words[name] = f"{value:.3g}"
        elif name == "p":
            words[name] = plain(value, 3)
        elif name.endswith("tokens_per_s"):
            words[name] = plain(value, 1)
        else:
            words[name] = plain(value, 3) if isinstance(value, float) else str(value)
    return words
