"""What goes wrong on the way stands in the result, and takes nothing else with it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from controllers.webhook import SIGNATURE_HEADER, is_signed
from correlator.service.app import create_app
from correlator.service.postmortem import Analyse, Attributors
from correlator.service.settings import ServiceSettings
from correlator.service.store import Store
from faultwire.blueprint import gather as gathering
from faultwire.blueprint.report import Outcome
from faultwire.blueprint.run import Request, attribute, exit_code
from faultwire.blueprint.service import Refused, submit
from faultwire.blueprint.settings import Service, read
from faultwire.blueprint.sinks import key_of
from faultwire.config import load as configuration
from faultwire.postmortem import analyse
from tests import loki
from tests.captures.scenarios import SCENARIOS
from tests.faultwire.blueprint.builders import blueprint, loki_streams
from tests.loki import Handler, Loki
from topics.events import decode
from topics.time import parse_rfc3339

NAME = "xid48-double-bit"


@dataclass(frozen=True)
class Site:
    capture: Path
    store: Loki
    job: str

    def document(self, **more: Any) -> dict[str, Any]:
        return blueprint(self.capture, self.store.url, None, **more)

    async def run(self, document: dict[str, Any] | None = None, **request: Any) -> Outcome:
        settings = configuration(None, {"kafka.bootstrap": "127.0.0.1:9"}, environ={}).settings
        told = read(document or self.document(), "test", Path("/"))
        return await attribute(told, settings, Request(self.job, **request))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    capture, label = SCENARIOS[NAME].build()
    folder = tmp_path_factory.mktemp("incident") / NAME
    return capture.write(folder, label)


@pytest.fixture
def site(built: Path) -> Iterator[Site]:
    label = json.loads((built / "expected.json").read_text("utf-8"))
    with loki.running(Loki()) as store:
        store.push(loki_streams(built))
        yield Site(built, store, str(label["job_id"]))


def kernel_only(handler: Handler, path: str, asked: dict[str, str]) -> bool:
    """A store that can't answer for kernel logs."""
    if "journal" in asked.get("query", ""):
        handler.say(500, b"index gateway is down")
        return True
    return False


async def test_logs_alone_give_the_verdict_and_say_what_nobody_saw(site: Site) -> None:
    outcome = await site.run()
    assert outcome.verdict is not None
    assert (outcome.verdict.domain, outcome.verdict.subdomain) == ("hardware", "accelerator_memory")
    assert {c.collector for c in outcome.verdict.coverage} == {"agent"}
    assert outcome.whole
    assert exit_code(outcome) == 1


async def test_a_connector_that_fails_is_told_and_the_others_go_on(site: Site) -> None:
    site.store.fault = kernel_only
    outcome = await site.run()
    kernel, output = outcome.connectors
    assert (kernel.status, output.status) == ("failed", "ok")
    assert "index gateway is down" in str(kernel.reason)
    assert output.kept > 0
    assert outcome.verdict is not None
    assert outcome.verdict.subdomain in ("insufficient_evidence", "accelerator_memory")
    rows = [c for c in outcome.verdict.coverage if c.collector == "kmsg"]
    assert {c.status for c in rows} == {"failed"}
    assert len(rows) == 8
    assert not outcome.whole


async def test_a_store_that_goes_away_midway_leaves_a_gap_in_the_result(site: Site) -> None:
    document = site.document()
    for collect in document["collect"]:
        collect["slice_s"] = 60
    died = 0

    def fault(handler: Handler, path: str, asked: dict[str, str]) -> bool:
        nonlocal died
        died += 1
        if died < 72:
            return False
        handler.say(503, b"shutting down")
        return True

    site.store.fault = fault
    outcome = await site.run(document)
    statuses = [c.status for c in outcome.connectors]
    assert statuses == ["degraded", "degraded"]
    told = json.loads(json.dumps(outcome.to_json()))["connectors"][0]
    assert told["gaps"]
    assert parse_rfc3339(told["gaps"][-1]["to"]) == parse_rfc3339(told["spans"][-1]["to"])
    assert told["retries"] > 0


async def test_an_error_of_our_own_in_one_connector_is_told_too(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Any, *_: Any) -> None:
        raise RuntimeError("a bug")

    document = site.document()
    document["collect"].append({"kind": "files", "name": "broken", "content": "workload", "files": ["/x"]})
    monkeypatch.setattr("faultwire.blueprint.connectors.FilesConnector.collect", broken)
    outcome = await site.run(document)
    assert [(c.name, c.status) for c in outcome.connectors] == [
        ("kernel", "ok"), ("output", "ok"), ("broken", "failed"),
    ]  # fmt: skip
    assert outcome.connectors[2].reason == "RuntimeError: a bug"
    assert outcome.verdict is not None


