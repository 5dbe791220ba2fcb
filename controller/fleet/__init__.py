"""One sweep over several identical hosts: whole blocks are handed out, and a lost host's block is done by another.

``schedule`` decides (pure), ``leases`` says what other controllers leave to this one, ``coordinator`` drives a process
for each host (``crew``, ``worker``), which does whole blocks through a ``HostRunner``. How a cell is run is the
runner's business: ``host`` does it through Ansible, a benchmark with a clock.
"""

from __future__ import annotations
