"""Single keys from a terminal, without waiting for Enter."""

from __future__ import annotations

import os
import termios
import threading
import tty
from contextlib import contextmanager
from typing import TYPE_CHECKING

from controller.watch.events import KeyPressed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controller.watch.events import Event


@contextmanager
def keys(descriptor: int, put: Callable[[Event], None]) -> Iterator[None]:
    """Hand every key to ``put`` while the block runs; the terminal is put back as it was."""
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)

    def read() -> None:
        while True:
            try:
                key = os.read(descriptor, 16)
            except OSError:
                return
            if not key:
                return
            put(KeyPressed(key.decode("utf-8", "replace")))

    threading.Thread(target=read, name="watch-keys", daemon=True).start()
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
