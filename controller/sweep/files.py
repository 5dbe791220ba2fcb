"""Names of the files of a sweep directory (docs/reference/sweep-directory.md)."""

from __future__ import annotations

JOURNAL = "journal.jsonl"
PLAN = "plan.json"
PROMPTS = "prompts.jsonl"
HOSTS = "hosts"
"""Folder with one folder for each host of a fleet: its note while it is at work, and Ansible's output."""
