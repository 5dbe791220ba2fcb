"""Reports: an analysis as tables and sentences for people, and as JSON for programs. Computes nothing itself."""

from __future__ import annotations
