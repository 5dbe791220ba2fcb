"""What tests of injected faults share. ``CONTROLLER_FAULTS=all`` runs the slow ones too, some minutes."""

from __future__ import annotations

import os

import pytest

THOROUGH = os.environ.get("CONTROLLER_FAULTS") == "all"
thorough = pytest.mark.skipif(not THOROUGH, reason="slow: CONTROLLER_FAULTS=all runs it")
