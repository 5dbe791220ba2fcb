from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from controller.launch_order import balanced_orders

ARMS = st.integers(1, 9).map(lambda count: [f"arm{number}" for number in range(count)])


@given(names=ARMS, blocks=st.integers(1, 40), seed=st.text(max_size=5))
def test_every_arm_is_in_every_position_equally_often_up_to_one(names: list[str], blocks: int, seed: str) -> None:
    orders = list(itertools.islice(balanced_orders(names, seed), blocks))
    for order in orders:
        assert sorted(order) == sorted(names)
    for position in range(len(names)):
        counts = Counter(order[position] for order in orders)
        assert max(counts.values()) - min(counts.get(name, 0) for name in names) <= 1


@given(names=ARMS, seed=st.text(max_size=5))
def test_every_arm_follows_every_other_equally_often(names: list[str], seed: str) -> None:
    blocks = len(names) if len(names) % 2 == 0 else 2 * len(names)
    orders = itertools.islice(balanced_orders(names, seed), blocks)
    followers = Counter(pair for order in orders for pair in itertools.pairwise(order))
    assert len(set(followers.values())) <= 1
    assert len(followers) == len(names) * (len(names) - 1)


@given(names=ARMS, seed=st.text(max_size=5))
def test_the_seed_decides(names: list[str], seed: str) -> None:
    first, second = (list(itertools.islice(balanced_orders(names, seed), 20)) for _ in range(2))
    assert first == second


def test_orders_of_one_block_are_all_possible() -> None:
    assert len({next(balanced_orders("abc", str(seed))) for seed in range(60)}) == 6
