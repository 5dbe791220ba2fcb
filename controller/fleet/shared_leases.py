"""Leases of blocks in PostgreSQL: taken with ``FOR UPDATE SKIP LOCKED``, kept alive by a heartbeat, lost when it stops.

A lease has a token that grows each time a block is taken. Whoever finishes a block must still hold the token, so a
controller that was cut off and comes back late finds that its launches count no more. Time is the database's alone.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from controller.fleet.database import connect, driver, first_connection
from controller.fleet.ports import Others

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg import Connection

LEASE_S = 60.0
HEARTBEATS_A_LEASE = 6
RETRY_S = 1.0

TAKE = """
UPDATE sweep_block AS taken
SET state = 'leased', holder = %(me)s, host = %(host)s, token = taken.token + 1,
    lease_until = now() + make_interval(secs => %(lease)s)
FROM (
  SELECT block FROM sweep_block
  WHERE sweep_id = %(sweep)s AND block = ANY(%(wanted)s::integer[])
    AND (state = 'open' OR holder = %(me)s OR (state = 'leased' AND lease_until < now()))
  ORDER BY array_position(%(wanted)s::integer[], block) LIMIT 1 FOR UPDATE SKIP LOCKED
) AS free
WHERE taken.sweep_id = %(sweep)s AND taken.block = free.block
RETURNING taken.block, taken.token
"""
RENEW = """
UPDATE sweep_block SET lease_until = now() + make_interval(secs => %(lease)s)
WHERE sweep_id = %(sweep)s AND holder = %(me)s AND state = 'leased' RETURNING block, token
"""
FINISH = """
UPDATE sweep_block SET state = 'done', lease_until = NULL
WHERE sweep_id = %(sweep)s AND block = %(block)s AND holder = %(me)s AND token = %(token)s::integer RETURNING block
"""
GIVE_BACK = """
UPDATE sweep_block SET state = 'open', lease_until = NULL
WHERE sweep_id = %(sweep)s AND block = %(block)s AND holder = %(me)s AND token = %(token)s::integer AND state = 'leased'
"""
AGREE = """
UPDATE sweep_plan SET identity = coalesce(identity, %(identity)s::json) WHERE sweep_id = %(sweep)s RETURNING identity
"""
KEEP = """
SELECT block FROM sweep_block WHERE sweep_id = %(sweep)s AND holder = %(me)s AND block = ANY(%(blocks)s::integer[])
"""
OTHERS = """
SELECT block, state FROM sweep_block
WHERE sweep_id = %(sweep)s AND holder IS DISTINCT FROM %(me)s
  AND (state = 'done' OR (state = 'leased' AND lease_until >= now()))
"""


class SharedLeases:
    """The blocks that one controller holds of a shared plan (``controller.fleet.ports.Leases``)."""

    def __init__(self, url: str, sweep_id: str, holder: str, *, lease_s: float = LEASE_S) -> None:
        """Connect.

        Args:
            url: Of the database.
            sweep_id: Whose plan.
            holder: Names this controller; the same after a resume.
            lease_s: After so many seconds without a heartbeat others may take its blocks.

        Raises:
            TargetError: the database cannot be used.
        """
        self._url = url
        self._lease_s = lease_s
        self._names = {"sweep": sweep_id, "me": holder, "lease": lease_s}
        self._connection: Connection[Any] | None = first_connection(url)
        self._tokens: dict[int, int] = {}
        self._heard = time.monotonic()

    @property
    def interval_s(self) -> float:
        """Seconds between heartbeats."""
        return self._lease_s / HEARTBEATS_A_LEASE

    def agree(self, identity: Mapping[str, str]) -> Mapping[str, str]:
        """Return the identity of the first controller's hosts; ours becomes that when there is none yet."""
        found = self._rows(AGREE, identity=json.dumps(dict(identity)))
        return dict(found[0][0]) if found else {}

    def keep(self, blocks: Sequence[int]) -> set[int]:
        """Return which of the blocks nobody else has taken or done since; all of them while nobody can say."""
        found = self._rows(KEEP, blocks=list(blocks))
        return set(blocks) if found is None else {block for (block,) in found}

    def take(self, host: str, wanted: Sequence[int]) -> int | None:
        """Return the first wanted block that was free; None when none is, or the database cannot be reached."""
        for block, token in self._rows(TAKE, host=host, wanted=list(wanted)) or ():
            self._tokens[block] = token
            return int(block)
        return None

    def finish(self, block: int) -> bool:
        """Mark a block done; False when another controller has taken it meanwhile.

        When the database cannot be reached it is asked again until the lease has run out.
        """
        while (found := self._rows(FINISH, block=block, token=self._tokens.get(block))) is None:
            if self._cut_off:
                return False
            time.sleep(RETRY_S)
        self._tokens.pop(block, None)
        return bool(found)

    def give_back(self, block: int) -> None:
        """Open a block to everybody. It stays ours until somebody takes it, so a resume may finish it."""
        self._rows(GIVE_BACK, block=block, token=self._tokens.pop(block, None))

    def renew(self) -> set[int]:
        """Send the heartbeat; return the blocks that were lost nevertheless."""
        found = self._rows(RENEW)
        if found is None:
            lost = set(self._tokens) if self._cut_off else set()
        else:
            held = dict(found)
            lost = {block for block, token in self._tokens.items() if held.get(block) != token}
        for block in lost:
            del self._tokens[block]
        return lost

    def others(self) -> Others:
        """Return what other controllers did and do."""
        found = self._rows(OTHERS)
        if found is None:
            silence = time.monotonic() - self._heard
            return Others(trouble=f"the shared plan did not answer for {silence:.0f} s" if self._cut_off else "")
        return Others(
            frozenset(block for block, state in found if state == "done"),
            frozenset(block for block, state in found if state == "leased"),
        )

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _cut_off(self) -> bool:
        """Whether the database was silent for longer than a lease: then our blocks may be anybody's."""
        return time.monotonic() - self._heard > self._lease_s

    def _rows(self, statement: str, **values: object) -> list[tuple[Any, ...]] | None:
        """Return the rows of a statement, over a new connection when the old one broke; None when that fails too."""
        for _ in range(2):
            try:
                if self._connection is None:
                    self._connection = connect(self._url)
                cursor = self._connection.execute(statement, {**self._names, **values})
                found = cursor.fetchall() if cursor.description else []
            except driver().OperationalError:
                self.close()
                continue
            self._heard = time.monotonic()
            return found
        return None
