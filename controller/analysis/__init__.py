"""Statistics and verdicts: pure functions over measured launches, without input or output.

``model`` turns request records into launches, ``sweep.analyse`` turns launches into a ``SweepAnalysis``; the other
modules hold one statistical idea each. Formulas: acceptance length L = (N - 1) / V, cycle time C = t / V, time of one
step without speculation T1 = t0 / (N0 - 1), speed-up S = L * T1 / C, break-even L* = C / T1.
"""

from __future__ import annotations
