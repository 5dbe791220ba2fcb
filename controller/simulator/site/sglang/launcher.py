"""What the launcher does from its command line to its end."""

from __future__ import annotations

import asyncio

from . import dummy_health
from .arguments import parse
from .engine import Engine
from .log import Log
from .node import Node
from .process_tree import kill_process_tree
from .resolution import describe, resolve
from .serving import Server


def main(argv: list[str]) -> None:
    """Parse, load, serve. Ends by an exception, by ``sys.exit`` or by a signal, as the real launcher does."""
    log = Log()
    node = Node.load()
    fields = parse(argv, log)
    resolve(fields, log, node.random("random_seed"))
    log(f"server_args={describe(fields)}")
    log("No HuggingFace chat template found")
    log("No chat template found, defaulting to 'string' content format")
    try:
        engine = Engine(fields, node, log)
        ranks = engine.start()
        if fields["node_rank"] >= 1:
            # Only the first node has a tokenizer and serves; the others' ranks take part in what it does.
            dummy_health.start(fields["host"], fields["port"], log)
            engine.wait_for_schedulers()
            return
        asyncio.run(Server(fields, node, engine, ranks[0], log).run())
    finally:
        kill_process_tree(log, include_parent=False)