async def test_a_query_that_can_not_be_filled_in_fails_its_connector_only(site: Site) -> None:
    document = site.document()
    document["collect"][0]["query"] = "{node=${nodes}}"
    outcome = await site.run(document)
    assert outcome.connectors[0].status == "failed"
    assert "double quotes" in str(outcome.connectors[0].reason)
    assert outcome.connectors[1].status == "ok"


async def test_enormous_logs_stop_at_the_bounds_and_what_was_read_counts(site: Site) -> None:
    document = site.document()
    document["collect"][1]["bounds"] = {"max_lines": 30}
    document["collect"][1]["limit"] = 10
    outcome = await site.run(document)
    output = outcome.connectors[1]
    assert output.status == "degraded"
    assert "max_lines" in str(output.reason)
    assert 0 < output.lines < 60
    assert outcome.verdict is not None


async def test_a_node_whose_kernel_log_is_not_kept_is_not_called_clean(site: Site) -> None:
    for key in [k for k in site.store.streams if ("job", "journal") in k and ("node", "node-02") in k]:
        del site.store.streams[key]
    outcome = await site.run()
    assert outcome.connectors[0].silent == ["node-02"]
    assert outcome.verdict is not None
    told = [c for c in outcome.verdict.coverage if c.node == "node-02" and c.collector == "kmsg"]
    assert [c.status for c in told] == ["absent"]


async def test_a_node_whose_kernel_was_quiet_but_kept_is_told_apart(site: Site) -> None:
    for key, values in site.store.streams.items():
        if ("job", "journal") in key and ("node", "node-02") in key:
            values[:] = [(values[-1][0] - 7200 * 10**9, "usb 1-1: new device")]
    outcome = await site.run()
    assert outcome.verdict is not None
    told = [c for c in outcome.verdict.coverage if c.node == "node-02" and c.collector == "kmsg"]
    assert [c.status for c in told] == ["degraded"]


async def test_clocks_that_are_a_little_apart_do_not_change_the_verdict(site: Site) -> None:
    """Shippers stamp with their node's clock; here each node's is off by up to 300 ms."""
    for key, values in site.store.streams.items():
        node = next(v for k, v in key if k == "node")
        shift = (int(node[-2:]) * 211 % 7 - 3) * 100_000_000
        values[:] = [(at + shift, text) for at, text in values]
    outcome = await site.run()
    assert outcome.verdict is not None
    assert (outcome.verdict.domain, outcome.verdict.subdomain) == ("hardware", "accelerator_memory")


async def test_an_hour_of_wrong_time_zone_gives_no_firm_verdict(site: Site) -> None:
    for key, values in site.store.streams.items():
        if ("job", "journal") in key:
            values[:] = [(at + 2 * 3600 * 10**9, text) for at, text in values]
    outcome = await site.run()
    assert outcome.verdict is not None
    assert outcome.verdict.subdomain in ("insufficient_evidence", "ambiguous")
    assert exit_code(outcome) == 3


async def test_hostile_labels_and_lines_come_through_as_text(site: Site) -> None:
    evil = 'x"} |~ ".*\n\x1b[2J[bold]\u202e'
    site.store.push([({"job": "slurm", "slurm_job": site.job, "node": evil, "rank": "9" * 40}, [(1, "x")])])
    at = next(iter(site.store.streams.values()))[-1][0]
    text = f"[rank0]: ValueError: {evil}"
    site.store.push([({"job": "slurm", "slurm_job": site.job, "node": evil}, [(at, text)])])
    outcome = await site.run()
    assert outcome.verdict is not None
    assert outcome.verdict.subdomain == "accelerator_memory"
    assert any("name none of the attempt's nodes" in p for p in outcome.connectors[1].problems)


async def test_a_job_that_nobody_knows_is_no_verdict_and_still_a_result(site: Site, tmp_path: Path) -> None:
    document = site.document(sink=[{"kind": "jsonl", "file": str(tmp_path / "out.jsonl")}])
    told = read(document, "test", Path("/"))
    outcome = await attribute(told, configuration(None, environ={}).settings, Request("4711"))
    assert outcome.verdict is None
    assert "4711 is not known" in outcome.problems[0]
    assert exit_code(outcome) == 3
    assert json.loads((tmp_path / "out.jsonl").read_text("utf-8"))["verdict"] is None


# -- other ways to the same verdict ------------------------------------------------------------------------


