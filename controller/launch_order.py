"""Who is launched when within a block: at random, and each arm in each position about equally often.

The first launch of a block is not like the others (cold page cache after another model, a host that just did something
else), and a launch may depend on the one before it. Rows of a Williams square spread both: within as many blocks as
there are arms every arm is once in every position, and (within twice as many for an odd number of arms) follows every
other arm equally often. Which arm is which label of the square, and in which order its rows are used, is shuffled by
the seed. Reference: Williams 1949, Australian Journal of Scientific Research A 2, 149-168.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def balanced_orders(names: Sequence[str], seed: str) -> Iterator[tuple[str, ...]]:
    """Yield one order of ``names`` a block, without end.

    In any group of ``len(names)`` blocks, counted from the first, each name is in each position exactly once; in a
    shorter rest at most once.

    Args:
        names: The arms of a block.
        seed: Decides everything that is random; the same seed gives the same orders.
    """
    generator = random.Random(seed)  # noqa: S311 - an order, not a secret
    count = len(names)
    zigzag = [(place + 1) // 2 if place % 2 else (count - place // 2) % count for place in range(count)]
    while True:
        labels = list(names)
        generator.shuffle(labels)
        # The mirrored square completes the balance of neighbours when the number of arms is odd.
        for first_row in (zigzag, zigzag[::-1]):
            rows = [[labels[(label + shift) % count] for label in first_row] for shift in range(count)]
            generator.shuffle(rows)
            yield from (tuple(row) for row in rows)
