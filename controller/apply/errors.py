"""The refusal to deploy."""

from __future__ import annotations

from controller.exits import ControllerError, Exit


class RefusedError(ControllerError):
    """The evidence, or an unfinished deployment, speaks against deploying; nothing was changed."""

    exit_code = Exit.RUN_FAILED
