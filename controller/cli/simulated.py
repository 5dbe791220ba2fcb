"""The simulated node that is used when no inventory is given."""

from __future__ import annotations

import click

from controller.exits import InputError
from controller.paths import display, simulator_node


def ensure_node() -> None:
    """Create the default simulated node when there is none.

    Raises:
        InputError: its directory is in use for something else, or cannot be written.
    """
    node = simulator_node()
    if (node / "node.json").is_file():
        return
    from controller.simulator import NodeError, create_node  # noqa: PLC0415 - only the first simulated sweep needs it

    click.echo(
        f"no inventory given: creating a simulated node in {display(node)} (every figure will be simulated)", err=True
    )
    try:
        create_node(node)
    except NodeError as error:
        raise InputError(f"{error} Set CONTROLLER_SIMULATOR_NODE to another directory.") from error
    except OSError as error:
        raise InputError(f"cannot create the simulated node in {node}: {error.strerror}.") from error
