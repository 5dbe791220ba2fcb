"""How often the right class of failure is named: a table by class over folders of logs.

The first line of each log says what it is: `# expect=CLASS[,CLASS] source=WHERE`. Without arguments the logs of public
reports in tests/data/diagnosis-reports are taken.

    python tests/bench/bench_diagnose_accuracy.py [FOLDER …]

Exit status 1 when a wrong cause was named with high confidence.
"""

from __future__ import annotations

import dataclasses
import io
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "collections")]

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_model import HIGH  # noqa: E402
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.diagnosis_reader import diagnose_file  # noqa: E402

REPORTS = ROOT / "tests" / "data" / "diagnosis-reports"
_EXPECTED = re.compile(r"^#.*\bexpect=(\S+)")


@dataclasses.dataclass(frozen=True)
class Named:
    """What was named for one log. `expected` holds every class that is right, the most exact first."""

    path: Path
    expected: tuple[str, ...]
    failure_class: str
    confidence: str

    @property
    def right(self) -> bool:
        return self.failure_class in self.expected

    @property
    def wrong_and_sure(self) -> bool:
        return not self.right and self.confidence == HIGH


def diagnose_folder(folder: Path) -> list[Named]:
    """Diagnose every log in a folder and below it whose first line says what to expect."""
    named = []
    for path in sorted(folder.rglob("*.log")):
        head, _, body = path.read_bytes().partition(b"\n")
        expected = _EXPECTED.match(head.decode(errors="replace"))
        if expected is not None:
            found = diagnose_file(io.BytesIO(body))
            named.append(Named(path, tuple(expected.group(1).split(",")), found.failure_class, found.confidence))
    return named


def main() -> int:
    """Print the table, then what was wrong."""
    folders = [Path(name) for name in sys.argv[1:]] or sorted(path for path in REPORTS.iterdir() if path.is_dir())
    every: list[Named] = []
    for folder in folders:
        named = diagnose_folder(folder)
        right = sum(one.right for one in named)
        print(f"{folder.name:12} {right:3} of {len(named):3} right ({100 * right / max(1, len(named)):.1f} %)")
        every += named
    logs, right_ones = Counter(one.expected[0] for one in every), Counter(one.expected[0] for one in every if one.right)
    print(f"\n{'class':20} logs right")
    for name in sorted(logs):
        print(f"{name:20} {logs[name]:4} {right_ones[name]:5}")
    for one in every:
        if not one.right:
            print(f"wrong: {one.path.name}: {one.failure_class} ({one.confidence}) instead of {one.expected[0]}")
    sure = [one for one in every if one.wrong_and_sure]
    print(f"\nwrong with high confidence: {len(sure)}")
    return 1 if sure else 0


if __name__ == "__main__":
    sys.exit(main())
