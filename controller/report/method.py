"""How it was measured, and how to measure it again."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from controller.redaction import redact
from controller.report.facts import as_text

if TYPE_CHECKING:
    from controller.report.facts import SweepFacts


def method_facts(facts: SweepFacts) -> list[tuple[str, str]]:
    """Return (what, value) pairs in the order in which they are read."""
    plan, header = facts.plan, facts.header
    workload = dict(plan.workload)
    servers = sorted({str(cell.server.get("version")) for cell in facts.cells if cell.server.get("version")})
    models = sorted({str(cell.server.get("served_model_name")) for cell in facts.cells if cell.server.get("version")})
    pairs = [
        ("sweep", plan.sweep_id),
        ("started (UTC)", plan.created),
        ("target", as_text(header.get("target") or plan.limit)),
        ("figures", "simulated, from a stand-in server" if facts.simulated else "measured on a real server"),
        ("SGLang", ", ".join(servers) or "unknown"),
        ("model served", ", ".join(models) or "unknown"),
        ("design", f"{len(plan.arms)} arms, {plan.blocks} blocks, {len(plan.cells)} launches, order shuffled by seed"),
        *((f"arm {arm.name}", arm.words()) for arm in plan.arms),
        ("seed", str(plan.seed)),
        ("workload", ", ".join(f"{name} {as_text(value)}" for name, value in workload.items())),
        ("workload fingerprint", plan.workload_fingerprint),
        ("max running requests", str(plan.max_running_requests)),
        ("largest batch with a CUDA graph", str(plan.cuda_graph_max_bs or "the server's own choice")),
        ("versions", ", ".join(f"{name} {version}" for name, version in (header.get("versions") or {}).items())),
        ("inventory", plan.inventory),
    ]
    if facts.analysis:
        noise = facts.analysis.aa_noise
        source = f" ({facts.analysis.aa_source})" if facts.analysis.aa_source else ""
        pairs.append(("margin", f"{facts.analysis.margin * 100:.1f} %"))
        pairs.append(("A/A noise", f"{noise * 100:.1f} %{source}" if noise is not None else "not measured"))
        pairs.append(("confidence of intervals", f"{facts.analysis.confidence:.0%}"))
        if facts.analysis.looks > 1 and facts.analysis.verdict_confidence is not None:
            pairs.append(
                ("confidence of verdicts", f"{facts.analysis.verdict_confidence:.1%}, {facts.analysis.looks} looks")
            )
    pairs += [(f"identity: {name}", as_text(value)) for name, value in facts.identity.items()]
    return [(name, str(redact(value))) for name, value in pairs if value]


def commands(facts: SweepFacts) -> list[tuple[str, str]]:
    """Return (what, command): the sweep again with the same seed, the report again, and the server of each arm."""
    arguments = [str(word) for word in facts.header.get("arguments") or ["sweep"]]
    words = _without(arguments, "--dir", "--resume", "--seed")
    found = [
        (
            "the sweep again, same prompts and order",
            f"python -m controller {shlex.join([*words, '--seed', str(facts.plan.seed)])}",
        ),
        ("this report again", f"python -m controller report {shlex.quote(str(facts.directory))}"),
    ]
    seen: set[str] = set()
    for cell in facts.cells:
        if cell.command and cell.arm not in seen:
            seen.add(cell.arm)
            found.append((f"server of {cell.arm}", shlex.join(cell.command)))
    return [(name, str(redact(command))) for name, command in found]


def _without(arguments: list[str], *options: str) -> list[str]:
    """Leave out options with their values."""
    kept: list[str] = []
    skip = False
    for word in arguments:
        if skip:
            skip = False
        elif word in options:
            skip = True
        elif not word.startswith(tuple(f"{option}=" for option in options)):
            kept.append(word)
    return kept
