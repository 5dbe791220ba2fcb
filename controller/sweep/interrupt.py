"""Ctrl-C, SIGTERM and a closed terminal: the first asks the sweep to stop, the second ends the controller at once."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from controller.exits import Exit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopAskedError(KeyboardInterrupt):
    """Raised out of a measurement when the operator asks to stop.

    A ``KeyboardInterrupt``, because the event loop and HTTP libraries pass that on where they would keep another error.
    """


class Interrupts:
    """Signal handlers for the length of a ``with`` block; the earlier ones come back after it.

    While Ansible runs, the first signal only sets :attr:`asked` (the cancel callback reads it). Within
    :meth:`raising` it raises :class:`StopAskedError`, so that a long request does not delay it.
    """

    def __init__(self, last_words: Callable[[], str], on_asked: Callable[[], None] = lambda: None) -> None:
        self._last_words = last_words
        self._on_asked = on_asked
        self._previous: dict[signal.Signals, Any] = {}
        self._raise = False
        self._terminals: tuple[int, ...] = ()
        self.asked = False

    def __enter__(self) -> Self:
        self._terminals = tuple(descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor))
        for number in SIGNALS:
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Let the first signal interrupt the block.

        Raises:
            StopAskedError: a signal arrived before or during the block.
        """
        self._raise = True
        try:
            if self.asked:
                raise StopAskedError
            yield
        finally:
            self._raise = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if number == signal.SIGHUP:
            self._leave_terminal()
        if self.asked and number != signal.SIGHUP:  # a closing terminal sends more than one signal
            sys.stderr.write(f"\n{self._last_words()}\n")
            sys.stderr.flush()
            os._exit(Exit.INTERRUPTED)
        first = not self.asked
        self.asked = True
        if first:
            self._on_asked()
        if self._raise:
            self._raise = False
            raise StopAskedError

    def _leave_terminal(self) -> None:
        """Write to nowhere when the terminal is gone: an error of the display must not get in the way of stopping."""
        for descriptor in self._terminals:
            if not os.isatty(descriptor):
                nowhere = os.open(os.devnull, os.O_RDWR)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
