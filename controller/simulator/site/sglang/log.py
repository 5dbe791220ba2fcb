"""Log lines as SGLang writes them (``configure_logger`` of srt/utils/common.py, 0.5.15)."""

from __future__ import annotations

import os
import time


class Log:
    """Writes ``[YYYY-mm-dd HH:MM:SS TPn] message`` to standard error, one system call a line.

    A single write keeps the lines of several processes whole in the file that all of them share.
    """

    def __init__(self, tensor_parallel_rank: int | None = None) -> None:
        self._suffix = "" if tensor_parallel_rank is None else f" TP{tensor_parallel_rank}"

    def __call__(self, message: str) -> None:
        """Write one message under the time stamp."""
        self.raw(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}{self._suffix}] {message}\n")

    def raw(self, text: str) -> None:
        """Write text as it is, without a time stamp (progress bars, output of libraries)."""
        write_all(2, text)

    def access(self, message: str) -> None:
        """Write a line of uvicorn's access log, which goes to standard output."""
        write_all(1, f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] INFO:     {message}\n")


def write_all(descriptor: int, text: str) -> None:
    """Write text to a descriptor; a closed or full log must never stop the server."""
    data = text.encode("utf-8", "replace")
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        return
