"""A sweep: cells launched one after the other through Ansible, measured, journaled, resumable.

``sweep`` drives, ``cell`` does one launch, ``state`` reads the journal back, ``leftovers`` and ``interrupt`` deal with
controllers that die and operators who press Ctrl-C.
"""

from __future__ import annotations