async def test_local_files_also_compressed_give_the_same_verdict(site: Site, tmp_path: Path) -> None:
    (tmp_path / "jobs" / site.job).mkdir(parents=True)
    for path in (site.capture / "jobs").glob("*/*.log"):
        (tmp_path / "jobs" / site.job / "output.log.gz").write_bytes(gzip.compress(path.read_bytes()))
    nodes = f"{site.capture}/nodes/*/kernel.log"
    rules = {"line": r"(?P<node>\S+) (\[rank=(?P<rank>\d+)\] )?"}
    document = site.document()
    document["collect"] = [
        {"kind": "files", "content": "workload", "files": [f"{tmp_path}/jobs/${{job}}/*"], "rules": rules},
        {
            "kind": "files",
            "content": "kernel",
            "files": [nodes],
            "rules": {"name": r"nodes/(?P<node>[^/]+)/"},
        },
    ]
    outcome = await site.run(document)
    other = await site.run()
    assert outcome.verdict is not None
    assert other.verdict is not None
    same = ("domain", "subdomain", "culprits", "terminal_state", "onset")
    assert [getattr(outcome.verdict, n) for n in same] == [getattr(other.verdict, n) for n in same]
    assert outcome.whole


async def test_an_export_of_loki_gives_the_same_kernel_records(site: Site, tmp_path: Path) -> None:
    with (tmp_path / "kernel.ndjson").open("w", encoding="utf-8") as file:
        for labels, values in loki_streams(site.capture):
            if labels["job"] == "journal":
                rows = [[str(at), text] for at, text in values]
                file.write(json.dumps({"stream": labels, "values": rows}) + "\n")
    document = site.document()
    document["collect"][0] = {"kind": "files", "content": "kernel", "files": [f"{tmp_path}/*.ndjson"]}
    outcome, other = await site.run(document), await site.run()
    assert outcome.verdict == other.verdict


async def test_files_that_can_not_be_used_are_told(site: Site, tmp_path: Path) -> None:
    (tmp_path / "node-01.log").write_text("3,1,5,-;NVRM: Xid (PCI:0000:52:00): 79, x\n", "utf-8")
    (tmp_path / "who.log").write_text("x\n", "utf-8")
    document = site.document()
    rules = {"name": r"(?P<node>node-\d+)"}
    document["collect"] += [
        {"kind": "files", "content": "kernel", "files": [f"{tmp_path}/*.log"], "rules": rules},
        {"kind": "files", "content": "workload", "files": [f"{tmp_path}/${{job}}/*"]},
    ]
    outcome = await site.run(document)
    kernel, output = outcome.connectors[2:]
    assert [c.status for c in outcome.connectors] == ["ok", "ok", "absent", "absent"]
    assert any("boot time is needed" in p for p in kernel.problems)
    assert any("who.log: nothing tells which" in p for p in kernel.problems)
    assert output.problems == [f"no file fits {tmp_path}/{site.job}/*"]


async def test_the_raw_events_can_be_kept(site: Site, tmp_path: Path) -> None:
    outcome = await site.run(events_to=tmp_path / "events.jsonl")
    events = [decode(line) for line in (tmp_path / "events.jsonl").read_bytes().splitlines()]
    assert sum(outcome.events.values()) == len(events) > 10
    assert {e.provenance for e in events} == {"replay"}


async def test_progress_is_told(built: Path, site: Site) -> None:
    told: list[tuple[str, float]] = []
    settings = configuration(None, environ={}).settings
    document = site.document()
    document["collect"][0]["slice_s"] = 60
    await attribute(
        read(document, "test", Path("/")),
        settings,
        Request(site.job),
        lambda name, share, _: told.append((name, share)),
    )
    shares = [share for name, share in told if name == "kernel"]
    assert shares == sorted(shares)
    assert len(shares) > 10
    assert shares[-1] == 1.0


async def test_a_connector_that_hangs_is_ended_by_its_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "GRACE_S", 0.2)

    def fault(handler: Handler, path: str, asked: dict[str, str]) -> bool:
        return False

    site.store.fault = fault
    document = site.document()
    document["collect"][0]["bounds"] = {"max_seconds": 0.001}
    outcome = await site.run(document)
    assert outcome.connectors[0].status in ("failed", "degraded")
    assert "max_seconds" in str(outcome.connectors[0].reason)
    assert outcome.connectors[1].status == "ok"


# -- the service ---------------------------------------------------------------------------------------------


async def here(analysis: Analyse, folder: str) -> dict[str, Any]:
    return analysis(folder)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[httpx.ASGITransport]:
    store = Store(tmp_path / "service.db")
    attributors = Attributors(ServiceSettings(), analyse, run=here)
    yield httpx.ASGITransport(app=create_app(store, attributors=attributors), client=("127.0.0.1", 1))
    attributors.close()
    store.close()


