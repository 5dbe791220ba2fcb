"""Whether the hosts of a fleet are alike: a difference between them would pass for noise of the launches.

Compared is what module ``launch_conditions`` found: versions, driver, kind and number of GPUs, hashes of the models'
files. What differs between two machines by nature (GPU numbers, folders, time stamps of files) is not.
"""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from controller.exits import InputError
from controller.sweep.configuration import SHOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU_UUIDS = "GPUs"
WITH_TIME_STAMPS = " (weights)"
SHORT = 12


class HostsDifferError(InputError):
    """The hosts are not of one kind."""


def comparable(identity: Mapping[str, str]) -> dict[str, str]:
    """Return what must be the same on every host of a fleet."""
    found: dict[str, str] = {}
    for name, value in identity.items():
        if name == GPU_UUIDS:
            found["number of GPUs"] = str(len(value.split()))  # their kinds have a name of their own
        elif not name.endswith(WITH_TIME_STAMPS):
            found["/".join(PurePosixPath(name).parts[-2:]) if name.startswith("/") else name] = value
    return found


def differences(identities: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """Return {host: differences} against what most hosts have; hosts without any are left out.

    What was not found on a host (an identity may be empty) differs from nothing.
    """
    alike = {host: comparable(identity) for host, identity in identities.items()}
    found: dict[str, list[str]] = {}
    for name in sorted({name for values in alike.values() for name in values}):
        counts = Counter(values[name] for values in alike.values() if name in values)
        usual = counts.most_common(1)[0][0]
        for host, values in alike.items():
            if values.get(name, usual) != usual:
                found.setdefault(host, []).append(f"{name} is {_short(values[name])}, not {_short(usual)}")
    return found


def sentence(found: Mapping[str, list[str]]) -> str:
    """Return the differences as a part of a sentence."""
    return "; ".join(
        f"on {host} {', '.join(some[:SHOWN])}" + (f" and {len(some) - SHOWN} more" if len(some) > SHOWN else "")
        for host, some in found.items()
    )


def refusal(found: Mapping[str, list[str]]) -> HostsDifferError:
    """Return the refusal of hosts that are not alike."""
    return HostsDifferError(
        f"the hosts are not alike: {sentence(found)}. Leave them out of --hosts, make them alike, or mix them "
        "knowingly with --accept-changes."
    )


def _short(value: str) -> str:
    return f"{value[:SHORT]}…" if len(value) == 64 and " " not in value else value
