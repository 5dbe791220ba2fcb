"""Whether a user of this machine can run the server: start its interpreter, read its files, use its devices."""

from __future__ import annotations

import grp
import json
import os
import pwd
import subprocess
from dataclasses import dataclass
from typing import Any, Dict, Sequence

PROBE_TIMEOUT_S = 30.0

# Runs as the user, in the interpreter of the serving environment: what it reads is what the server will read.
# A directory counts as read when every file in it can be. Says what is refused, and whether the home can be written.
_PROBE = """
import json, os, sys
home, separator = sys.argv[1], sys.argv.index("--")
readable, writable = sys.argv[2:separator], sys.argv[separator + 1:]
refused = []
for path in readable:
    if not os.access(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0)):
        refused.append("read " + path)
    elif os.path.isdir(path):
        refused += ["read " + entry.path for entry in os.scandir(path) if not os.access(entry.path, os.R_OK)][:1]
refused += ["use " + path for path in writable if not os.access(path, os.R_OK | os.W_OK)]
print(json.dumps({"refused": refused, "home_writable": os.access(home, os.W_OK | os.X_OK)}))
"""


class AccountError(Exception):
    """There is no such user; the message is one sentence."""


@dataclass(frozen=True)
class Account:
    """A user that may run the server.

    Attributes:
        name: the user.
        group: its primary group, by name where it has one.
        home: its home directory.
        home_writable: whether it can keep caches there (Triton, FlashInfer and torch do).
        refused: what it cannot do, for example "read /root/ml-env"; empty when it can run the server.
    """

    name: str
    group: str
    home: str
    home_writable: bool
    refused: Sequence[str]


def exists(name: str) -> bool:
    """Whether this machine knows the user."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def examine(name: str, python: str, readable: Sequence[str], writable: Sequence[str]) -> Account:
    """Try what the server will do, as the user. Needs root for any user but the own one.

    Args:
        name: the user.
        python: interpreter of the serving environment.
        readable: files and directories it has to read; those that do not exist are not asked for.
        writable: devices it has to use; likewise.

    Raises:
        AccountError: there is no such user.
    """
    try:
        user = pwd.getpwnam(name)
    except KeyError as error:
        raise AccountError(
            f"there is no user {name}: make it with 'useradd --system {name}', or set another sglang_server_user"
        ) from error
    present = [path for path in readable if path.startswith("/") and os.path.lexists(path)]
    devices = [path for path in writable if os.path.lexists(path)]
    command = [python, "-I", "-c", _PROBE, user.pw_dir, *present, "--", *devices]
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
            cwd="/",
            stdin=subprocess.DEVNULL,
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            **_identity(user),
        )
        said = json.loads(answer.stdout.strip().rpartition("\n")[2])
    except (OSError, ValueError, subprocess.TimeoutExpired):  # not started, started and said something else, hangs
        said = {"refused": [f"run {python}"], "home_writable": False}
    return Account(name, _group_name(user), user.pw_dir, said["home_writable"], said["refused"])


def _identity(user: pwd.struct_passwd) -> Dict[str, Any]:
    if user.pw_uid == os.geteuid():
        return {}
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": groups}


def _group_name(user: pwd.struct_passwd) -> str:
    try:
        return grp.getgrgid(user.pw_gid).gr_name
    except KeyError:
        return str(user.pw_gid)
