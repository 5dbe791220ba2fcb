"""Figures as people read them: the rows of the live view, the one line without a terminal, the JSON document."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from controller.watch.state import Condition

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from controller.watch.events import Gpu
    from controller.watch.state import Watched

BARS = "▁▂▃▄▅▆▇█"
UNKNOWN = "-"
ADAPTIVE = "--speculative-adaptive"
MIB_PER_GIB = 1024.0


def rows(watched: Watched, now: float) -> list[tuple[str, str]]:
    """Return (name, value) for the live view, always the same names in the same order."""
    facts, cycle_s = watched.facts, watched.cycle_s
    return [
        ("tok/s", f"{speed(watched):<10} {sparkline(list(watched.speeds))}".rstrip()),
        ("L", acceptance(watched)),
        ("cycle", f"{cycle_s * 1000:.1f} ms" if cycle_s else UNKNOWN),
        ("requests", requests(watched)),
        ("GPU memory", gpu_memory(watched.gpus)),
        ("power", gpu_power(watched.gpus)),
        ("model", f"{facts.model} (SGLang {facts.version})" if facts.model and watched.reading else UNKNOWN),
        ("launch", launch(watched, now)),
        ("flags", flags(watched)),
        ("log", log_file(watched) or UNKNOWN),
    ]


def headline(watched: Watched) -> str:
    """Return condition and phase in a few words."""
    words = watched.condition.value
    if watched.condition in (Condition.STARTING, Condition.DEAD) and watched.phase:
        words += f": {watched.phase}"
    if watched.condition is Condition.SERVING and watched.reading and watched.reading.running == 0:
        words += ", idle"
    return words


def line(watched: Watched, title: str, moment: dt.datetime, now: float) -> str:
    """Return everything in one line, for logs and pipes."""
    parts = [f"{moment:%H:%M:%S} {title}: {headline(watched)}"]
    if watched.reading is not None:
        named = {name: value for name, value in rows(watched, now) if value != UNKNOWN}
        parts.append(f"{speed(watched)} tok/s")
        parts += [f"{name} {named[name]}" for name in ("L", "cycle", "requests") if name in named]
    if watched.gpus:
        parts += [gpu_memory(watched.gpus), gpu_power(watched.gpus)]
    return "; ".join([*parts, *watched.sentences])


def document(watched: Watched, host: str, now: float) -> dict[str, Any]:
    """Return everything as JSON: figures in tokens/s, seconds, MiB, W, degrees Celsius; null where unknown."""
    reading, facts, launched = watched.reading, watched.facts, watched.launch
    age_s = watched.age_s(now)
    return {
        "schema": 1,
        "target": host,
        "simulated": watched.simulated,
        "condition": watched.condition.value,
        "phase": watched.phase or None,
        "url": watched.access.url if watched.access else None,
        "tokens_per_s": reading.tokens_per_s if reading else None,
        "acceptance_length": reading.acceptance_length if reading else None,
        "cycle_s": watched.cycle_s,
        "running_requests": reading.running if reading else None,
        "queued_requests": reading.queued if reading else None,
        "gpus": [
            {
                "index": gpu.index,
                "used_mib": gpu.used_mib,
                "total_mib": gpu.total_mib,
                "power_w": gpu.power_w,
                "temperature_c": gpu.temperature_c,
            }
            for gpu in watched.gpus
        ],
        "server": {
            "model": facts.model or None,
            "version": facts.version or None,
            "speculative_algorithm": facts.algorithm,
            "speculative_num_steps": facts.steps,
            "max_running_requests": facts.max_running,
        },
        "launch": {
            "launch_id": launched.get("launch_id"),
            "owner": launched.get("owner") or None,
            "pid": launched.get("pid"),
            "age_s": None if age_s is None else round(age_s, 1),
            "argv": watched.argv,
            "log_file": log_file(watched) or None,
        }
        if launched
        else None,
        "failure": watched.health.get("failure"),
        "notes": watched.sentences,
    }


def speed(watched: Watched) -> str:
    """Return the generation speed; a batch that no longer runs has none."""
    reading = watched.reading
    if reading is None or reading.tokens_per_s is None:
        return UNKNOWN
    simulated = " (simulated)" if watched.simulated else ""
    return f"{0.0 if reading.running == 0 else reading.tokens_per_s:.1f}{simulated}"


def acceptance(watched: Watched) -> str:
    """Return L beside the most that this launch can reach; one that chooses its steps itself has no such bound."""
    reading, facts = watched.reading, watched.facts
    if reading is None:
        return UNKNOWN
    if reading.acceptance_length is None:
        return "none yet" if facts.algorithm else "no speculation" if facts.model else UNKNOWN
    most = f" of at most {facts.steps + 1}" if facts.steps and ADAPTIVE not in watched.argv else ""
    return f"{reading.acceptance_length:.2f}{most}"


def requests(watched: Watched) -> str:
    """Return how many run and wait."""
    reading, facts = watched.reading, watched.facts
    if reading is None or reading.running is None:
        return UNKNOWN
    most = f" of at most {facts.max_running}" if facts.max_running else ""
    return f"{reading.running} running{most}, {reading.queued or 0} queued"


def gpu_memory(gpus: Sequence[Gpu]) -> str:
    """Return memory in use, as a range when the GPUs differ."""
    used = [gpu.used_mib / MIB_PER_GIB for gpu in gpus if gpu.used_mib is not None]
    total = [gpu.total_mib / MIB_PER_GIB for gpu in gpus if gpu.total_mib is not None]
    if not used or not total:
        return UNKNOWN
    return f"{len(used)} x {_range(used, 1)} of {_range(total, 1)} GiB"


def gpu_power(gpus: Sequence[Gpu]) -> str:
    """Return power of each and of all."""
    power = [gpu.power_w for gpu in gpus if gpu.power_w is not None]
    hottest = max((gpu.temperature_c for gpu in gpus if gpu.temperature_c is not None), default=None)
    if not power:
        return UNKNOWN
    heat = f", hottest {hottest:.0f} °C" if hottest is not None else ""
    return f"{len(power)} x {_range(power, 0)} W, {sum(power):.0f} W in all{heat}"


def launch(watched: Watched, now: float) -> str:
    """Return arm, owner and age."""
    if not watched.launch:
        return UNKNOWN
    age_s = watched.age_s(now)
    owner = watched.launch.get("owner")
    parts = [arm(watched), f"up {duration(age_s)}" if age_s is not None else "", f"of sweep {owner}" if owner else ""]
    return ", ".join(part for part in parts if part)


def arm(watched: Watched) -> str:
    """Return the arm that this launch is, by its command line."""
    argv = watched.argv
    if "--speculative-algorithm" not in argv:
        return "baseline (no speculation)"
    steps = argv[argv.index("--speculative-num-steps") + 1] if "--speculative-num-steps" in argv[:-1] else "?"
    name = "adaptive" if ADAPTIVE in argv else f"steps-{steps}"
    return f"{name} ({argv[argv.index('--speculative-algorithm') + 1]})"


def flags(watched: Watched) -> str:
    """Return what follows the launcher's name on the command line."""
    argv = watched.argv
    first = next((place for place, word in enumerate(argv) if word.startswith("--")), len(argv))
    return shlex.join(argv[first:]) or UNKNOWN


def log_file(watched: Watched) -> str:
    """Return the log of this launch."""
    return str(watched.launch.get("log_file") or (watched.access.log_file if watched.access else ""))


def duration(seconds: float) -> str:
    """Return an age in the two largest units that say something."""
    whole = int(seconds)
    for size, large, small_size, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {large} {whole % size // small_size} {small}"
    return f"{whole} s"


def sparkline(values: Sequence[float]) -> str:
    """Return the last values as bars from nothing to the largest."""
    top = max(values, default=0.0)
    if top <= 0:
        return ""
    return "".join(BARS[min(len(BARS) - 1, int(value / top * (len(BARS) - 1) + 0.5))] for value in values)


def _range(values: Sequence[float], digits: int) -> str:
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low}-{high}"
