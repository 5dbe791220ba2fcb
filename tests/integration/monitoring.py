"""The role monitoring run for real against this machine, into a directory of a test; and Prometheus' own programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
SERVER = "gpu1.example.org"
MACHINE = "pve1.example.org"
LENGTH_LOW, SPEED_LOW = 1.6, 55.0
OWN_GPU, OTHER_GPU = "GPU-aaaa", "GPU-bbbb"


def require_programs() -> None:
    """Skip where Debian's package prometheus is missing."""
    missing = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not found: apt-get install prometheus")


def inventory() -> dict[str, Any]:
    """Three servers: one with thresholds, one measured at four requests, one without; two machines with GPUs."""
    own = {"sglang_server_enable_metrics": True, "ansible_host": "192.0.2.129", "sglang_server_port": 8000}
    measured = {"monitoring_acceptance_length_low": LENGTH_LOW, "monitoring_throughput_low": SPEED_LOW}
    return {
        "proxmox": {"hosts": {MACHINE: {"ansible_host": "192.0.2.10"}, "pve2.example.org": {}}},
        "inference": {
            "hosts": {
                SERVER: own | measured,
                "gpu2.example.org": own
                | measured
                | {"monitoring_throughput_concurrency": 4, "sglang_server_url": "https://gpu2.example.org"},
                "gpu3.example.org": own | {"zombie_cleanup_delegate_to": "pve2.example.org"},
            }
        },
        "monitoring": {
            "hosts": {
                "here": {
                    "ansible_connection": "local",
                    "ansible_python_interpreter": sys.executable,
                    "monitoring_prometheus_unit": "",
                    "monitoring_gpu_hosts": [MACHINE],
                    "monitoring_gpu_uuids": [OWN_GPU],
                }
            }
        },
    }


@dataclass
class Role:
    """The role with an inventory of its own."""

    root: Path
    hosts: dict[str, Any] = field(default_factory=inventory)

    @property
    def config(self) -> Path:
        """Where Prometheus' configuration goes."""
        return self.root / "prometheus"

    @property
    def dashboards(self) -> Path:
        return self.root / "dashboards"

    def play(self, *options: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        """Run the playbook and return how it ended."""
        path = self.root / "inventory.yml"
        path.write_text(yaml.safe_dump(self.hosts))
        extra = {
            "monitoring_config_dir": str(self.config),
            "monitoring_dashboard_dir": str(self.dashboards),
            "monitoring_prometheus_config": "whole",
        } | variables
        environment = os.environ | {
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
            "ANSIBLE_PIPELINING": "true",
        }
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(path)]
        command += ["playbooks/monitoring.yml", "-e", json.dumps(extra), *options]
        return subprocess.run(
            command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    def rules(self, name: str) -> list[dict[str, Any]]:
        """Return the rules of one of the two files."""
        text = (self.config / "sglang" / f"rules-{name}.yml").read_text()
        rules: list[dict[str, Any]] = yaml.safe_load(text)["groups"][0]["rules"]
        return rules


def promtool(*arguments: str) -> str:
    """Run promtool; a complaint fails the test."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
