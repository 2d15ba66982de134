"""Captures: what is read, what is refused, and that neither order nor repeats matter."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from faultwire.capture import Capture, CaptureError, load

JOB = {
    "time": "2026-03-20T22:05:10Z",
    "job_id": "7",
    "attempt": 1,
    "scheduler": "slurm",
    "state": "RUNNING",
    "nodes": ["node-01"],
}


def port_event(device: str, state: str, at: str) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "type": "faultwire.ib_port.v1",
        "subject": f"port/{device}/1",
        "time": at,
        "datacontenttype": "application/json",
        "data": {"device": device, "port": 1, "link_layer": "InfiniBand", "state": state, "via": "sysfs"},
    }


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


def jsonl(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def kinds(capture: Capture) -> list[str]:
    return [record.event.kind for record in capture.records]


def test_events_without_id_source_and_key_get_them(tmp_path: Path) -> None:
    write(tmp_path, {"nodes/n1/events.jsonl": jsonl(port_event("mlx5_0", "DOWN", "2026-03-20T22:06:00.25Z"))})
    (record,) = load(tmp_path).records
    assert (record.topic, record.key) == ("raw.ib-port", "n1")
    assert record.event.source == "/capture/n1/capture"
    assert record.event.id
    assert record.event.provenance == "replay"


def test_gpus_of_a_job_are_named_by_index_and_by_uuid(tmp_path: Path) -> None:
    """An event about a GPU of somebody else must be known as such, whichever name it has."""
    gpus = [{"index": i, "uuid": f"GPU-{i}"} for i in range(3)]
    job = {**JOB, "gpus": {"node-01": [0, 2], "node-02": [1]}}
    write(
        tmp_path,
        {"jobs.jsonl": jsonl(job), "cluster.json": json.dumps({"nodes": {"node-01": {"gpus": gpus}}})},
    )
    told = {r.event.kind: r.event.data for r in load(tmp_path).records if r.key in ("7", "node-01")}
    assert told["job"].gpus == {"node-01": [0, 2, "GPU-0", "GPU-2"], "node-02": [1]}
    assert told["placement"].attempts[0].gpus == [0, 2, "GPU-0", "GPU-2"]


def test_a_line_may_hold_a_batch(tmp_path: Path) -> None:
    batch = [
        port_event("mlx5_0", "DOWN", "2026-03-20T22:06:00Z"),
        port_event("mlx5_1", "DOWN", "2026-03-20T22:06:01Z"),
    ]
    write(tmp_path, {"nodes/n1/events.jsonl": jsonl(batch)})
    assert kinds(load(tmp_path)) == ["ib_port", "ib_port"]


def test_order_and_repeats_in_the_files_change_nothing(tmp_path: Path) -> None:
    rows = [port_event(f"mlx5_{n}", s, f"2026-03-20T22:06:0{n}Z") for n in range(8) for s in ("DOWN", "INIT")]
    write(tmp_path / "a", {"nodes/n1/events.jsonl": jsonl(*rows)})
    shuffled = rows + random.Random(1).sample(rows, 5)
    random.Random(2).shuffle(shuffled)
    write(tmp_path / "b", {"nodes/n1/events.jsonl": jsonl(*shuffled)})
    assert load(tmp_path / "a").records == load(tmp_path / "b").records


def test_a_job_gives_the_placement_of_each_of_its_nodes(tmp_path: Path) -> None:
    write(tmp_path, {"jobs.jsonl": jsonl({**JOB, "nodes": ["node-01", "node-02"]})})
    placed = [r for r in load(tmp_path).records if r.event.kind == "placement"]
    assert [r.key for r in placed] == ["node-01", "node-02"]
    assert placed[0].event.data.attempts[0].job_id == "7"


@pytest.mark.parametrize(
    ("files", "where"),
    [
        ({"jobs.jsonl": jsonl(JOB) + '{"job_id": \n'}, "jobs.jsonl:2"),
        ({"jobs.jsonl": jsonl({k: v for k, v in JOB.items() if k != "time"})}, "jobs.jsonl:1"),
        ({"nodes/n1/events.jsonl": "\n{]\n"}, "events.jsonl:2"),
        ({"cluster.json": "{"}, "cluster.json"),
        (
            {"nodes/n1/kernel.log": "[ 1.0] x\n", "nodes/n1/boot.json": '{"boot_time": "yesterday"}'},
            "boot.json",
        ),
        ({"nodes/n1/kernel.log": "[    1.000000] no boot time anywhere\n"}, "kernel.log:1"),
    ],
)
def test_a_broken_structured_file_is_named_with_its_line(
    tmp_path: Path, files: dict[str, str], where: str
) -> None:
    write(tmp_path, files)
    with pytest.raises(CaptureError, match=where):
        load(tmp_path)


def test_an_event_that_breaks_the_contract_is_told_and_takes_nothing_with_it(tmp_path: Path) -> None:
    good = port_event("mlx5_0", "DOWN", "2026-03-20T22:06:00Z")
    bad = {**good, "data": {"device": "mlx5_0"}}
    unknown = {**good, "type": "somebody.else.v1"}
    write(tmp_path, {"nodes/n1/events.jsonl": jsonl(bad, unknown, "text", good)})
    capture = load(tmp_path)
    assert kinds(capture) == ["ib_port"]
    assert [p.split(": ")[0].rsplit(":", 1)[1] for p in capture.problems] == ["1", "2", "3"]


def test_a_derived_event_is_no_input(tmp_path: Path) -> None:
    action = {
        "specversion": "1.0",
        "type": "faultwire.action.v1",
        "subject": "node",
        "time": "2026-03-20T22:06:00Z",
        "data": {
            "action": "drain",
            "nodes": ["n1"],
            "reason": "",
            "because": [],
            "guards": [],
            "dry_run": False,
            "expires": "2026-03-20T22:06:00Z",
        },
    }
    write(tmp_path, {"nodes/n1/events.jsonl": jsonl(action)})
    capture = load(tmp_path)
    assert capture.records == []
    assert "derived" in capture.problems[0]


def test_a_link_that_leads_outside_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    capture = write(tmp_path / "capture", {"jobs.jsonl": jsonl(JOB), "nodes/n1/note": ""})
    (capture / "nodes/n1/kernel.log").symlink_to(tmp_path / "secret")
    with pytest.raises(CaptureError, match="outside"):
        load(capture)


def test_a_folder_that_is_no_capture_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="not a capture"):
        load(tmp_path)
    with pytest.raises(CaptureError, match="no such directory"):
        load(tmp_path / "missing")
