"""One launch on several machines: which of them failed first, from what each of them saw (pure).

When a rank dies, every other one ends with an exception about its connection, those of the same machine included. So
the first machine is not the one that reports first, nor the one whose log ends first: clocks of machines differ.
"""

from __future__ import annotations

import collections
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

VICTIM = "peer-died"
# Gloo, and NCCL's net.cc and socket.cc, which write host<port>.
_PEER = re.compile(r"by (?:remote )?peer \[?(?P<host>[\w.:-]+?)\]?(?::\d+|<\d+>)")


def first_failure(parts: Sequence[Mapping[str, Any]]) -> Dict[str, Any]:
    """Return who failed first: `host`, `node_rank` and `msg`, the sentence about it.

    A machine with a cause of its own comes before the one that others name as the peer they lost, and that one before
    the first of the rest. A launch that died says more than one that only waited.

    Args:
        parts: one for each machine, in the order of the play: `host`, `address`, `node_rank`, and `looks`, the results
            of the module sglang_health there, the earlier one first.
    """
    failed = [(part, look) for part in parts for look in [_failed_look(part)] if look is not None]
    own = [pair for pair in failed if pair[1]["failure"].get("class") != VICTIM]
    dead = [pair for pair in own if pair[1].get("dead")]
    if dead:
        return _told(*dead[0])
    named = _most_named([look for _, look in failed], parts)
    if named is not None:
        return _told(named, _failed_look(named))
    waited = own or failed
    return _told(*waited[0]) if waited else _told(parts[0], None)


def _failed_look(part: Mapping[str, Any]) -> Optional[Mapping[str, Any]]:
    looks: List[Mapping[str, Any]] = [look for look in part.get("looks") or [] if look]
    return next((look for look in looks if look.get("failure")), None)


def _most_named(looks: Sequence[Mapping[str, Any]], parts: Sequence[Mapping[str, Any]]) -> Optional[Mapping[str, Any]]:
    """Return the machine that most others lost, None when no cause names one."""
    by_address = {str(part["address"]): part for part in parts}
    names = (match.group("host") for look in looks for match in _PEER.finditer(str(look["failure"].get("cause"))))
    counted = collections.Counter(name for name in names if name in by_address)
    return by_address[counted.most_common(1)[0][0]] if counted else None


def _told(part: Mapping[str, Any], look: Optional[Mapping[str, Any]]) -> Dict[str, Any]:
    text = str(look["msg"]) if look is not None else "The other machines lost their connections to it."
    return {"host": part["host"], "node_rank": part["node_rank"], "msg": text}
