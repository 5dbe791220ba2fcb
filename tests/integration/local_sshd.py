"""An sshd of one test on the loopback address: real connections, which the test may cut."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.simulated_sweep import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

SSHD = "/usr/sbin/sshd"


@dataclass
class LocalSshd:
    """A server in ``folder`` that lets in who has ``folder/key``."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.05)
        raise TimeoutError(f"sshd does not listen on port {self.port}")

    def sessions(self) -> list[int]:
        """Return the processes that serve connections; what a session has started is not among them."""
        assert self.process is not None
        found, waiting = [], [self.process.pid]
        while waiting:
            parent = waiting.pop()
            with contextlib.suppress(OSError):
                for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
                    if Path(f"/proc/{child}/comm").read_text().startswith("sshd"):
                        found.append(int(child))
                        waiting.append(int(child))
        return found

    def cut(self) -> int:
        """End every connection as a broken network would: without a word. Return how many processes served them."""
        return _kill(self.sessions())

    def go_away(self) -> None:
        """End every connection and take no other one."""
        assert self.process is not None
        pids = self.sessions()  # without the process that listens nobody knows whose they are
        self.process.kill()
        self.process.wait()
        _kill(pids)

    def stop(self) -> None:
        if self.process is not None:
            self.go_away()


def _kill(pids: list[int]) -> int:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


@contextlib.contextmanager
def local_sshd(folder: Path) -> Iterator[LocalSshd]:
    """Start an sshd for the length of the block; skip without one."""
    if not Path(SSHD).exists() or not shutil.which("ssh-keygen") or os.geteuid() != 0:
        pytest.skip(f"needs root and {SSHD} (Debian: apt-get install openssh-server)")
    folder.mkdir(mode=0o700)
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # privilege separation wants it, and only a service makes it
    for name in ("host_key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "authorized_keys").write_text((folder / "key.pub").read_text())
    port = free_port()
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\n"
        f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
    )
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {(folder / 'host_key.pub').read_text()}")
    server = LocalSshd(folder, port)
    server.start()
    try:
        yield server
    finally:
        server.stop()
