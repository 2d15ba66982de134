"""Whether a GPU works: many conditions mean something only then."""

from __future__ import annotations

from streams.signals.context import Context
from topics.payloads import Gpu


def under_load(data: Gpu, ctx: Context) -> bool:
    """By its utilisation (0 to 1) where that is told, else by its power."""
    if data.utilization is not None:
        return data.utilization >= ctx.value("general", "load_utilization", data.gpu_uuid)
    return data.power_w is not None and data.power_w >= ctx.value("general", "load_power", data.gpu_uuid)
