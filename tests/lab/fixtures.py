"""pytest fixtures of the lab. A test module takes them with ``pytest_plugins = ["tests.lab.fixtures"]``.

Where the lab cannot run, its tests are skipped with the reason (and fail in CI, as every skip there does).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.lab.holding import held_lab
from tests.lab.requirements import why_unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab.running import RunningLab


@pytest.fixture(scope="session")
def lab_can_run() -> None:
    """Skip where the lab cannot run."""
    reason = why_unavailable()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def lab_name() -> str:
    """A name that no other test run uses."""
    return f"test-{os.getpid()}"


@pytest.fixture(scope="session")
def lab(lab_can_run: None, lab_name: str) -> Iterator[RunningLab]:  # noqa: ARG001 (for its effect)
    """A lab for the whole test run; use ``container`` for a fresh container 129."""
    with held_lab(lab_name) as running:
        yield running


@pytest.fixture
def container(lab: RunningLab) -> RunningLab:
    """The lab with an empty disk in container 129, the tenant stopped and no GPU memory held."""
    lab.pve("pct", "rollback", "1290", "fresh")
    lab.pve("find", "/var/lib/simulated-gpu", "-type", "f", "-path", "*/gpu?/*", "-delete")
    lab.reset_container()
    return lab
