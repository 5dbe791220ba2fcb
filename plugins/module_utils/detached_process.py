"""Start a program that outlives its starter: own session, no inherited descriptors, exit status kept in a file.

    starter ── fork ── waiter (own session; execs a tiny Python that waits and writes the exit status)
                          └── fork ── program (own session: pid == session id; execs argv)

The starter holds the program back until it has recorded the pid: a starter that dies before leaves no stray server.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import resource
import signal
import sys
from pathlib import Path
from typing import Callable, Dict, Mapping, NoReturn, Sequence

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Runs without site-packages. It replaces the forked copy of the starter, which would hold its memory for days.
_WAITER = """
import json, os, sys, time
pid, path = int(sys.argv[1]), sys.argv[2]
status = os.waitpid(pid, 0)[1]
code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
with open(path + ".new", "w") as file:
    json.dump({"pid": pid, "exit_status": code, "ended_at": time.time()}, file)
os.replace(path + ".new", path)
"""


class StartError(Exception):
    """The program could not be started; the message is one sentence."""


def base_environment(interpreter: str) -> Dict[str, str]:
    """Return the environment every launch starts from, so that nothing of the caller's session leaks in."""
    return {
        "PATH": f"{Path(interpreter).parent}:{_SYSTEM_PATH}",
        "HOME": pwd.getpwuid(os.geteuid()).pw_dir,
        "LANG": "C.UTF-8",
    }


def start_detached(
    argv: Sequence[str],
    environment: Mapping[str, str],
    log_file: Path,
    exit_file: Path,
    publish: Callable[[int], None],
) -> int:
    """Start a program and return its pid, which is its session id too.

    Args:
        argv: command line; the first word is an absolute path.
        environment: the whole environment of the program.
        log_file: standard output and error are appended to it; made with mode 0600: SGLang writes its keys there.
        exit_file: where the exit status is written when the program ends.
        publish: called with the pid before the program's first instruction.

    Raises:
        StartError: the log cannot be opened or the program cannot be executed.
    """
    try:
        log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartError(f"cannot write the log {log_file} ({error.strerror}); set sglang_server_log_dir") from error
    report_in, report_out = os.pipe()
    go_in, go_out = os.pipe()
    # Unflushed text would be written once more by each child.
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork() == 0:
        _run(lambda: _become_waiter(argv, environment, log, report_out, go_in, go_out, exit_file))
    for descriptor in (log, report_out, go_in):
        os.close(descriptor)
    try:
        with os.fdopen(report_in, "rb") as report:
            first = report.readline()
            if not first.strip().isdigit():
                raise StartError(f"cannot start {argv[0]}: {first.decode(errors='replace').strip() or 'fork failed'}")
            pid = int(first)
            publish(pid)
            os.write(go_out, b"go\n")
            problem = report.read().decode(errors="replace").strip()
    finally:
        os.close(go_out)
    if problem:
        raise StartError(f"cannot execute {argv[0]}: {problem}")
    return pid


def _run(child: Callable[[], None]) -> NoReturn:
    """Whatever happens in a child, it must not return into the starter's code."""
    try:
        child()
    except BaseException:  # noqa: BLE001 - nobody is left to tell
        os._exit(126)
    os._exit(0)


def _become_waiter(  # noqa: PLR0917 - called once, by position in the order of the descriptors' use
    argv: Sequence[str],
    environment: Mapping[str, str],
    log: int,
    report_out: int,
    go_in: int,
    go_out: int,
    exit_file: Path,
) -> None:
    os.setsid()
    os.close(go_out)
    pid = os.fork()
    if pid == 0:
        _run(lambda: _become_program(argv, environment, log, report_out, go_in))
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    _close_from(3)
    os.chdir("/")
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", _WAITER, str(pid), str(exit_file)], {})  # noqa: S606 - no shell


def _become_program(argv: Sequence[str], environment: Mapping[str, str], log: int, report_out: int, go_in: int) -> None:
    os.setsid()
    os.umask(0o077)
    os.chdir("/")
    _raise_soft_limits()
    # Python ignores SIGPIPE and SIGXFSZ, and ignored signals stay ignored over exec.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, signal.SIGINT):
        signal.signal(ignored, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.write(report_out, b"%d\n" % os.getpid())
    if os.read(go_in, 3) != b"go\n":
        os._exit(125)  # the starter died before it recorded this process
    null = os.open(os.devnull, os.O_RDONLY)
    # Both above 2 already, or dup2 would hit a descriptor that is still needed.
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.dup2(report_out, 3, inheritable=False)
    _close_from(4)
    try:
        os.execve(argv[0], list(argv), dict(environment))  # noqa: S606 - a list, no shell
    except OSError as error:
        os.write(3, (error.strerror or str(error)).encode())
        os._exit(127)


def _raise_soft_limits() -> None:
    # A login's soft limits (1024 files) are meant for people; the hard ones are what this machine grants a service.
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK):
        hard = resource.getrlimit(limit)[1]
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(limit, (hard, hard))


def _close_from(first: int) -> None:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - the listing itself opens a descriptor, which is among them
        if int(name) >= first:
            with contextlib.suppress(OSError):
                os.close(int(name))
