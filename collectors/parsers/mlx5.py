"""What the mlx5 driver says about its card: module, power, temperature, firmware health.

Plugging a cable in is news only after it was out or bad: every boot prints it. A health report is a dozen
lines, of which the first speaks. Register reads that a restricted function refuses are noise.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Final, Literal, NamedTuple

from collectors.inventory import normalise_bdf
from collectors.parsers.records import KernelRecord
from collectors.parsers.site import NOTHING, Found, Site
from topics.payloads import Kernel
from topics.time import NS_PER_S

ONE_ISSUE_NS: Final = 5 * NS_PER_S
_HARMLESS_FROM: Final = 5
"""Severities of a health issue are syslog levels: 4 is a warning, 5 a notice."""
_MAX_CARDS: Final = 1024

_MODULE: Final = re.compile(
    r"Port module event(?:\[error\])?: module \d{1,4}, Cable (plugged|unplugged|error)",
    re.IGNORECASE | re.ASCII,
)
_ISSUE: Final = re.compile(r"Health issue observed, .{1,120}?, severity\((\d{1,2})\)", re.ASCII)
_SYNDROME: Final = re.compile(r"\bsynd 0x([0-9a-fA-F]{1,8}): ", re.ASCII)

Category = Literal["nic_driver", "nic_firmware", "other"]


class Shape(NamedTuple):
    code: str
    category: Category
    pattern: re.Pattern[str]


@lru_cache(maxsize=1)
def shapes() -> tuple[Shape, ...]:
    """The lines of `data/mlx5.toml`, in order."""
    text = files("collectors.parsers").joinpath("data/mlx5.toml").read_text("utf-8")
    return tuple(
        Shape(row["code"], row["category"], re.compile(row["pattern"], re.ASCII))
        for row in tomllib.loads(text)["line"]
    )


class CardLines:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._bad_modules: set[str] = set()
        self._issues: dict[tuple[str, bool], int] = {}
        """(card, whether user space said it) -> when its last health report began."""

    def feed(self, record: KernelRecord, line: str, bdf: str, body: str) -> Sequence[Found]:
        """`body` is the line behind the address and the place in the driver."""
        if told := _MODULE.match(body):
            return self._module(record, line, bdf, told[1].lower())
        if told := _ISSUE.search(body):
            return self._issue(record, line, bdf, "mlx5.health_issue", int(told[1]) >= _HARMLESS_FROM)
        if told := _SYNDROME.search(body):
            return self._issue(record, line, bdf, "mlx5.health_syndrome", int(told[1], 16) == 0)
        shape = next((shape for shape in shapes() if shape.pattern.search(body)), None)
        return self.finding(record, line, bdf, shape.code, shape.category) if shape else NOTHING

    def finding(
        self, record: KernelRecord, line: str, where: str, code: str, category: Category
    ) -> tuple[Found, ...]:
        """`where` is the card's address, or the name of a device."""
        port = self._site.inventory.port_at(where)
        bdf = normalise_bdf(where)
        payload = Kernel(
            category=category,
            device=port.device if port else where,
            code=code,
            message=line,
            written_by=record.written_by,
            kmsg_seq=record.seq,
        )
        subject = port.entity if port else f"pci/{bdf}" if bdf else "node"
        return (Found(payload, subject, record),)

    def _module(self, record: KernelRecord, line: str, bdf: str, what: str) -> Sequence[Found]:
        if what != "plugged":
            if len(self._bad_modules) < _MAX_CARDS:
                self._bad_modules.add(bdf)
            code = "mlx5.port_module_error" if what == "error" else "mlx5.port_module_unplugged"
            return self.finding(record, line, bdf, code, "nic_driver")
        if bdf not in self._bad_modules:
            return NOTHING
        self._bad_modules.discard(bdf)
        return self.finding(record, line, bdf, "mlx5.port_module_plugged", "other")

    def _issue(self, record: KernelRecord, line: str, bdf: str, code: str, harmless: bool) -> Sequence[Found]:
        """Syndrome 0 and notices are no issue; what follows one within seconds is its own report."""
        key = (bdf, record.written_by == "userspace")
        last = self._issues.get(key)
        if harmless or (last is not None and 0 <= record.time_ns - last <= ONE_ISSUE_NS):
            return NOTHING
        if len(self._issues) > _MAX_CARDS:
            self._issues.clear()
        self._issues[key] = record.time_ns
        return self.finding(record, line, bdf, code, "nic_firmware")
