"""A whole log through the parser: compared byte by byte, and the rules that hold over all subsystems."""

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from collectors.parsers.formats import read_kernel_log
from collectors.parsers.kernel_log import _may_matter
from collectors.parsers.records import KernelRecord
from collectors.parsers.site import Handler
from tests.collectors.parsers import test_aer, test_nic
from tests.collectors.parsers.builders import BOOT, NODE, UUID_1, at, events_of, parser, record
from tests.collectors.parsers.mutations import SEEDS
from tests.collectors.parsers.test_formats import FORMATS, Printer
from topics.events import Event, decode, encode, to_dict
from topics.time import NS_PER_US

GOLDEN = Path(__file__).parent / "golden"


def golden_records() -> list[KernelRecord]:
    lines = (GOLDEN / "node-02.log").read_text("utf-8").splitlines()
    return list(read_kernel_log(lines, boot_id=BOOT))


def read(records: list[KernelRecord], **options: Any) -> list[Event[Any]]:
    reading = parser(**options)
    return [event for one in records for event in reading.feed(one)] + reading.flush()


def test_the_golden_log_gives_the_golden_events() -> None:
    """`UPDATE_GOLDEN=1` writes them anew: look at the difference before you commit it."""
    told = b"".join(encode(event) + b"\n" for event in read(golden_records(), provenance="replay"))
    path = GOLDEN / "node-02.jsonl"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_bytes(told)
    assert told == path.read_bytes()


def test_golden_events_are_of_the_contract() -> None:
    for line in (GOLDEN / "node-02.jsonl").read_bytes().splitlines():
        assert encode(decode(line)) == line


def summary(event: Event[Any]) -> tuple[Any, ...]:
    """What must not depend on the format of the log."""
    data = to_dict(event)["data"]
    for key in ("kmsg_seq", "written_by"):
        data.pop(key, None)
    return event.type, event.subject, json.dumps(data, sort_keys=True)


