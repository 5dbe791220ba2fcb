"""Where the runbook of each outcome of GPU cleaning lives (paths relative to the repository root)."""

from __future__ import annotations

PROCESS_IN_D_STATE = "gpu-process-in-d-state"
PROCESS_SURVIVES_KILL = "gpu-process-survives-kill"
MEMORY_HELD_BY_NOBODY = "gpu-memory-held-no-process"
FOREIGN_HOLDER = "foreign-gpu-user"
CONTAINER_UNREACHABLE = "container-unreachable"
NVIDIA_SMI_FAILS = "nvidia-smi-fails"

RUNBOOKS = {
    PROCESS_IN_D_STATE: "docs/runbooks/gpu-process-in-d-state.md",
    PROCESS_SURVIVES_KILL: "docs/runbooks/gpu-process-survives-kill.md",
    MEMORY_HELD_BY_NOBODY: "docs/runbooks/gpu-memory-held-no-process.md",
    FOREIGN_HOLDER: "docs/runbooks/foreign-gpu-user.md",
    CONTAINER_UNREACHABLE: "docs/runbooks/container-unreachable.md",
    NVIDIA_SMI_FAILS: "docs/runbooks/nvidia-smi-fails.md",
}
"""Diagnosis id -> page. Messages name pages through this table only, so one test can check that each exists."""
