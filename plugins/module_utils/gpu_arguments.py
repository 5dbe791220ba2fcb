"""The arguments that both GPU modules share, and the node they describe."""

from __future__ import annotations

from typing import Any, Dict

from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_container import Container
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_node import Node
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.gpu_query import NvidiaSmi
from ansible_collections.sglang_ops.eagle3.plugins.module_utils.process_table import ProcessTable


def node_arguments() -> Dict[str, Any]:
    """Argument specification of what identifies a node and the server on it."""
    return {
        "ownership": {"type": "str", "choices": ["container", "session"], "default": "container"},
        "vmid": {"type": "int"},
        "state_dir": {"type": "str", "default": "/var/lib/sglang"},
        "pct": {"type": "str", "default": "pct"},
        "nvidia_smi": {"type": "str", "default": "nvidia-smi"},
        "gpu_uuids": {"type": "list", "elements": "str", "default": []},
        "timeout_s": {"type": "float", "default": 30},
    }


def node_from(parameters: Dict[str, Any]) -> Node:
    """The node that the arguments describe.

    Raises:
        GpuError: the container is not on this node.
    """
    timeout_s = parameters["timeout_s"]
    container = None
    if parameters["ownership"] == "container":
        container = Container(parameters["pct"], parameters["vmid"], timeout_s)
    return Node(
        table=ProcessTable(),
        smi=NvidiaSmi(parameters["nvidia_smi"], timeout_s),
        container=container,
        state_dir=parameters["state_dir"],
        gpu_uuids=parameters["gpu_uuids"],
    )
