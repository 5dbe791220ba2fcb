"""What the decode lines of a serving SGLang say about speculation: how many tokens a verify step accepts (pure)."""

from __future__ import annotations

import collections
import re
from typing import Counter, Optional

_DECODE = re.compile(r"Decode batch[.,]")
_ACCEPTED = re.compile(r"accept(?:ed)?[ _]len(?:gth)?: (\d+(?:\.\d+)?)(?:, accept rate: (\d+(?:\.\d+)?))?")
_ASKED = re.compile(r"speculative_num_draft_tokens['\"]?[=:] ?(\d+)")

NOTHING_ACCEPTED = 1.05
"""Mean acceptance length at and below which no draft token is accepted (1.0 is the verified token itself)."""
LOW_LENGTH = 2.2
"""Acceptance length below which speculation is suspected not to pay, when the number of draft tokens is not known."""
LOW_FRACTION = 0.4
"""The same as a fraction of the draft's tokens that are accepted."""
ENOUGH_LINES = 3
FEW_LINES = 2
"""Decode lines that are enough when not one token was accepted in any of them."""


class Acceptance:
    """Sums over decode lines; the first one of a server covers its idle time and is left out."""

    def __init__(self) -> None:
        self.decode_lines = 0
        self.speculative_lines = 0
        self.answered_requests = 0
        self.last_number = 0
        self._sum = 0.0
        self._seen = 0
        self._longest = 0.0
        self._asked: Optional[int] = None
        self._guesses: Counter[int] = collections.Counter()

    def take(self, number: int, message: str) -> None:
        """Take one line into account, whatever it is."""
        if self._asked is None and message.startswith("server_args="):
            asked = _ASKED.search(message)
            # The line is long: what lies behind the kept part is not known.
            self._asked = int(asked.group(1)) if asked else None
        if _DECODE.search(message) is None:
            return
        self.decode_lines += 1
        self.last_number = max(self.last_number, number)
        accepted = _ACCEPTED.search(message)
        if accepted is None:
            return
        length = float(accepted.group(1))
        self._seen += 1
        self._longest = max(self._longest, length)
        if self.decode_lines == 1:
            return
        self.speculative_lines += 1
        self._sum += length
        self._guess_draft_tokens(length, float(accepted.group(2) or 0))

    def answered(self, number: int) -> None:
        """Note that a line tells of an answered request."""
        self.answered_requests += 1
        self.last_number = max(self.last_number, number)

    def _guess_draft_tokens(self, length: float, rate: float) -> None:
        """The rate is length / tokens up to SGLang 0.5.10, (length - 1) / (tokens - 1) from 0.5.11."""
        if rate <= 0 or length <= 1:
            return
        for guess in (length / rate, 1 + (length - 1) / rate):
            if abs(guess - round(guess)) < 0.15 and 2 <= round(guess) <= 64:
                self._guesses[round(guess)] += 1

    @property
    def length(self) -> Optional[float]:
        """Mean acceptance length, None when there are too few lines."""
        return self._sum / self.speculative_lines if self.speculative_lines >= ENOUGH_LINES else None

    @property
    def draft_tokens(self) -> Optional[int]:
        """Draft tokens of a verify step: from the settings, else from how rate and length belong together."""
        if self._asked is not None:
            return self._asked
        if self._guesses:
            tokens, lines = self._guesses.most_common(1)[0]
            if 2 * lines > self.speculative_lines:
                return tokens
        return None

    @property
    def nothing_accepted(self) -> bool:
        """Whether no token of the draft is ever accepted; an excerpt of a log may have just a few lines."""
        if self.length is None:
            return self._seen >= FEW_LINES and self._longest <= NOTHING_ACCEPTED
        return self.length <= NOTHING_ACCEPTED

    @property
    def low(self) -> bool:
        """Whether so few tokens are accepted that speculation is suspected not to pay."""
        length, tokens = self.length, self.draft_tokens
        if length is None:
            return False
        if tokens is not None and tokens > 1:
            return (length - 1) / (tokens - 1) < LOW_FRACTION
        return length < LOW_LENGTH

    @property
    def sentence(self) -> str:
        """The finding in words."""
        of = f" of at most {self.draft_tokens}" if self.draft_tokens else ""
        if self.length is None:
            return f"acceptance length at most {self._longest:.2f}{of} tokens in {self._seen} decode lines"
        return f"mean acceptance length {self.length:.2f}{of} tokens over {self.speculative_lines} decode lines"
