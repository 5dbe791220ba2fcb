"""Watch clocks, temperature, power and memory of the GPUs while a launch serves. Standard library only.

The text of this file is also run as a program of its own (``python -I -S -``), so it imports nothing of the
collection. It waits until the health module has noted that the launch serves, looks every few seconds, and keeps a
summary in a file. It ends when another launch is noted, when the launcher is gone, when it is told to, or after its
longest time: it cannot be forgotten.

One look is one call of nvidia-smi, which reads counters and allocates nothing on a GPU. Reasons for lower clocks: NVML
API reference, nvmlClocksEventReasons.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence

FIELDS = ("index", "clocks.sm", "temperature.gpu", "power.draw", "memory.used")
REASON_FIELDS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""The newer name first; drivers before R535 know the second only."""
FORMAT = "--format=csv,noheader,nounits"
REASONS = {
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}
IDLE = 0x1
SERVING = "serving"
LONGEST_S = 6 * 3600.0
SMI_TIMEOUT_S = 20.0
WAIT_S = 0.3


def parse_sample(text: str) -> List[Dict[str, Any]]:
    """Return one dictionary a GPU from the answer of nvidia-smi; values it does not give are None.

    Raises:
        ValueError: a line has other fields.
    """
    found = []
    for line in text.splitlines():
        if not line.strip():
            continue
        words = [word.strip() for word in line.split(",")]
        if len(words) != len(FIELDS) + 1:
            raise ValueError(f"expected {len(FIELDS) + 1} fields, got {line!r}")
        index, clock, temperature, power, memory = (_number(word) for word in words[:-1])
        found.append(
            {
                "index": index,
                "sm_mhz": clock,
                "temperature_c": temperature,
                "power_w": power,
                "memory_mib": memory,
                "reasons": _mask(words[-1]),
            }
        )
    return found


def _number(word: str) -> Optional[float]:
    try:
        return float(word)
    except ValueError:
        return None


def _mask(word: str) -> int:
    try:
        return int(word, 0)
    except ValueError:
        return 0


class Summary:
    """What all samples of a launch have in common: bounded, however long it serves."""

    def __init__(self) -> None:
        self._samples = 0
        self._clocks: List[float] = []
        self._temperature: Optional[float] = None
        self._power: Optional[float] = None
        self._reasons: Dict[str, int] = {}
        self._first_memory: Dict[Any, float] = {}
        self._growth: Optional[float] = None

    def add(self, sample: Sequence[Mapping[str, Any]]) -> None:
        """Take one look at all GPUs in."""
        self._samples += 1
        mask = 0
        for gpu in sample:
            mask |= gpu["reasons"]
            if gpu["sm_mhz"] is not None and not gpu["reasons"] & IDLE:
                self._clocks.append(gpu["sm_mhz"])
            self._temperature = _larger(self._temperature, gpu["temperature_c"])
            self._power = _larger(self._power, gpu["power_w"])
            if gpu["memory_mib"] is not None:
                first = self._first_memory.setdefault(gpu["index"], gpu["memory_mib"])
                self._growth = _larger(self._growth, gpu["memory_mib"] - first)
        for bit, name in REASONS.items():
            if mask & bit:
                self._reasons[name] = self._reasons.get(name, 0) + 1

    def as_json(self) -> Dict[str, Any]:
        """Return the summary: MHz, degrees Celsius, watts, MiB, and the share of samples of each reason."""
        return {
            "samples": self._samples,
            "sm_mhz_lowest": min(self._clocks, default=None),
            "sm_mhz_median": statistics.median(self._clocks) if self._clocks else None,
            "temperature_c": self._temperature,
            "power_w": self._power,
            "throttling": {name: round(count / self._samples, 4) for name, count in sorted(self._reasons.items())},
            "memory_growth_mib": self._growth,
        }


def _larger(known: Optional[float], value: Optional[float]) -> Optional[float]:
    if value is None:
        return known
    return value if known is None else max(known, value)


def look(nvidia_smi: str, reason_field: str) -> Optional[List[Dict[str, Any]]]:
    """Return one sample; None when nvidia-smi does not know the field, fails or hangs."""
    command = [nvidia_smi, f"--query-gpu={','.join(FIELDS)},{reason_field}", FORMAT]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=SMI_TIMEOUT_S, check=False)
        return parse_sample(answer.stdout) if answer.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def serving_launch(health_file: str, since: float) -> Optional[str]:
    """Return the launch that the health module has found serving at or after a time (epoch seconds), None before."""
    try:
        if os.stat(health_file).st_mtime < since:  # noqa: PTH116 - no pathlib: this starts beside a loading server
            return None
        with open(health_file, encoding="utf-8") as file:  # noqa: PTH123
            known = json.load(file)
    except (OSError, ValueError):
        return None
    if not isinstance(known, dict) or known.get("phase") != SERVING:
        return None
    return str(known.get("launch_id"))


def launcher_is_gone(state_dir: str) -> bool:
    """Whether the launcher of the launch record there has ended; without a record (systemd's launches) it has not."""
    if not os.path.isdir(state_dir):  # noqa: PTH112
        return True
    try:
        with open(f"{state_dir}/launch.json", encoding="utf-8") as file:  # noqa: PTH123
            record = json.load(file)
        pid, start_ticks = int(record["pid"]), int(record["start_ticks"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            fields = file.read().rpartition(")")[2].split()
        return int(fields[19]) != start_ticks or fields[0] == "Z"
    except (OSError, ValueError, IndexError):
        return True


def watch(health_file: str, result_file: str, nvidia_smi: str, interval_s: float, longest_s: float = LONGEST_S) -> None:
    """Sample one launch from the moment it serves and keep the summary in ``result_file``.

    Args:
        health_file: What the health module remembers of the launch.
        result_file: Where the summary is kept, written anew at each sample.
        nvidia_smi: The program.
        interval_s: Seconds between two looks.
        longest_s: Seconds after which it ends in any case.
    """
    began, started = time.monotonic(), time.time()
    launch: Optional[str] = None
    summary = Summary()
    field: Optional[str] = None
    while time.monotonic() - began < longest_s and not launcher_is_gone(os.path.dirname(health_file)):  # noqa: PTH120
        serving = serving_launch(health_file, started - 1)
        if launch is None:
            launch = serving
        elif serving != launch:
            return
        if launch is None:
            time.sleep(WAIT_S)
            continue
        sample = None
        for name in REASON_FIELDS if field is None else (field,):
            sample = look(nvidia_smi, name)
            if sample is not None:
                field = name
                break
        if sample is None and field is None:
            return  # no nvidia-smi that can be used here
        if sample is not None:
            summary.add(sample)
            _write(result_file, {"launch_id": launch, "gpu": summary.as_json()})
        time.sleep(interval_s)


def _write(path: str, content: Mapping[str, Any]) -> None:
    temporary = f"{path}.new"
    with open(temporary, "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(content, file)
    os.replace(temporary, path)  # noqa: PTH105


if __name__ == "__main__":
    watch(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
