"""The connection to the PostgreSQL that keeps a shared plan. ``psycopg`` is an optional extra, imported when asked for.

A password has no place on a command line, where everybody on the machine reads it: libpq takes it from ``~/.pgpass``,
``$PGPASSFILE``, ``$PGPASSWORD`` or a service file (PostgreSQL manual, libpq, "The Password File").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from controller.exits import InputError, TargetError

if TYPE_CHECKING:
    from psycopg import Connection

CONNECT_TIMEOUT_S = 5
STATEMENT_TIMEOUT_MS = 10_000

SCHEMA = """
CREATE TABLE IF NOT EXISTS sweep_plan (
  sweep_id text PRIMARY KEY,
  created  timestamptz NOT NULL DEFAULT now(),
  plan     json NOT NULL,
  identity json,
  prompts  text NOT NULL
);
CREATE TABLE IF NOT EXISTS sweep_block (
  sweep_id    text NOT NULL REFERENCES sweep_plan ON DELETE CASCADE,
  block       integer NOT NULL,
  state       text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'leased', 'done')),
  holder      text,
  host        text,
  token       integer NOT NULL DEFAULT 0,
  lease_until timestamptz,
  PRIMARY KEY (sweep_id, block)
);
"""
SCHEMA_LOCK = 0x5EA61E3
"""Two controllers that make the tables at once would trip over each other; this advisory lock queues them."""


def check_url(url: str) -> str:
    """Return the URL of a database.

    Raises:
        InputError: it is none, or it holds a password.
    """
    try:
        parts = urlsplit(url)
        password = parts.password or parse_qs(parts.query).get("password")
    except ValueError:
        raise InputError(f"--shared-plan {url}: this is not a URL, such as postgresql://user@host/database.") from None
    if password:
        raise InputError(
            "--shared-plan: leave the password out of the URL, everybody on this machine can read it there; put it "
            "into ~/.pgpass, or name a file in PGPASSFILE."
        )
    if parts.scheme not in ("postgresql", "postgres"):
        raise InputError(f"--shared-plan {url}: give a URL such as postgresql://user@host/database.")
    return url


def driver() -> Any:  # noqa: ANN401 - a module
    """Return psycopg.

    Raises:
        InputError: it is not installed.
    """
    try:
        import psycopg  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise InputError(
            f"--shared-plan needs psycopg, which cannot be loaded here ({error}); install it beside the controller: "
            "pip install 'sglang-eagle3-ops[fleet]'."
        ) from None
    return psycopg


def connect(url: str) -> Connection[Any]:
    """Open a connection on which every statement is a transaction of its own.

    Raises:
        InputError: psycopg is missing.
        psycopg.OperationalError: the database cannot be reached.
    """
    found: Connection[Any] = driver().connect(
        url,
        autocommit=True,
        connect_timeout=CONNECT_TIMEOUT_S,
        application_name="sglang-eagle3-ops",
        options=f"-c statement_timeout={STATEMENT_TIMEOUT_MS}",
    )
    return found


def first_connection(url: str) -> Connection[Any]:
    """Connect and make the tables when they are missing.

    Raises:
        TargetError: the database cannot be reached or does not let us in.
    """
    try:
        connection = connect(url)
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (SCHEMA_LOCK,))
            connection.execute(SCHEMA)
    except driver().Error as error:
        raise TargetError(f"the shared plan at {url} cannot be used: {' '.join(str(error).split())}.") from error
    return connection
