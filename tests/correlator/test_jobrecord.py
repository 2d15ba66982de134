"""Job records merge: an end that knows less than the start did takes nothing away."""

from __future__ import annotations

import itertools

from correlator.evidence.jobrecord import PACK_ABOVE, JobRecord
from tests.correlator.builders import NODES, job


def test_what_the_end_leaves_out_stays_known() -> None:
    records = [job("RUNNING", 0), job("FAILED", 90, ranks=False, version=None, exit_code=1)]
    for order in itertools.permutations(records):
        record = JobRecord()
        for event in order:
            record.add(event)
        merged = record.job()
        assert merged is not None
        assert merged.state == "FAILED"
        assert merged.exit_code == 1
        assert merged.nccl is not None
        assert len(record.ranks) == len(NODES) * 8
        assert record.ranks.get(11) == (NODES[1], 3)
        assert record.ranks.get(64) is None
        assert dict(record.ranks.on(NODES[2])) == {16 + gpu: gpu for gpu in range(8)}


def test_an_attempt_that_has_ended_does_not_run_again() -> None:
    record = JobRecord()
    record.add(job("FAILED", 90))
    record.add(job("RUNNING", 95))

    assert record.job() is not None
    assert record.job().state == "FAILED"  # type: ignore[union-attr]


def test_a_long_record_is_packed_and_unpacked() -> None:
    record = JobRecord()
    record.add(job(nodes=[f"n{i:05d}" for i in range(3000)]))

    wire = record.to_wire()

    assert isinstance(wire, str)
    assert len(wire) < 24_000 < PACK_ABOVE * 6
    back = JobRecord.from_wire(wire)
    assert back.job() == record.job()
    assert back.ranks.to_wire() == record.ranks.to_wire()
    assert back.ranks.get(23_999) == ("n02999", 7)