async def test_the_service_gives_the_verdict_that_this_process_gives(
    site: Site, service: httpx.ASGITransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def through(settings: Service, context: Any, events: Any) -> Any:
        return await submit(settings, context, events, service)

    monkeypatch.setattr("faultwire.blueprint.run.submit", through)
    local = await site.run()
    remote = await site.run(site.document(service={"store": {"url": "http://127.0.0.1:8090"}}))
    assert remote.by == "http://127.0.0.1:8090"
    assert remote.verdict is not None
    assert local.verdict is not None
    other = {"input_hash": local.verdict.input_hash}  # job records were told under other ids
    assert remote.verdict.model_copy(update=other) == local.verdict
    assert [d.ok for d in remote.submissions] == [True, True]
    assert exit_code(remote) == 1


async def test_submissions_that_fail_stand_in_the_result(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/observations"):
            return httpx.Response(507, text="no space left")
        if request.method == "POST":
            return httpx.Response(201, json={"id": "a1"})
        return httpx.Response(200, json={"attribution": None, "problems": []})

    async def through(settings: Service, context: Any, events: Any) -> Any:
        return await submit(settings, context, events, httpx.MockTransport(answer))

    monkeypatch.setattr("faultwire.blueprint.run.submit", through)
    outcome = await site.run(site.document(service={"store": {"url": "http://service", "backoff_s": 0}}))
    assert outcome.verdict is None
    assert [d.ok for d in outcome.submissions] == [True, False]
    assert "507" in outcome.submissions[1].detail
    assert exit_code(outcome) == 3


async def test_a_service_that_takes_less_at_once_gets_smaller_pieces(site: Site) -> None:
    sizes: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/observations"):
            body = json.loads(request.content)["body"]
            if len(body) > 20:
                return httpx.Response(413, text="too large")
            sizes.append(len(body))
        return httpx.Response(201, json={"id": "a1", "attribution": None})

    context = await _context(site)
    events = _events(site)
    settings = Service.model_validate({"store": {"url": "http://service", "backoff_s": 0}})
    with pytest.raises(Refused) as refused:
        await submit(settings, context, events, httpx.MockTransport(answer))
    assert sum(sizes) == len(events) > 20
    assert all(d.ok for d in refused.value.deliveries)


# -- sinks ------------------------------------------------------------------------------------------------


async def test_each_sink_gets_the_result_and_one_that_fails_is_told(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faultwire.blueprint.sinks.KAFKA_S", 0.5)
    secret = tmp_path / "secret"
    secret.write_text("shh", "utf-8")
    got: list[tuple[str, bytes, str]] = []

    class Receiver(Handler):
        def do_POST(self) -> None:  # noqa: N802  as http.server calls it
            body = self.rfile.read(int(self.headers["content-length"]))
            got.append((self.headers[SIGNATURE_HEADER], body, self.headers["idempotency-key"]))
            self.say(503 if len(got) == 1 else 200, b"")

    with loki.running(Loki(), Receiver) as receiver:
        sinks = [
            {"kind": "jsonl", "file": str(tmp_path / "out.jsonl")},
            {"kind": "webhook", "url": f"{receiver.url}/hook", "secret_file": str(secret)},
            {"kind": "jsonl", "file": str(tmp_path / "none" / "out.jsonl")},
            {"kind": "kafka"},
            {"kind": "webhook", "url": f"{receiver.url}/hook", "secret_file": str(tmp_path / "nowhere")},
        ]
        outcome = await site.run(site.document(sink=sinks))
    assert [d.ok for d in outcome.sinks] == [True, True, False, False, False]
    written = json.loads((tmp_path / "out.jsonl").read_text("utf-8"))
    assert written["verdict"]["subdomain"] == "accelerator_memory"
    assert len(got) == 2
    header, body, key = got[1]
    stamp = float(header.partition(",")[0].removeprefix("t="))
    assert is_signed(b"shh", header, body, stamp)
    assert key == key_of(outcome)
    assert json.loads(body) == written
    assert exit_code(outcome) == 3


async def _context(site: Site) -> Any:
    from faultwire.blueprint.context import discover

    settings = configuration(None, environ={}).settings
    told = read(site.document(), "test", Path("/"))
    return await discover(told.context, "c1", settings.kafka, site.job, None, {}, 2 * 10**18)


def _events(site: Site) -> list[Any]:
    from faultwire.capture import load

    return [r.event for r in load(site.capture).records if r.event.kind not in ("job", "placement")][:150]
