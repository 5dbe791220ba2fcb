"""A PostgreSQL of one test run: a cluster in a folder of its own, a Unix socket and no port."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.fleet.database import driver


def missing() -> str:
    """Return why no cluster can be started; empty when one can."""
    if _programs() is None:
        return "PostgreSQL's initdb is not installed (Debian: apt-get install postgresql)"
    if os.geteuid() == 0 and _other_user() is None:
        return "PostgreSQL does not run as root, and there is no user postgres or nobody"
    return ""


def _programs() -> Path | None:
    """Return the folder with initdb and pg_ctl; Debian keeps them out of PATH, a folder for each version."""
    on_path = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name.split(".")[0]))
    found = [folder for folder in folders if (folder / "initdb").is_file()]
    return Path(on_path).parent if on_path else (found[-1] if found else None)


def _other_user() -> str | None:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    return None


@dataclass
class Cluster:
    """A running server. Only the user that runs it, and root, can reach its socket."""

    folder: Path

    @classmethod
    def start(cls) -> Cluster:
        # Not pytest's folder: the user postgres may not enter that of root, and a socket's path must be short.
        folder = Path(tempfile.mkdtemp(prefix="pg-"))
        if os.geteuid() == 0 and (user := _other_user()):
            shutil.chown(folder, user)
        cluster = cls(folder)
        cluster._run("initdb", "--pgdata", str(cluster.data), "--username", "tester", "--auth", "trust", "--no-sync")
        cluster.begin()
        return cluster

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        return f"postgresql://tester@/postgres?host={self.folder}"

    def begin(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off -c max_connections=60"
        log = str(self.folder / "log")
        self._run("pg_ctl", "--pgdata", str(self.data), "--wait", "--log", log, "-o", options, "start")

    def end(self) -> None:
        self._run("pg_ctl", "--pgdata", str(self.data), "--wait", "--mode", "immediate", "stop")

    def remove(self) -> None:
        """End it, running or not, and remove the folder."""
        with contextlib.suppress(subprocess.CalledProcessError):  # it was ended by the test
            self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with driver().connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def empty(self) -> None:
        """Forget every plan."""
        self.ask("DROP TABLE IF EXISTS sweep_block, sweep_plan")

    def _run(self, program: str, *arguments: str) -> None:
        programs = _programs()
        assert programs is not None
        user = _other_user() if os.geteuid() == 0 else None
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - the server keeps what it inherits, so no pipe
            subprocess.run(
                [programs / program, *arguments],
                user=user,
                group=user and pwd.getpwnam(user).pw_gid,
                extra_groups=[] if user else None,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=nowhere,
                stderr=nowhere,
                check=True,
                timeout=60,
            )


def wait_until(condition: Any, timeout: float = 30.0) -> None:
    """Wait until a function returns something true."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)
