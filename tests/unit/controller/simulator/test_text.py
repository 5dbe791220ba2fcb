from controller.simulator.site.sglang.text import Continuation, decode, encode


def test_a_prompt_has_one_continuation() -> None:
    first, second = Continuation([1, 2, 3]), Continuation([1, 2, 3])
    assert first.ids(0, 300) == second.ids(0, 300)
    assert first.ids(0, 300) != Continuation([1, 2, 4]).ids(0, 300)
    assert first.ids(0, 300) != Continuation([1, 2, 3], "salt").ids(0, 300)


def test_pieces_join() -> None:
    continuation = Continuation([5])
    whole = decode(continuation.ids(0, 50))
    assert decode(continuation.ids(0, 20)) + decode(continuation.ids(20, 50)) == whole


def test_the_natural_end_is_bounded() -> None:
    assert all(192 <= Continuation([seed]).natural_length < 1216 for seed in range(100))


def test_encoding_is_stable_and_never_empty() -> None:
    assert encode("one two, three") == encode("one two, three")
    assert len(encode("one two, three")) == 4
    assert encode("") == [0]
