# Licensed under the Apache License, Version 2.0 (see LICENSE)
"""The options that say which machine's GPUs are looked at and which processes are ours."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of ``module_utils.gpu_arguments.node_arguments``."""

    DOCUMENTATION = r"""
options:
  ownership:
    description:
      - How to tell which processes are ours.
      - V(container) runs on the Proxmox host. Ours is a process whose cgroup path starts with the components
        C(lxc/VMID) B(and) whose PID namespace is that of the container's init.
      - V(session) runs on the machine of the server. Ours is a process whose session is the one of a launch record in
        O(state_dir), in the same boot, and which did not start before that launch.
    type: str
    choices: [container, session]
    default: container
  vmid:
    description:
      - Number of the container. Required with O(ownership=container).
    type: int
  state_dir:
    description:
      - Directory of the launch record C(launch.json), as the server sees it. It need not exist.
      - In a container no component of the path may be a symbolic link.
    type: str
    default: /var/lib/sglang
  pct:
    description:
      - Program that asks Proxmox about the container.
    type: str
    default: pct
  nvidia_smi:
    description:
      - Program that asks the driver.
    type: str
    default: nvidia-smi
  gpu_uuids:
    description:
      - GPUs to look at. Empty means those that the container has device files of, or all of the machine (with
        O(ownership=session), and while the container is stopped).
    type: list
    elements: str
    default: []
  timeout_s:
    description:
      - Seconds for one call of O(nvidia_smi) or O(pct). Without persistence mode, nvidia-smi initialises each GPU
        first.
    type: float
    default: 30
"""
