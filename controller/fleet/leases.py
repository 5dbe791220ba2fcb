"""The leases of a controller that is alone: every block is its own. The journal is all that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.fleet.ports import Others

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Alone:
    """No other controller works on this sweep."""

    interval_s = 3600.0

    def agree(self, identity: Mapping[str, str]) -> Mapping[str, str]:
        """Return nothing: nobody else has hosts."""
        del identity
        return {}

    def keep(self, blocks: Sequence[int]) -> set[int]:
        """Return all of them."""
        return set(blocks)

    def take(self, host: str, wanted: Sequence[int]) -> int | None:
        """Return the first wanted block."""
        del host
        return wanted[0] if wanted else None

    def finish(self, block: int) -> bool:
        """Return that it counts."""
        del block
        return True

    def give_back(self, block: int) -> None:
        """Nothing: nobody waits for it."""

    def renew(self) -> set[int]:
        """Return that nothing was lost."""
        return set()

    def others(self) -> Others:
        """Return that nobody else is there."""
        return Others()

    def close(self) -> None:
        """Nothing is open."""
