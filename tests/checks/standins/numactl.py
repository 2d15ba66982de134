# ruff: noqa: S606
"""Runs the rest of the line, and says what it was bound to."""

from __future__ import annotations

import os
import sys

from standin import note

binding = [a for a in sys.argv[1:] if a.startswith(("--cpunodebind", "--membind"))]
note("numactl " + " ".join(binding))
rest = sys.argv[1 + len(binding) :]
os.execvp(rest[0], rest)
