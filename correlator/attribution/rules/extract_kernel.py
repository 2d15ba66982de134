"""Extractors: kernel findings (XID, SXID, AER, other lines) -> symptoms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from correlator.attribution.case import Case
from correlator.attribution.knowledge import KernelRole, XidRole, kernel_code_roles, kernel_roles, xid_roles
from correlator.attribution.registry import rule
from correlator.attribution.symptom import Role, Strength, Symptom
from correlator.attribution.view import gpu_entity
from correlator.evidence.sketch import Group, Occurrence
from topics.time import NS_PER_S, from_seconds

_UNKNOWN_XID: Final = XidRole("accelerator_gpu", "weak", 6, at_once=False)
_DECODED: Final[dict[str, Strength]] = {
    "local_signal_integrity": "lethal",
    "peer": "lethal",
    "host": "none",
    "software": "none",
    "sympathetic": "none",
    "ber": "none",
    "none": "none",
}
_EITHER_SUBCODES: Final = frozenset({16, 18})
"""Link-down sub-codes that NVIDIA gives as software or signal integrity."""
_GSP_WAIT: Final = re.compile(r"Timeout after (\d{1,4})s")
_STUCK: Final = re.compile(r"stuck for (\d{1,5})s|blocked for more than (\d{1,6}) seconds")
STALLING_SXIDS: Final = frozenset({"11004", "12028"})
"""Printed as non-fatal, and the GPU's NVLink traffic stalls. Source: NVIDIA's Fabric Manager guide."""
STALLS_NS: Final = 60 * NS_PER_S
_OTHER_JOB: Final = re.compile(r"\bjob_(\w{1,40})")
_MENDED: Final = frozenset({"nfs.server_ok", "lustre.connection_restored"})
_HARMLESS_HINTS: Final = frozenset({"ignore", "corrected_ecc"})
_TRAINING_DRIVERS: Final = (
    "nvidia",
    "mlx5",
    "mlx4",
    "bnxt",
    "irdma",
    "ice",
    "efa",
    "pcieport",
    "vfio",
    "nvswitch",
)
_FATAL_PCIE: Final = frozenset({"SDES", "DLP", "FCP", "MalfTLP", "RxOF", "UncorrIntErr"})


@rule(name="ExtractXid", kind="extractor", phase="EXTRACT")
def extract_xid(case: Case) -> list[Symptom]:
    """An XID is a fault of one GPU, of a kind and strength that the code (and its words) give.

    Needs a driver line. Must not take codes that follow other faults, record repairs or stem from
    programs for hardware faults, nor date one back to before a step that all GPUs have done.
    """
    steps = case.view.store.progress.distinct()
    return [
        *case.symptoms,
        *(s for g in case.view.groups("xid") for o in g.occurrences() for s in _xid(g, o, steps)),
    ]


def _xid(group: Group, found: Occurrence, steps: Sequence[int]) -> list[Symptom]:
    code, decoded = int(group.key[3]), group.key[4]
    a = found.attrs
    role = xid_roles().get(code)
    if role is None:
        hardware = a.get("severity") == "fatal" and a.get("attribution") in ("hardware", "firmware")
        role = XidRole("accelerator_gpu", "likely", 5, at_once=False) if hardware else _UNKNOWN_XID
    name, kind, strength, tier, order = _meaning(code, decoded, role, a)
    start = latest = None
    if (wait := _GSP_WAIT.search(a.get("message", ""))) is not None:
        start = found.time - from_seconds(int(wait[1]))
        done = max((t for t in steps if t <= found.time), default=start)
        if done > start:  # it hurt nobody at first: some time after that step it did
            start, latest = done, found.time
    return [
        Symptom(
            code=name,
            time=found.time,
            tier=tier,
            role=kind,
            node=found.node,
            entity=gpu_entity(a.get("uuid"), a.get("index"), a.get("bdf")),
            evidence=(found.id,),
            domain="workload" if role.strength in ("app", "follows") else "hardware",
            subdomain=role.subdomain,
            strength=strength,
            start=start,
            latest=latest,
            order=order,
            attrs={
                "xid": code,
                "kernel": True,
                "decoded": decoded,
                "at_once": _at_once(role, decoded),
                "last": found.last,
                **a,
            },
            drill=bool(a.get("drill")),
        )
    ]


def _at_once(role: XidRole, decoded: str) -> bool:
    """Whether the work on this GPU is lost whatever the others say."""
    return role.at_once or (role.strength == "decode" and decoded == "local_signal_integrity")


def _meaning(
    code: int, decoded: str, role: XidRole, a: dict[str, Any]
) -> tuple[str, Role, Strength, int, int]:
    """(symptom code, role, strength, tier, order)"""
    name = f"xid.{code}"
    match role.strength:
        case "app":
            return name, "root", "likely", 5, role.rank
        case "follows" | "none":
            return name, "info" if role.strength == "none" else "teardown", "none", 8, role.rank
        case "software":
            return f"{name}.software", "effect", "none", 5, role.rank
        case "decode":
            name = f"{name}.{decoded or 'unknown'}"
            if a.get("subcode") in _EITHER_SUBCODES:
                return f"xid.{code}.either", "root", "likely", 2, role.rank
            if decoded in ("software", "host", "sympathetic"):
                return name, "effect", "none", 5, role.rank
            known = _DECODED.get(decoded)
            if known is not None:
                return name, "root" if known == "lethal" else "info", known, 2, role.rank
            return name, "root", "likely" if a.get("fatal") else "weak", 2, role.rank
        case "lethal" | "likely":
            hint = str((a.get("details") or {}).get("hint", ""))
            if hint.startswith("sympathetic"):
                return f"{name}.sympathetic", "effect", "none", 5, role.rank
            if hint in _HARMLESS_HINTS:
                return f"{name}.{hint}", "info", "none", 9, role.rank
            return name, "root", role.strength, 2, role.rank
    return name, "root", "weak", 4, role.rank


@rule(name="ExtractSxid", kind="extractor", phase="EXTRACT")
def extract_sxid(case: Case) -> list[Symptom]:
    """A fatal SXID is a fault of an NVSwitch and takes NVLink from the GPUs behind it.

    Needs the line's own word "Fatal", or one of two codes that stall a GPU's links and the abort (XID 45)
    that they end in. Must not take other non-fatal and informational codes for outages.
    """
    aborts = [(o.node, o.time) for g in case.view.groups("xid") if g.key[3] == "45" for o in g.occurrences()]
    found = []
    for group in case.view.groups("sxid"):
        _, node, switch, code, severity, _ = group.key
        for o in group.occurrences():
            strength: Strength = "lethal" if severity == "fatal" else "none"
            if strength == "none" and code in STALLING_SXIDS:
                ends_in = (where == node and 0 <= at - o.time <= STALLS_NS for where, at in aborts)
                strength = "likely" if any(ends_in) else "none"
            found.append(
                Symptom(
                    code=f"sxid.{code}",
                    time=o.time,
                    tier=2,
                    role="info" if strength == "none" else "root",
                    node=node,
                    entity=f"nvswitch/{switch}",
                    evidence=(o.id,),
                    domain="hardware",
                    subdomain="accelerator_fabric",
                    strength=strength,
                    order=3,
                    attrs={"sxid": int(code), "kernel": True, **o.attrs},
                    drill=bool(o.attrs.get("drill")),
                )
            )
    return [*case.symptoms, *found]


@rule(name="ExtractAer", kind="extractor", phase="EXTRACT")
def extract_aer(case: Case) -> list[Symptom]:
    """An uncorrectable fatal PCIe error, or containment (DPC), cuts a device off.

    Needs the severity word or the DPC line. Must not take correctable or non-fatal errors for losses: a
    completion time-out is what a dying device causes, and unsupported requests are probing. A device whose
    driver is neither a GPU's nor an RDMA NIC's ends training only if the effects agree.
    """
    found = []
    for group in case.view.groups("aer"):
        _, node, bdf, severity, recovery, _ = group.key
        for o in group.occurrences():
            if recovery == "successful":
                continue
            errors = set(o.attrs.get("errors") or ())
            lethal = recovery == "dpc" or severity == "fatal" or bool(errors & _FATAL_PCIE)
            if severity == "correctable":
                lethal = False
            aside = _other_driver(o.attrs.get("driver"))
            found.append(
                Symptom(
                    code=f"aer.{recovery or severity}",
                    time=o.time,
                    tier=2 if lethal else 9,
                    role="root" if lethal else "info",
                    node=node,
                    entity=_pcie_entity(o.attrs.get("attached"), bdf),
                    evidence=(o.id,),
                    domain="hardware",
                    subdomain="pcie",
                    strength="none" if not lethal else "likely" if aside else "lethal",
                    order=0,
                    attrs={"bdf": bdf, "at_once": lethal and not aside, "kernel": True, **o.attrs},
                    drill=bool(o.attrs.get("drill")),
                )
            )
    return [*case.symptoms, *found]


def _other_driver(name: str | None) -> bool:
    """Whether the driver is known, and that of neither a GPU, an RDMA NIC nor a bridge."""
    return name is not None and not name.startswith(_TRAINING_DRIVERS)


def _pcie_entity(attached: str | None, bdf: str) -> str:
    return f"gpu/{attached}" if attached and attached.startswith("GPU-") else f"pci/{bdf}"


@rule(name="ExtractKernelLines", kind="extractor", phase="EXTRACT")
def extract_kernel_lines(case: Case) -> list[Symptom]:
    """Panics, lockups, OOM kills, NIC health and storage stalls speak for their node.

    Needs a kernel line. Must not take an OOM kill in another job's memory cgroup for this attempt's, nor a
    stall for one that goes on when the server answered again.
    """
    mended: dict[str, list[int]] = {}
    for group in case.view.groups("kernel"):
        if group.key[3] in _MENDED:
            mended.setdefault(group.key[1], []).extend(o.time for o in group.occurrences())
    return [
        *case.symptoms,
        *(
            _line(group, o, role, case.view.job_id, sorted(mended.get(group.key[1], ())))
            for group in case.view.groups("kernel")
            if (role := kernel_code_roles().get(group.key[3]) or kernel_roles().get(group.key[2])) is not None
            for o in group.occurrences()
        ),
    ]


def _line(group: Group, o: Occurrence, role: KernelRole, job_id: str, mended: list[int]) -> Symptom:
    _, node, category, code, _, _ = group.key
    message = o.attrs.get("message", "")
    other = _OTHER_JOB.search(f"{o.attrs.get('cgroup', '')} {message}")
    stuck = _STUCK.search(message)
    latency = float(stuck[1] or stuck[2]) if stuck else role.latency_s
    until = next((t for t in mended if t >= o.time), None) if role.domain == "storage" else None
    return Symptom(
        code=code or f"kernel.{category}",
        time=o.time,
        tier=role.tier,
        role="root" if role.strength != "none" else "info",
        node=node,
        entity=_kernel_entity(role, category, o.attrs),
        evidence=(o.id,),
        domain=role.domain,
        subdomain=role.subdomain,
        strength=role.strength,
        start=o.time - from_seconds(latency) if latency else None,
        until=until,
        lasting=role.lasting,
        order=0 if category == "panic" else 1,
        attrs={
            "category": category,
            "kernel": True,
            "foreign": category == "oom_kill" and other is not None and other[1] != job_id,
            **o.attrs,
        },
        drill=bool(o.attrs.get("drill")),
    )


def _kernel_entity(role: KernelRole, category: str, attrs: dict[str, Any]) -> str:
    device = attrs.get("device")
    if role.domain == "hardware" and device:
        return f"pci/{device}" if ":" in device else f"port/{device}/1"
    if category in ("storage_stall", "filesystem") and (attrs.get("server") or device):
        return f"filesystem/{attrs.get('server') or device}"
    return "node"
