"""Simulated nodes: a stand-in SGLang, ``pct`` and ``nvidia-smi`` for machines without GPUs."""

from controller.simulator.create import create_node
from controller.simulator.node import Node, NodeError, NodeProcess

__all__ = ["Node", "NodeError", "NodeProcess", "create_node"]
