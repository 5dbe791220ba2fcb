"""A sweep: cells launched one after the other through Ansible, measured, journaled, resumable.

``sweep`` drives one host (``controller.fleet`` several), ``session`` is one host for the length of a sweep, ``cell``
does one launch (``measuring`` its load, ``gate`` its identity), ``state`` reads the journal back, ``leftovers`` and
``interrupt`` deal with controllers that die and operators who press Ctrl-C.
"""

from __future__ import annotations
