from __future__ import annotations

import pytest

from controller.arms import Arm, adaptive_arm, baseline, build_arms, parse_arm, parse_steps, steps_arm
from controller.exits import Exit, InputError


def test_steps_are_read_in_the_order_given() -> None:
    assert parse_steps("3, 1,2") == (3, 1, 2)


@pytest.mark.parametrize("text", ["", "0", "-1", "a", "2,2", "2,,3", "2.5", "65", "٣", "1e1", "999999999999999999999"])
def test_bad_steps_are_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_steps(text)
    assert caught.value.exit_code is Exit.USAGE
    assert caught.value.sentence.startswith("--steps")
    assert caught.value.sentence.endswith(".")


def test_zero_steps_explains_the_baseline() -> None:
    with pytest.raises(InputError, match="arm of its own"):
        parse_steps("0")


def test_duplicate_steps_are_named() -> None:
    with pytest.raises(InputError, match="2 is given twice"):
        parse_steps("2,02")


def test_the_baseline_has_no_speculation_flag_and_comes_first() -> None:
    arms = build_arms((2, 3))
    assert [arm.name for arm in arms] == ["baseline", "steps-2", "steps-3"]
    assert arms[0].settings == {"sglang_server_speculative": False}
    assert arms[2].settings["sglang_server_speculative_num_steps"] == 3


def test_the_adaptive_arm_starts_where_the_server_can() -> None:
    arms = build_arms((2, 5), with_baseline=False, adaptive=True)
    assert arms[-1] == adaptive_arm()
    assert arms[-1].settings["sglang_server_speculative_num_steps"] == 7
    assert arms[-1].settings["sglang_server_speculative_adaptive"] is True


def test_an_arm_of_flags_environment_and_variables() -> None:
    arm = parse_arm(
        "tree=steps:3,--kv-cache-dtype:fp8_e5m2,--flag,NCCL_ALGO:Tree,sglang_server_mem_fraction_static:0.8"
    )
    assert arm.name == "tree"
    assert arm.flags == {"kv-cache-dtype": "fp8_e5m2", "flag": True}
    assert arm.environment == {"NCCL_ALGO": "Tree"}
    assert arm.settings == {
        "sglang_server_speculative": True,
        "sglang_server_speculative_num_steps": 3,
        "sglang_server_mem_fraction_static": 0.8,
    }


def test_an_empty_value_takes_away_what_the_inventory_gives() -> None:
    arm = parse_arm("nccl-default=steps:3,NCCL_PROTO:,NCCL_ALGO:,--kv-cache-dtype:")
    assert arm.environment == {"NCCL_PROTO": None, "NCCL_ALGO": None}
    assert arm.flags == {"kv-cache-dtype": None}
    assert Arm.from_json(arm.as_json()) == arm


def test_values_look_like_what_they_are() -> None:
    arm = parse_arm(
        "x=sglang_server_a:true,sglang_server_b:-2,sglang_server_c:text,--url:http://h:1,sglang_server_d:false"
    )
    assert arm.settings == {
        "sglang_server_a": True,
        "sglang_server_b": -2,
        "sglang_server_c": "text",
        "sglang_server_d": False,
    }
    assert arm.flags == {"url": "http://h:1"}


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "x=",
        "=steps:2",
        "a b=steps:2",
        "x=lower:1",
        "x=steps",
        "x=steps:",
        "x=sglang_server_a:",
        "x=steps:0",
        "../x=steps:2",
    ],
)
def test_bad_arms_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_arm(text)


def test_two_arms_of_one_name_and_none_at_all_are_refused() -> None:
    with pytest.raises(InputError, match="two arms"):
        build_arms((2,), extra=["steps-2=steps:2"])
    with pytest.raises(InputError, match="nothing to measure"):
        build_arms((), with_baseline=False)


@pytest.mark.parametrize(
    ("arm", "name"),
    [
        ("a=HF_TOKEN:x", "HF_TOKEN"),
        ("a=--admin-api-key:x", "admin-api-key"),
        ("a=sglang_server_api_key:x", "sglang_server_api_key"),
        ("a=HTTPS_PROXY:http://user:word@proxy", "HTTPS_PROXY"),
    ],
)
def test_a_secret_is_no_part_of_an_arm(arm: str, name: str) -> None:
    with pytest.raises(InputError, match=f"sets (--)?{name}, which looks like a secret"):
        build_arms([], extra=[arm])


def test_an_arm_says_what_it_changes() -> None:
    assert baseline().words() == "speculative False"
    arm = parse_arm("x=steps:3,--attention-backend:triton,--flag,--gone:,NCCL_PROTO:LL,NCCL_ALGO:")
    assert arm.words() == (
        "speculative True, speculative_num_steps 3, --attention-backend triton, --flag, NCCL_PROTO=LL, "
        "without --gone NCCL_ALGO"
    )


def test_arms_survive_json() -> None:
    for arm in (baseline(), steps_arm(3), parse_arm("x=NCCL_ALGO:Tree")):
        assert Arm.from_json(arm.as_json()) == arm
