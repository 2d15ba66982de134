"""Driver errors: which are critical, when they end, when repetition says something."""

from __future__ import annotations

import pytest

from tests.streams.builders import Fleet, at, beat, placed, xid
from topics.payloads import Repeats


@pytest.mark.parametrize(
    ("fields", "critical"),
    [
        ({"severity": "fatal", "attribution": "hardware"}, True),
        ({"severity": "fatal", "attribution": "firmware"}, True),
        ({"severity": "error", "attribution": "hardware", "resolution": "RESTART_APP"}, True),
        ({"severity": "error", "attribution": "driver", "resolution": "RESET_GPU"}, True),
        ({"severity": "error", "attribution": "application", "resolution": "RESTART_APP"}, False),
        ({"severity": "error", "attribution": "driver", "resolution": "IGNORE"}, False),
        ({"severity": "warning", "attribution": "hardware"}, False),
        ({"severity": "fatal", "attribution": "consequence"}, False),
        ({"severity": "fatal", "attribution": "hardware", "caused_by_xid": 149}, False),
    ],
)
def test_what_is_critical(fields: dict[str, object], critical: bool) -> None:
    fleet = Fleet()
    fleet.put(xid(79, 10.0, **fields))
    assert bool(fleet.signals("xid_critical")) is critical


def test_user_space_can_write_to_the_kernel_log_but_opens_nothing() -> None:
    fleet = Fleet()
    fleet.put(xid(79, 10.0, written_by="userspace"))
    assert fleet.signals() == []
    fleet.put(xid(79, 11.0, written_by="userspace", drill=True))
    (told,) = fleet.signals("xid_critical")
    assert told.drill is True


def test_repeats_of_a_code_are_one_condition_and_codes_are_apart() -> None:
    fleet = Fleet()
    for second in (10.0, 10.0, 10.1, 12.0):
        fleet.put(xid(95, second))
    fleet.put(xid(48, 10.0))
    assert sorted(t[2] or "" for t in fleet.told("xid_critical")) == ["xid48", "xid95"]


def test_a_reset_ends_it() -> None:
    fleet = Fleet()
    fleet.put(xid(95, 10.0))
    fleet.put(xid(154, 130.0, severity="warning", attribution="consequence", recovery_action="none"))
    assert [(t[1], t[3]) for t in fleet.told("xid_critical")] == [("open", 1.0), ("cleared", 1.0)]
    assert fleet.signals("xid_critical")[-1].time == at(130.0)
    fleet.put(xid(95, 140.0))
    assert [t[1] for t in fleet.told("xid_critical")] == ["open", "cleared", "open"]


def test_a_reboot_ends_it() -> None:
    fleet = Fleet()
    fleet.put(beat(0.0, boot="a", uptime=5000.0))
    fleet.put(xid(79, 10.0))
    fleet.put(beat(20.0, boot="a", uptime=5020.0))
    assert [t[1] for t in fleet.told("xid_critical")] == ["open"]
    fleet.put(beat(300.0, boot="b", uptime=40.0))
    closed = fleet.signals("xid_critical")[-1]
    assert (closed.data.state, closed.time) == ("cleared", at(260.0))


def test_it_is_forgotten_after_a_day_of_silence() -> None:
    fleet = Fleet()
    fleet.put(xid(79, 10.0))
    fleet.advance(10.0 + 86400)
    assert [t[1] for t in fleet.told("xid_critical")] == ["open", "cleared"]


def test_late_and_shuffled_records_give_the_same_facts() -> None:
    records = [xid(95, 10.0), xid(95, 12.0), xid(79, 13.0), xid(48, 9.0)]
    records.append(xid(154, 60.0, severity="warning", attribution="consequence", recovery_action="none"))
    forward, backward = Fleet(), Fleet()
    for record in records:
        forward.put(record, now=100.0)
    for record in reversed(records):
        backward.put(record, now=100.0)
    keys = [
        {(e.data.level, e.data.state, e.data.since, e.time) for e in f.signals("xid_critical")}
        for f in (forward, backward)
    ]
    assert keys[0] == keys[1]


def test_five_bursts_within_a_day_are_repetition_many_lines_of_one_burst_are_not() -> None:
    fleet = Fleet()
    for second in range(0, 150, 10):
        fleet.put(xid(119, float(second)))
    assert fleet.signals("xid_repeated") == []
    for burst in range(1, 5):
        fleet.put(xid(119, burst * 3600.0), xid(119, burst * 3600.0 + 1))
    (told,) = fleet.signals("xid_repeated")
    assert (told.data.level, told.data.value, told.time) == ("bursts", 5.0, at(4 * 3600.0))


def test_program_errors_count_only_in_different_jobs_on_one_gpu() -> None:
    fields = {"severity": "error", "attribution": "application", "resolution": "RESTART_APP"}
    fleet = Fleet()
    for i in range(3):
        fleet.put(placed(i * 1000.0, (f"job-{i}", 1), since=i * 1000.0))
        for again in range(8):
            fleet.put(xid(31, i * 1000.0 + 300 + again * 50, **fields))
        fleet.put(xid(31, i * 1000.0 + 900, gpu=f"GPU-{i + 1}", **fields))
    (told,) = fleet.signals("xid_repeated")
    assert (told.data.level, told.data.entity, told.data.value) == ("jobs", "gpu/GPU-0", 3.0)


def test_a_storm_counts_folded_records() -> None:
    fleet = Fleet()
    fleet.put(xid(13, 10.0, severity="error", attribution="application", resolution="RESTART_APP"))
    assert fleet.signals("xid_storm") == []
    folded = Repeats(count=60, first=at(20.0), last=at(24.0))
    fleet.put(
        xid(13, 20.0, severity="error", attribution="application", resolution="RESTART_APP", repeats=folded)
    )
    assert [t[1] for t in fleet.told("xid_storm")] == ["open"]
    fleet.put(
        xid(13, 20.0, severity="error", attribution="application", resolution="RESTART_APP", repeats=folded)
    )
    fleet.advance(90.0)
    assert [t[1] for t in fleet.told("xid_storm")] == ["open", "cleared"], (
        "a repeat of the record adds nothing"
    )
