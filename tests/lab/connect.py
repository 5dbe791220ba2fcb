"""OpenSSH ProxyCommand: connect in the lab's network namespace and hand the socket over (``ProxyUseFdpass yes``).

Usage: ``nsenter --target PID --net python3 connect.py ADDRESS PORT``. No relay stays in between.
"""

from __future__ import annotations

import array
import socket
import sys

TIMEOUT_S = 10


def main() -> None:
    """Connect to the address and port on the command line and pass the connection on through standard output."""
    address, port = sys.argv[1:3]
    connection = socket.create_connection((address, int(port)), timeout=TIMEOUT_S)
    connection.setblocking(True)
    rights = array.array("i", [connection.fileno()])
    with socket.socket(fileno=sys.stdout.fileno()) as ssh:
        ssh.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


if __name__ == "__main__":
    main()
