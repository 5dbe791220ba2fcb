"""The command line that the server will be started with, taken apart (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Optional, Sequence, Tuple

ALIASES = {"--tp": "--tp-size", "--tensor-parallel-size": "--tp-size", "--model": "--model-path"}


@dataclass(frozen=True)
class CommandLine:
    """Interpreter and flags; `values` has one text for each flag, empty for a flag alone."""

    python: str
    flags: Tuple[str, ...]
    values: Dict[str, str]

    def text(self, flag: str) -> str:
        """The value of a flag, empty when it is not given."""
        return self.values.get(flag, "")

    def number(self, flag: str) -> Optional[int]:
        """The whole number given to a flag; None when it is not given or is none."""
        text = self.text(flag)
        return int(text) if text.isdigit() else None

    def has(self, flag: str) -> bool:
        """Whether a flag is given."""
        return flag in self.values

    @property
    def speculative(self) -> bool:
        """Whether the server will draft."""
        return self.has("--speculative-algorithm")

    @property
    def tensor_parallel_size(self) -> int:
        """GPUs of the server, on all its machines together."""
        return self.number("--tp-size") or 1

    @property
    def local_ranks(self) -> int:
        """GPUs of the server on each of its machines."""
        return max(self.tensor_parallel_size // (self.number("--nnodes") or 1), 1)


def parse_command_line(argv: Sequence[str]) -> CommandLine:
    """Take `python -m sglang.launch_server --flag value ...` apart; also --flag=value and several values of a flag."""
    flags, values, current = [], {}, ""
    for word in list(argv)[1:]:
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            flags.append(flag)
            current = ALIASES.get(flag, flag)
            values[current] = value if equals else ""
        elif current:
            values[current] = f"{values[current]} {word}".strip()
    return CommandLine(argv[0] if argv else "", tuple(flags), values)
