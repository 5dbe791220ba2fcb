"""Deploys SGLang through Ansible, sweeps speculative-num-steps, and says with evidence whether speculation pays."""

__version__ = "0.1.0"

import controller.collection  # noqa: F401 - makes the shared code of the collection importable
