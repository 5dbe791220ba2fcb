"""Gate before a launch is measured: the server must run what its arm asks for, and be the same one afterwards.

SGLang rewrites flags with no more than a warning, and a process that was restarted behind our back answers on the same
port. Both are seen in ``/server_info`` (SGLang 0.5.6 to 0.5.23), which costs the server no token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.sweep.failures import CellFailure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX = "sglang_server_"
OTHER_NAMES = {"cuda_graph_max_bs": ("cuda_graph_max_bs_decode", "cuda_graph_max_bs")}
"""Names in ``/server_info`` where SGLang calls a setting otherwise, the newer name first."""
NOT_SERVER_ARGUMENTS = frozenset(
    {"speculative", "extra_flags", "environment", "log_file", "owner", "restart", "cuda_graph_max_bs_flag"}
)
ALGORITHM_NAMES = {"NEXTN": "EAGLE"}
"""SGLang shows these under another name (arg_groups/speculative_hook.py)."""
PROCESS_FIELDS = ("random_seed", "version", "model_path", "served_model_name")
"""What stays the same while one process serves. SGLang draws ``random_seed`` anew at each start unless it is set."""


def asked_settings(variables: Mapping[str, Any], inventory: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``/server_info`` must say, by its names, from the extra vars of a launch and the inventory.

    Templates of the inventory are left out: only Ansible knows their value.
    """
    given = {
        name.removeprefix(PREFIX): value
        for name, value in {**inventory, **variables}.items()
        if name.startswith(PREFIX) and (name in variables or name.startswith(f"{PREFIX}speculative"))
    }
    asked = {
        name: value
        for name, value in given.items()
        if name not in NOT_SERVER_ARGUMENTS and not name.startswith("speculative")
    }
    asked |= _speculation(given)
    for flag, value in dict(variables.get(f"{PREFIX}extra_flags") or {}).items():
        asked[str(flag).lstrip("-").replace("-", "_")] = value
    return {name: value for name, value in asked.items() if not (isinstance(value, str) and "{{" in value)}


def _speculation(given: Mapping[str, Any]) -> dict[str, Any]:
    if given.get("speculative") is False:
        return {"speculative_algorithm": None}
    algorithm = str(given.get("speculative_algorithm", "EAGLE3"))
    asked: dict[str, Any] = {"speculative_algorithm": ALGORITHM_NAMES.get(algorithm.upper(), algorithm)}
    if given.get("speculative_adaptive"):
        return asked | {"speculative_adaptive": True}  # steps and tokens are the server's own choice
    topk = given.get("speculative_eagle_topk", 1)
    steps = given.get("speculative_num_steps")
    asked |= {"speculative_eagle_topk": topk, "speculative_num_steps": steps}
    if str(topk) == "1" and isinstance(steps, int):
        asked["speculative_num_draft_tokens"] = steps + 1
    elif given.get("speculative_num_draft_tokens") is not None:
        asked["speculative_num_draft_tokens"] = given["speculative_num_draft_tokens"]
    return {name: value for name, value in asked.items() if value is not None}


def effective_mismatch(asked: Mapping[str, Any], info: Mapping[str, Any]) -> CellFailure | None:
    """Return the failure of a server that runs other settings than asked for; None when all that it tells agree."""
    found = list(_differences(asked, info))
    if not found:
        return None
    return CellFailure(
        "flags-differ",
        f"the server does not run what was asked for: {'; '.join(found)}. Its figures would carry the wrong name; "
        "give flags that this SGLang version keeps (its log says why it changed them).",
        {"differences": found},
    )


def _differences(asked: Mapping[str, Any], info: Mapping[str, Any]) -> Iterator[str]:
    for name, value in asked.items():
        known = next((other for other in OTHER_NAMES.get(name, (name,)) if info.get(other) is not None), None)
        effective = info.get(known) if known else None
        missing = known is None and name not in info
        if missing or (value is None and name != "speculative_algorithm"):
            continue
        if not _same(value, effective):
            yield f"{name} is {effective}, not {value}"


def _same(asked: object, effective: object) -> bool:
    if isinstance(asked, list | tuple | dict) or isinstance(effective, list | tuple | dict):
        return True  # how SGLang writes lists and JSON back differs by version
    if str(asked).lower() == str(effective).lower():
        return True
    try:
        return float(str(asked)) == float(str(effective))
    except ValueError:
        return False


def another_process(before: Mapping[str, Any], after: Mapping[str, Any]) -> CellFailure | None:
    """Return the failure of a launch whose server was another one at the end; None when nothing says so."""
    changed = [name for name in PROCESS_FIELDS if name in before and name in after and before[name] != after[name]]
    if not changed:
        return None
    return CellFailure(
        "server-restarted",
        f"the server that answers after the measurement is not the one that was launched ({', '.join(changed)} "
        "changed): it was restarted meanwhile. Find out by whom (its log, systemctl status), then resume.",
    )
