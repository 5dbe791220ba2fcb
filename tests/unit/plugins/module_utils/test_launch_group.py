"""Which machine of several failed first."""

from __future__ import annotations

from typing import Any

from ansible_collections.sglang_ops.eagle3.plugins.filter.launch_group import FilterModule
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.launch_group import first_failure


def look(failure_class: str = "", cause: str = "", *, dead: bool = True) -> dict[str, Any]:
    failure = {"class": failure_class, "cause": cause} if failure_class else None
    return {"failure": failure, "dead": dead and failure is not None, "msg": f"SGLang died: {cause}."}


def part(number: int, *looks: dict[str, Any]) -> dict[str, Any]:
    return {"host": f"node{number}", "address": f"10.0.0.{number}", "node_rank": number - 1, "looks": list(looks)}


LOST = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.2]:4"


def test_a_cause_of_its_own_comes_before_victims() -> None:
    found = first_failure([part(1, look("peer-died", LOST)), part(2, look("kv-oom", "out of memory"))])
    assert found == {"host": "node2", "node_rank": 1, "msg": "SGLang died: out of memory."}


def test_a_death_comes_before_a_long_wait() -> None:
    waited = look("unknown", "no cause in the log", dead=False)
    assert first_failure([part(1, waited), part(2, {}, look("unknown", "died"))])["host"] == "node2"
    assert first_failure([part(1, waited), part(2, look(), look())])["host"] == "node1"


def test_the_peer_that_the_others_lost() -> None:
    victims = [part(1, look("peer-died", LOST)), part(2, look("peer-died", LOST)), part(3, look("peer-died", LOST))]
    assert first_failure(victims)["host"] == "node2"
    of_nccl = "Net : Connection closed by remote peer 10.0.0.3<50260>"
    assert first_failure([part(1, look("peer-died", of_nccl)), part(2), part(3)])["host"] == "node3"


def test_a_lost_machine_that_says_nothing_itself() -> None:
    found = first_failure([part(1, look("peer-died", LOST)), part(2)])
    assert found == {"host": "node2", "node_rank": 1, "msg": "The other machines lost their connections to it."}


def test_nobody_is_named() -> None:
    assert first_failure([part(1), part(2, look("peer-died", "recvValue failed"))])["host"] == "node2"
    assert first_failure([part(1), part(2)])["host"] == "node1"


def test_it_is_a_filter() -> None:
    assert FilterModule().filters() == {"first_failure": first_failure}
