"""The command line: ``main`` turns every error into one sentence and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING

import click

from controller.exits import ControllerError, Exit

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = "controller"
COMPLETION_VARIABLE = "_CONTROLLER_COMPLETE"
"""Click answers with completions instead of running when this is set; the script of ``completion`` sets it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    from controller.cli.app import cli  # noqa: PLC0415 - after this module exists, so that commands may import it

    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words or bool(os.environ.get("CONTROLLER_DEBUG"))
    try:
        result = cli.main(args=words, prog_name=_program(), complete_var=COMPLETION_VARIABLE, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except ControllerError as error:
        return _say(error.sentence, error.exit_code, debug=debug)
    except (KeyboardInterrupt, click.Abort):
        return _say("interrupted.", Exit.INTERRUPTED, debug=debug)
    except BrokenPipeError:
        # Whoever read our output has gone (head, less): not worth a message. Python would print one while closing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except Exception as error:  # noqa: BLE001 - the last line of defence before a traceback
        detail = " ".join(f"{type(error).__name__}: {error}".split())
        return _say(f"this is a fault of the controller ({detail}); --debug shows where.", Exit.RUN_FAILED, debug=debug)
    return result if isinstance(result, int) else Exit.OK


def _program() -> str:
    """Return how this program was called, for usage lines."""
    return PROGRAM if os.path.basename(sys.argv[0]) == PROGRAM else f"python -m {PROGRAM}"  # noqa: PTH119 - no import


def _say(sentence: str, code: Exit, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    click.echo(f"error: {sentence}", err=True)
    return int(code)
