"""The formats of a report. Apart from what writes them, so that a command line can name them without importing it."""

from __future__ import annotations

FORMATS = ("html", "markdown", "csv", "svg", "png", "adaptive")
