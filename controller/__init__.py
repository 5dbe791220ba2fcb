"""Deploys SGLang through Ansible, sweeps speculative-num-steps, and says with evidence whether speculation pays."""

__version__ = "0.1.0"
