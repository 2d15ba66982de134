"""No line makes a parser fail, and none takes more time than its length is worth.

`FAULTWIRE_FUZZ_LINES` sets how many lines are tried (nightly: 10,000,000).
"""

# ruff: noqa: E501 - lines of logs are as long as they are

import contextlib
import os
import random
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.parsers import aer_grammar, kernel, mlx5, nic, nvlink5, sxid, xid, xid_bodies
from collectors.parsers.fabric_manager import FabricManagerParser
from collectors.parsers.formats import KernelLogError, read_kernel_log
from collectors.parsers.kmsg import parse_kmsg_record
from collectors.parsers.site import Site
from tests.collectors.parsers.builders import START, parser, record
from tests.collectors.parsers.mutations import SEEDS, printed, text
from topics.events import decode, encode
from topics.time import NS_PER_S

LINES = int(os.environ.get("FAULTWIRE_FUZZ_LINES", "200000"))
BATCH = 500
"""Lines that go through one parser, so that groups are left open, mixed and overdue."""


@pytest.mark.timeout(max(120, LINES // 1000))
@settings(
    max_examples=LINES // BATCH,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.integers(0, 2**48))
def test_no_record_makes_the_parser_fail_and_every_event_can_be_sent(seed: int) -> None:
    rng = random.Random(seed)
    reading = parser()
    events = []
    for number in range(BATCH):
        writer = "userspace" if rng.random() < 0.1 else "kernel"
        one = record(text(rng), rng.random() * 20, seq=number, written_by=writer)
        events += reading.feed(one)
        if rng.random() < 0.02:
            events += reading.flush(one.time_ns + rng.randrange(3 * NS_PER_S))
    events += reading.flush()
    assert reading.oldest_pending() is None
    for event in events[::7]:
        assert decode(encode(event)) == event


@settings(max_examples=max(20, LINES // 20_000), deadline=None, database=None)
@given(st.integers(0, 2**48))
def test_no_file_makes_the_reader_fail(seed: int) -> None:
    rng = random.Random(seed)
    lines = [printed(rng, number) for number in range(BATCH)]
    for boot_time, reference in ((START, START), (None, START), (START, None)):
        with contextlib.suppress(KernelLogError):
            for one in read_kernel_log(lines, boot_time=boot_time, reference=reference):
                assert one.time_ns > 0


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200), st.binary(max_size=200))
def test_any_text_and_any_bytes(junk: str, raw: bytes) -> None:
    reading = parser()
    for prefix in (
        "",
        "NVRM: ",
        "NVRM: Xid (PCI:0000:43:00): 149, ",
        "mlx5_core 0000:c0:00.0: ",
        "pcieport 0000:1a:01.0: AER: ",
    ):
        for event in reading.feed(record(prefix + junk)):
            encode(event)
    FabricManagerParser(Site("c1", "n1")).feed(junk)
    found = parse_kmsg_record(raw)
    assert found is None or 0 <= found.level <= 7
    taken = parse_kmsg_record(b"6,1,2,-;" + raw)
    assert taken is None or taken.written_by == "kernel"


REPEATS = [
    "NVRM: Xid (PCI:0000:43:00): 13, pid=1, name={x}", "NVRM: Xid (PCI:0000:43:00): 45, {x} caused by previous Xid",
    "NVRM: Xid (PCI:0000:43:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x{x}",
    "NVRM: Xid (PCI:0000:43:00): 74, NVLink: fatal error detected on link 14({x}", "NVRM: {x}NV_ERR",
    "NVRM: loading NVIDIA UNIX {x}", "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, {x}",
    "pcieport 0000:1a:01.0: AER: Corrected error received: {x}", "nvidia 0000:1b:00.0:    [ 0] {x}",
    "nvidia 0000:1b:00.0: PCIe Bus Error: severity=Corrected, type={x}", "{x} 0000:1b:00.0: AER: ",
    "mlx5_core 0000:c0:00.0: Health issue observed, {x}", "{x}: Link down", "{x}: Lost carrier",
    "Lustre: {x} Connection to", "LustreError: {x} failed: rc = -", "nfs: server {x} not responding",
    "RPC: {x} server {x} timed out", "oom-kill:constraint=A,{x}task_memcg=", "{x} Killed process", "INFO: task {x}:1 blocked",
    "{x}[1]: segfault at ", "traps: {x}", "thermal thermal_zone0: {x}", "XFS (dm-0): {x}", "{x}ERROR detected invalid context",
    "NETDEV WATCHDOG: {x}", "mce: [Hardware Error]: {x}",
]  # fmt: skip
FILLERS = ["a", " ", "0", "0x0 ", ":", ", ", "a-", "(", "[", "ab ", "0000:1b:00.0 ", "nv_mem", "server x "]


def seconds_per_line(run: Callable[[str], object], line: str) -> float:
    """The best of three: what the line costs, not what else the machine did."""
    best = float("inf")
    for _ in range(3):
        begun = time.process_time()
        run(line)
        best = min(best, time.process_time() - begun)
    return best


@pytest.mark.parametrize("pattern", REPEATS)
def test_time_grows_with_the_length_of_a_line_and_not_faster(pattern: str) -> None:
    """Sixteen times the length may cost some thirty times the time, not 256 times."""
    reading = parser()

    def run(line: str) -> object:
        return reading.feed(record(line))

    for filler in FILLERS:
        short, long = (pattern.replace("{x}", filler * (size // len(filler))) for size in (4_000, 64_000))
        cost = seconds_per_line(run, long)
        assert cost < 0.02 or cost < 48 * seconds_per_line(run, short), (filler, cost)


def test_every_pattern_of_this_room_is_tried_by_the_mutations() -> None:
    """The seeds reach each parser, so that what is torn was once whole."""
    assert any(xid.parse_xid(line) for line in SEEDS)
    assert any(sxid.parse_sxid(line) for line in SEEDS)
    assert any(
        line.startswith("pcieport") and not aer_grammar.WORDS.isdisjoint(line.split()) for line in SEEDS
    )
    assert any(line.startswith("mlx5_core") and not nic.WORDS.isdisjoint(line.split()) for line in SEEDS)
    for shape in kernel.shapes():
        assert any(shape.pattern.match(line) for line in SEEDS), shape.code
    assert any(shape.pattern.search(line) for shape in mlx5.shapes() for line in SEEDS)
    xids = [found for line in SEEDS if (found := xid.parse_xid(line))]
    assert any(nvlink5.decode(149, found.body) for found in xids if found.code in nvlink5.CODES)
    assert {found.code for found in xids} >= xid_bodies.DECODED_CODES - {74, 175}
