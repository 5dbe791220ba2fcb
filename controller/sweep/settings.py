"""The extra vars of a cell: what its arm changes, what all arms share, and where its log goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controller.plan import Cell, Plan

PREPARING = ("draft_config", "nccl_env")
"""Tags of deploy.yml that bring a node into the state the inventory describes, without launching anything."""

DEFAULT_LOG_DIRECTORY = "{{ sglang_server_log_dir }}"


def extra_vars(plan: Plan, cell: Cell, attempt: int, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extra vars of one launch.

    ``variables`` are the inventory's, needed because an extra var replaces a dictionary of the inventory as a whole.
    The log file is a template over ``sglang_server_log_dir``, so that it works whoever sets that directory.
    """
    arm = plan.arm(cell.arm)
    # SGLang's own defaults differ with and without speculation, for both; graphs beyond the largest batch are useless.
    values: dict[str, Any] = {
        "sglang_server_max_running_requests": plan.max_running_requests,
        "sglang_server_cuda_graph_max_bs": plan.cuda_graph_max_bs or plan.max_running_requests,
    }
    values |= arm.settings
    if variables.get("sglang_server_speculative_adaptive") and "sglang_server_speculative_num_steps" in arm.settings:
        # An adaptive arm that was applied is in the inventory now; an arm with steps of its own must not become one.
        values.setdefault("sglang_server_speculative_adaptive", False)
    if arm.flags:
        values["sglang_server_extra_flags"] = _dictionary(variables, "sglang_server_extra_flags") | dict(arm.flags)
    if arm.environment:
        values["sglang_server_environment"] = _dictionary(variables, "sglang_server_environment") | dict(
            arm.environment
        )
    values["sglang_server_log_file"] = f"{DEFAULT_LOG_DIRECTORY}/{log_name(plan, cell, attempt)}"
    values["sglang_server_owner"] = plan.sweep_id
    if variables.get("sglang_server_manager", "systemd") == "systemd":
        # A silent restart would hide a crash and double the loading time.
        values["sglang_server_restart"] = "no"
    return values


def draft_model(variables: Mapping[str, Any]) -> str:
    """Return what a launch with these extra vars must find prepared: nothing but NCCL, or a draft model as well.

    A launch that leaves environment variables out is another one: role nccl_env proves that they can be left out.
    """
    unset = sorted(name for name, value in _dictionary(variables, "sglang_server_environment").items() if value is None)
    without = f", without {', '.join(unset)}" if unset else ""
    if variables.get("sglang_server_speculative") is False:
        return f"no draft model{without}"
    return f"{variables.get('sglang_server_speculative_draft_model_path', 'draft model of the inventory')}{without}"


def log_name(plan: Plan, cell: Cell, attempt: int) -> str:
    """Return the name of the server log of one launch on the target."""
    repeated = "" if attempt == 1 else f"-{attempt}"
    return f"sweep-{plan.sweep_id}-{cell.cell_id}{repeated}.log"


def _dictionary(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = variables.get(name)
    return dict(value) if isinstance(value, Mapping) else {}
