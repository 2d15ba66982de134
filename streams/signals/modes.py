"""How far a signal counts."""

from __future__ import annotations

from typing import Literal

Mode = Literal["on", "observe", "off"]
"""`observe`: published and marked, but it moves no health state and is no evidence. `off`: not computed."""