@pytest.mark.parametrize(
    "printer", [printer for printer, *_ in FORMATS], ids=[p.__name__ for p, *_ in FORMATS]
)
def test_the_golden_log_means_the_same_in_every_format(printer: Printer) -> None:
    records = [one for one in golden_records() if "\n" not in one.text and one.written_by == "kernel"]
    boot = golden_records()[0].time_ns
    lines = [
        line
        for one in records
        for line in printer((one.time_ns - boot) // NS_PER_US, 0, one.level or 5, one.text).split("\n")
        if not line.startswith((" SUBSYSTEM", " DEVICE"))
    ]
    again = list(read_kernel_log(lines, boot_time=boot, boot_id=BOOT, reference=records[-1].time_ns))
    if printer.__name__ in {"dmesg_ctime", "syslog"}:  # whole seconds: two flaps' ends may fall together
        assert [e.type for e in read(again)] == [e.type for e in read(records)]
    else:
        assert [summary(event) for event in read(again)] == [summary(event) for event in read(records)]


def test_reading_a_log_again_gives_the_same_ids() -> None:
    first, second = read(golden_records()), read(golden_records())
    assert [event.id for event in first] == [event.id for event in second]
    assert len({event.id for event in first}) == len(first)


def test_a_reader_that_starts_again_at_the_oldest_open_record_loses_nothing() -> None:
    """Cut anywhere: what was told before the cut, and what is told from there on, is everything."""
    records = golden_records()
    everything = {event.id for event in read(records)}
    for cut in range(1, len(records)):
        reading = parser()
        told = [event for one in records[:cut] for event in reading.feed(one)]
        pending = reading.oldest_pending()
        start = cut if pending is None else records.index(pending)
        fresh = parser()
        for one in records[:start]:  # what it knew: ports, names, the driver
            fresh.feed(one)
        told += [event for one in records[start:] for event in fresh.feed(one)] + fresh.flush()
        assert {event.id for event in told} == everything, cut


def test_what_a_program_writes_is_marked_and_changes_nothing_else() -> None:
    kernel = golden_records()
    claims = [one._replace(written_by="userspace", seq=(one.seq or 0) + 10_000) for one in kernel]
    mixed = [one for pair in zip(claims, kernel, strict=True) for one in pair]
    alone = [e for e in read(kernel) if e.kind != "ib_port"]
    beside = [e for e in read(mixed) if e.kind != "ib_port"]
    told = [encode(e) for e in beside if getattr(e.data, "written_by", None) != "userspace"]
    assert told == [encode(e) for e in alone if e.data.written_by != "userspace"]
    claimed = [e for e in beside if e.data.written_by == "userspace"]
    assert claimed
    assert all(e.data.kmsg_seq is None or e.data.kmsg_seq >= 30 for e in claimed)


def known_lines() -> list[str]:
    """One of everything that any handler reads."""
    groups = [
        line
        for word, bits in (
            ("Corrected", test_aer.CORRECTABLE),
            ("Uncorrectable (Fatal)", test_aer.UNCORRECTABLE),
        )
        for source in (
            "{multiple}{severity} error received: {device}",
            "AER: {severity} error message received from {device}",
        )
        for line in test_aer.group(word, bits, source=source)
    ]
    return [
        *SEEDS,
        *groups,
        *test_aer.firmware(0x4000, {14: "CmpltTO"}, 0x4000),
        "pcieport 0000:1a:01.0: AER: Corrected error received: 0000:1b:00.0",
        "pcieport 0000:1a:01.0: can't find device of ID1b00",
        "pcieport 0000:1a:01.0: found no error details for 0000:1b:00.0",
        *(line for lines, _, _ in test_aer.CONTAINED for line in lines),
        *(line for line, _ in test_aer.RECOVERED),
        *(line for line, _, _ in test_nic.LINKS),
        *(f"mlx5_core 0000:c0:00.0: {body}" for body, _, _ in test_nic.TROUBLES),
        "mlx5_core 0000:c0:00.0: Port module event: module 0, Cable plugged",
        "NETDEV WATCHDOG: eth2 (mlx5_core): transmit queue 3 timed out 7000 ms",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up (First)",
    ]


def state_of(handler: Handler) -> bytes:
    """Everything that a handler remembers."""
    return pickle.dumps({key: value for key, value in vars(handler).items() if key != "_site"})


def test_the_filter_never_keeps_a_line_from_its_handler() -> None:
    """Whatever changes a handler, or makes it speak, has one of the words that the filter looks for."""
    taken = 0
    for line in known_lines():
        reading = parser()
        for handler in (*reading._kernel.own, reading._nic):
            # an open group of every sort, so that lines that only complete one count too
            open_groups = (*test_aer.group()[:3], *test_aer.CONTAINED[0][0][:1])
            if "ID1b00" in line or "details for" in line:
                open_groups = (test_aer.group()[0],)
            for number, before in enumerate(open_groups):
                handler.feed(record(before, 0, seq=number), before)
            known = (state_of(handler), repr(reading.site))
            told = handler.feed(record(line, 0.5, seq=99), line)
            if told or (state_of(handler), repr(reading.site)) != known:
                taken += 1
                assert _may_matter(line), (type(handler).__name__, line)
    assert taken > 300


def test_lines_of_one_record_are_events_of_their_own() -> None:
    text = (
        "NVRM: Xid (PCI:0000:43:00): 31, pid=1, name=a, x\nsomething else\n"
        "NVRM: Xid (PCI:0000:43:00): 45, pid=1, name=a, Ch 1"
    )
    for seq in (7, None):
        events = events_of([record(text, 0, seq=seq)])
        assert [event.data.xid for event in events] == [31, 45]
        assert events[0].id != events[1].id


def test_open_groups_of_all_subsystems_are_flushed_with_the_log() -> None:
    reading = parser()
    oom = next(one for one in golden_records() if one.text.startswith("oom-kill"))
    assert reading.feed(oom._replace(time_ns=at(0), seq=1)) == []
    assert (
        reading.feed(record("pcieport 0000:1a:01.0: AER: Corrected error received: 0000:1b:00.0", 1, seq=2))
        == []
    )
    waiting = reading.oldest_pending()
    assert waiting is not None
    assert waiting.seq == 1
    assert sorted(event.kind for event in reading.flush()) == ["aer", "kernel"]
    assert reading.oldest_pending() is None
    assert reading.flush() == []


def test_events_carry_what_the_collector_adds() -> None:
    one = record("reboot: Power down", 5, seq=9)
    event = parser(via="kmsg", provenance="live").feed(one, recorded=at(6))[0]
    assert (event.recordedtime, event.provenance, event.subject, event.partitionkey) == (
        at(6),
        "live",
        "node",
        "node-02",
    )


def test_a_driver_version_can_be_given_later() -> None:
    reading = parser()
    reading.driver_version = "580.65.06"
    assert reading.driver_version == "580.65.06"
    event = reading.feed(record("NVRM: Xid (PCI:0000:43:00): 13, x"))[0]
    assert (event.data.driver_version, event.data.gpu_uuid) == ("580.65.06", UUID_1)


def test_ids_that_were_told_are_remembered_within_bounds() -> None:
    reading = parser()
    for number in range(6000):
        reading.feed(record(f"NVRM: Xid (PCI:0000:43:00): 13, body {number}", number, seq=number))
    assert len(reading._seen) <= 4097
    assert NODE.gpus
