import pytest

from controller.simulator.site.sglang.faults import DESCRIPTIONS, PHASES, Faults


def test_nothing_is_wrong_by_default() -> None:
    faults = Faults.from_dict({})
    assert (faults.crash_phase, faults.hang_phase, faults.host_oom, faults.drift) == (None, None, None, 0.0)


def test_every_described_fault_is_read() -> None:
    faults = Faults.from_dict(
        {
            "crash_at": {"phase": "weights", "rank": 3},
            "hang_at": "target_graphs",
            "orphans": True,
            "host_oom": "scheduler",
            "dead_draft": True,
            "slow_first_requests": {"count": 2, "factor": 3.0},
            "drift": 0.01,
            "lucky_launch": {"launch": 4, "factor": 0.6},
        }
    )
    assert (faults.crash_phase, faults.crash_rank) == ("weights", 3)
    assert (faults.slow_first_count, faults.lucky_launch, faults.lucky_factor) == (2, 4, 0.6)


@pytest.mark.parametrize("phase", PHASES)
def test_a_phase_is_enough(phase: str) -> None:
    assert Faults.from_dict({"crash_at": phase}).crash_phase == phase


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ({"explode": True}, "Unknown fault 'explode'"),
        ({"crash_at": "lunch"}, "names the phase 'lunch'"),
        ({"hang_at": "lunch"}, "names the phase 'lunch'"),
        ({"host_oom": "everybody"}, "host_oom is 'everybody'"),
    ],
)
def test_mistakes_are_named(faults: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Faults.from_dict(faults)


def test_descriptions_are_sentences() -> None:
    assert all(len(text) > 20 for text in DESCRIPTIONS.values())
