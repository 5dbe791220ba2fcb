"""Command-line stand-ins which are copied into a node: standard library only, quick to start."""
