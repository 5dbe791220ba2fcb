"""Runs a Python program again and again in one interpreter, so that its imports are paid once.

``sglang.bench_serving`` imports for nine seconds and then measures for four: in a process for each turn a machine that
wanders from minute to minute is looked at seldom. As a program (``warm_program.py -m MODULE`` or ``warm_program.py
FILE``) it reads a JSON list of arguments a line and answers each with a line: null, or what ended it.
"""

from __future__ import annotations

import contextlib
import json
import runpy
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType


class WarmProgram:
    """A program of another interpreter, ready to run; it ends with the ``with`` block.

    ``command`` is how it is started as a process: ``(python, "-m", module)`` or ``(python, file)``.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._words = [command[0], __file__, *command[1:]]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
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


def main() -> None:
    """Serve the program of the command line until standard input ends."""
    words = sys.argv[1:]
    answers = sys.stdout
    sys.path.pop(0)  # this file's folder, which the program does not have as a process of its own
    for line in sys.stdin:
        problem = None
        sys.argv = [words[-1], *json.loads(line)]
        try:
            with contextlib.redirect_stdout(sys.stderr):
                if words[0] == "-m":
                    runpy.run_module(words[1], run_name="__main__", alter_sys=True)
                else:
                    runpy.run_path(words[0], run_name="__main__")
        except SystemExit as end:
            problem = f"exit {end.code}" if end.code else None
        except Exception as error:  # noqa: BLE001 - whatever the program raises is its answer
            problem = f"{type(error).__name__}: {error}"
        answers.write(json.dumps(problem) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
