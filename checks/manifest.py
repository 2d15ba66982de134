"""What a node must have: its PCI devices with their links, and its active ports, as learnt from a good one.

`faultwire check learn` writes it; the topology check compares. By address where all nodes enumerate alike,
else by number of each kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from checks.host import PciDevice, RdmaPort

Text = Annotated[str, StringConstraints(min_length=1)]


class ManifestError(Exception):
    """A manifest that can't be used."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Device(_Strict):
    """One device that must be there. `speed` is in GT/s: of a GPU what its link can do, for an idle GPU
    trains it down; of others what it does."""

    bdf: Text
    kind: Text
    vendor: Text
    device: Text
    speed: float | None = None
    width: int | None = None
    upstream: tuple[str, ...] = ()


class Port(_Strict):
    """One RDMA port that must be active."""

    name: Text
    rate_gbit_s: float | None = None


class Manifest(_Strict):
    version: Literal[1] = 1
    learnt_from: Text
    learnt_at: Text
    match: Literal["address", "count"] = "address"
    devices: tuple[Device, ...]
    ports: tuple[Port, ...] = ()


def learn(
    devices: Sequence[PciDevice],
    ports: Sequence[RdmaPort],
    *,
    node: str,
    at: str,
    match: Literal["address", "count"] = "address",
) -> Manifest:
    """The manifest of a node that is as it should be."""
    return Manifest(
        learnt_from=node,
        learnt_at=at,
        match=match,
        devices=tuple(
            Device(
                bdf=d.bdf, kind=d.kind, vendor=d.vendor, device=d.device, speed=_speed(d), width=d.width,
                upstream=d.upstream,
            )
            for d in devices
        ),
        ports=tuple(Port(name=p.name, rate_gbit_s=p.rate_gbit_s) for p in ports if p.state == "ACTIVE"),
    )  # fmt: skip


def read(path: Path) -> Manifest | None:
    """None where there is none. Raises `ManifestError`."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as exc:
        raise ManifestError(f"{path}: can't be read: {exc}") from exc
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        raise ManifestError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from exc


def expected_ports(path: Path) -> frozenset[str]:
    """Names of the ports that must be active; none without a manifest. Raises `ManifestError`."""
    manifest = read(path)
    return frozenset(port.name for port in manifest.ports) if manifest else frozenset()


def differences(
    manifest: Manifest, devices: Sequence[PciDevice], fastest: Mapping[str, float] | None = None
) -> Iterator[str]:
    """What is not as it must be, in words. `fastest` is the highest speed that each link had while it was
    under load; without it, GPUs are held only to what their links can do."""
    if manifest.match == "count":
        yield from _by_count(manifest, devices)
        return
    present = {d.bdf: d for d in devices}
    for wanted in manifest.devices:
        found = present.get(wanted.bdf)
        if found is None or (found.vendor, found.device) != (wanted.vendor, wanted.device):
            yield f"{wanted.kind} {wanted.bdf} is missing"
            continue
        if wanted.upstream and found.upstream != wanted.upstream:
            place = f"{_path(found.upstream)}, not {_path(wanted.upstream)}"
            yield f"{wanted.kind} {wanted.bdf} sits below {place}"
        yield from _narrower(wanted, found)
        yield from _slower(wanted, found, fastest)


def _by_count(manifest: Manifest, devices: Sequence[PciDevice]) -> Iterator[str]:
    """How many there are of each sort, with each width and speed."""
    wanted = Counter((d.kind, d.vendor, d.device, d.speed, d.width) for d in manifest.devices)
    found = Counter((d.kind, d.vendor, d.device, _speed(d), d.width) for d in devices)
    for sort, number in wanted.items():
        if found[sort] < number:
            kind, vendor, device, speed, width = sort
            link = f" at {speed or 0:g} GT/s x{width or 0}"
            yield f"{found[sort]} of {number} {kind} {vendor}:{device}{link}"


def _narrower(wanted: Device, found: PciDevice) -> Iterator[str]:
    if wanted.width and found.width is not None and found.width < wanted.width:
        yield f"{wanted.kind} {wanted.bdf}: x{found.width}, x{wanted.width} is due"


def _slower(wanted: Device, found: PciDevice, fastest: Mapping[str, float] | None) -> Iterator[str]:
    speed = _speed(found)
    if wanted.kind == "gpu" and fastest is not None and wanted.bdf in fastest:
        speed = min(speed or fastest[wanted.bdf], fastest[wanted.bdf])
    if wanted.speed and speed is not None and speed < wanted.speed:
        yield f"{wanted.kind} {wanted.bdf}: {speed:g} GT/s, {wanted.speed:g} is due"


def _speed(device: PciDevice) -> float | None:
    return device.speed_max if device.kind == "gpu" else device.speed


def _path(upstream: Sequence[str]) -> str:
    return "/".join(upstream) or "no bridge"
