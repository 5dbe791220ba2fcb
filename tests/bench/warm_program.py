"""Runs a Python program again and again in one interpreter, so that its imports are paid once.

``sglang.bench_serving`` imports for nine seconds and then measures for four: in a process for each turn a machine that
wanders from minute to minute is looked at seldom. As a program (``warm_program.py -m MODULE`` or ``warm_program.py
FILE``) it reads a JSON list of arguments a line and answers each with a line: null, or what ended it. The program that
it runs has neither of these two pipes, and ends at once when nobody is there any more to hear the answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import runpy
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType


class WarmProgram:
    """A program of another interpreter, ready to run; it ends with the ``with`` block, in the midst of a run too.

    ``command`` is how it is started as a process: ``(python, "-m", module)`` or ``(python, file)``.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._words = [command[0], __file__, *command[1:]]
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            self._words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=dict(environment),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()
        self._errors.close()

    @property
    def pid(self) -> int:
        """Return the process's number."""
        return self._process.pid

    def run(self, arguments: Sequence[str]) -> str | None:
        """Run it once; return None, or why it ended otherwise."""
        questions, answers = self._process.stdin, self._process.stdout
        assert questions
        assert answers
        answer = ""
        with contextlib.suppress(BrokenPipeError):
            questions.write(json.dumps(list(arguments)) + "\n")
            questions.flush()
            answer = answers.readline()
        if answer:
            problem: str | None = json.loads(answer)
            return problem
        self._process.wait()
        self._errors.seek(0)
        last = " ".join(self._errors.read().strip().splitlines()[-3:])
        return f"{' '.join(self._words)} ended with {self._process.returncode}: {last[-500:]}"


GONE = 143
"""Exit status when the process that asked has gone during a run."""


class Desk:
    """Where questions come in and answers go out; the pipes are hidden from the program and from its own processes."""

    def __init__(self) -> None:
        self._questions = os.fdopen(os.dup(0), encoding="utf-8")
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._busy = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self._questions:
            self._busy.set()
            self._waiting.put(line)
        if self._busy.is_set():
            os._exit(GONE)
        self._waiting.put(None)

    def next_question(self) -> list[str] | None:
        """Return the next arguments; None when there are no more."""
        line = self._waiting.get()
        return None if line is None else [str(word) for word in json.loads(line)]

    def answer(self, problem: str | None) -> None:
        """Say how the program ended."""
        self._busy.clear()
        self._answers.write(json.dumps(problem) + "\n")
        self._answers.flush()


def main() -> None:
    """Serve the program of the command line until standard input ends."""
    words, desk = sys.argv[1:], Desk()
    # Where a process of its own would look first, instead of this file's folder.
    sys.path[0] = str(Path.cwd() if words[0] == "-m" else Path(words[0]).resolve().parent)
    while (arguments := desk.next_question()) is not None:
        problem = None
        sys.argv = [words[-1], *arguments]
        try:
            if words[0] == "-m":
                runpy.run_module(words[1], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(words[0], run_name="__main__")
        except SystemExit as end:
            problem = f"exit {end.code}" if end.code else None
        except KeyboardInterrupt:
            os._exit(130)
        except Exception as error:  # noqa: BLE001 - whatever the program raises is its answer
            problem = f"{type(error).__name__}: {error}"
        desk.answer(problem)


if __name__ == "__main__":
    main()
