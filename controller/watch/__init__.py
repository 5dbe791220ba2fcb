"""Day two: a live view of the server that costs next to nothing.

Ansible is asked once at the start and again when the server goes or comes; in between the server's ``/metrics`` and one
connection to the target say everything. ``/health`` is never polled: it generates a token.
"""
