"""The variables of a host as the inventory gives them without what ``apply`` wrote.

An arm can add flags or environment variables to those of the inventory. When the settings deployed now did so too, the
inventory shows the sum; adding to that would keep what an earlier arm brought. So Ansible is asked about a copy of the
inventory, made of links, that lacks what ``apply`` wrote.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controller.apply.host_vars import FILE, HostVars
from controller.inventory import read_target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.inventory import Target


def variables_without_ours(target: Target, host_vars: HostVars) -> Mapping[str, Any]:
    """Return the host's variables without ours.

    Raises:
        InputError: the inventory cannot be read.
    """
    if host_vars.read() is None:
        return target.variables
    with tempfile.TemporaryDirectory(prefix="controller-") as name:
        copy = Path(name)
        for entry in host_vars.directory.iterdir():
            if entry.name == "host_vars":
                _copy_host_vars(entry, copy / "host_vars", host_vars)
            elif entry == target.inventory:
                shutil.copy2(entry, copy / entry.name)  # a link would lead Ansible back to the original
            else:
                (copy / entry.name).symlink_to(entry)
        place = copy if target.inventory.is_dir() else copy / target.inventory.name
        mine = HostVars.of(place, target.host)
        if mine.path.name != FILE:
            mine.write(None)
        return read_target(place, target.host).variables


def _copy_host_vars(source: Path, copy: Path, host_vars: HostVars) -> None:
    """Copy ``host_vars`` with links for everything but what holds ours."""
    copy.mkdir()
    for entry in source.iterdir():
        if entry == host_vars.folder and entry.is_dir():
            others = [file for file in entry.iterdir() if file.name != FILE]
            if others:  # an empty folder would hide a file of the host's name
                (copy / entry.name).mkdir()
            for file in others:
                (copy / entry.name / file.name).symlink_to(file)
        elif entry == host_vars.path:
            shutil.copy2(entry, copy / entry.name)
        else:
            (copy / entry.name).symlink_to(entry)
