"""A stand-in for SGLang 0.5.15 that needs no GPU: same command line, processes, log lines and HTTP, simulated numbers.

It is installed in the virtual environment of a simulated node and started as the real one is, by
``python -m sglang.launch_server``. Standard library only and Python 3.9 syntax, because it also runs in bare
Debian containers. Imports inside the package are relative: the same files are checked and tested as
``controller.simulator.site.sglang``.
"""

__version__ = "0.5.15"
