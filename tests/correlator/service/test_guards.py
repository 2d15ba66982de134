"""Who may ask what, how much of it, and that nobody can make the service act or fall."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import orjson
import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import correlator.service
from correlator.service.app import InsecureError, create_app
from correlator.service.auth import COOKIE, TokenError, load_tokens
from correlator.service.limits import Buckets
from correlator.service.postmortem import Attributors
from correlator.service.settings import ServiceSettings
from correlator.service.store import Store
from tests.correlator.service.builders import (
    JOB,
    OPERATOR,
    READER,
    SUBMITTER,
    TOKENS,
    app_of,
    bearer,
    client,
    generous,
    job,
    verdict,
)

CONTEXT = {
    "job_id": JOB,
    "jobs": [
        {"job_id": JOB, "attempt": 1, "scheduler": "slurm", "state": "RUNNING", "nodes": ["node-1"],
         "time": "2026-01-01T00:00:00Z"},
    ],
}  # fmt: skip


def nothing(_folder: str) -> dict[str, Any]:
    return {"revisions": [], "observations": {}, "events": {}, "problems": []}


async def here(analyse: Any, folder: str) -> dict[str, Any]:
    found: dict[str, Any] = await asyncio.to_thread(analyse, folder)
    return found


@pytest.fixture
async def guarded(store: Store) -> AsyncIterator[httpx.AsyncClient]:
    attributors = Attributors(generous(), nothing, run=here)
    async with client(app_of(store, tokens=TOKENS, attributors=attributors)) as asking:
        yield asking
    attributors.close()


@pytest.fixture
def open_app(store: Store) -> Iterator[FastAPI]:
    """Without tokens, with something to read."""
    store.ingest([job(), verdict(10)])
    attributors = Attributors(generous(), nothing, run=here)
    yield app_of(store, attributors=attributors)
    attributors.close()


ROUTES = [
    ("GET", "/v1/overview", "read"), ("GET", "/v1/jobs", "read"), ("GET", "/v1/attributions", "read"),
    ("GET", "/v1/coverage", "read"), ("GET", "/v1/offenders", "read"), ("GET", "/v1/actions", "read"),
    ("GET", "/v1/nodes/n", "read"), ("GET", "/v1/events/e", "read"), ("GET", "/v1/jobs/j/attempts/1", "read"),
    ("GET", "/v1/jobs/j/attempts/1/attribution", "read"), ("GET", "/v1/jobs/j/attempts/1/timeline", "read"),
    ("GET", "/v1/stream?topics=none", "read"), ("POST", "/v1/attribution", "read"),
    ("GET", "/v1/store", "read"),
    ("POST", "/v1/attributors", "submit"), ("POST", "/v1/attributors/x/observations", "submit"),
    ("GET", "/v1/attributors/x/attribution", "submit"), ("DELETE", "/v1/attributors/x", "submit"),
    ("POST", "/latest/attributor", "submit"), ("POST", "/attributor/x/observation", "submit"),
    ("GET", "/attributor/x/attribution", "submit"), ("POST", "/v1/store/rebuild", "operate"),
]  # fmt: skip
HOLDERS = {"read": READER, "submit": SUBMITTER, "operate": OPERATOR}


@pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
async def test_every_route_wants_its_scope(
    guarded: httpx.AsyncClient, method: str, path: str, scope: str
) -> None:
    assert (await guarded.request(method, path)).status_code == 401
    assert (await guarded.request(method, path, headers=bearer("wrong-wrong-wrong"))).status_code == 401
    for held, token in HOLDERS.items():
        status = (await guarded.request(method, path, headers=bearer(token))).status_code
        allowed = held in (scope, "operate")  # the operator's token has all three
        assert (status not in (401, 403)) == allowed, (held, status)


def test_no_route_is_forgotten_here(store: Store) -> None:
    told = app_of(store, tokens=TOKENS).openapi()["paths"]
    listed = {(method, path.partition("?")[0].count("/")) for method, path, _ in ROUTES}
    for path, methods in told.items():
        if path not in ("/healthz", "/readyz"):
            for method in methods:
                assert (method.upper(), path.count("/")) in listed, f"{method} {path}"
                assert methods[method].get("security"), f"{method} {path} is open to everybody"


async def test_probes_and_metrics_are_open(guarded: httpx.AsyncClient) -> None:
    assert [(await guarded.get(path)).status_code for path in ("/healthz", "/readyz", "/metrics")] == [
        200
    ] * 3


async def test_a_cookie_reads_and_does_nothing_else(guarded: httpx.AsyncClient) -> None:
    cookie = {"Cookie": f"{COOKIE}={OPERATOR}"}
    assert (await guarded.get("/v1/overview", headers=cookie)).status_code == 200
    assert (await guarded.post("/v1/store/rebuild", headers=cookie)).status_code == 403


async def test_the_operator_can_have_the_store_made_anew(store: Store, guarded: httpx.AsyncClient) -> None:
    store.ingest([job()], {("raw.job", 0): 1})
    assert (await guarded.post("/v1/store/rebuild", headers=bearer(OPERATOR))).status_code == 202
    assert store.offsets() == {}
    assert (await guarded.get("/v1/jobs", headers=bearer(READER))).json()["items"] == []


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.5", "::", "gpu-head.example"])  # noqa: S104
def test_without_tokens_only_loopback_is_served(store: Store, host: str) -> None:
    with pytest.raises(InsecureError, match="tokens"):
        create_app(store, ServiceSettings(host=host))
    create_app(store, ServiceSettings(host=host), tokens=TOKENS)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.3.2.1"])
def test_loopback_needs_no_token(store: Store, host: str) -> None:
    create_app(store, ServiceSettings(host=host))


async def test_without_tokens_other_names_for_loopback_are_turned_away(store: Store) -> None:
    async with client(app_of(store)) as asking:
        turned = await asking.get("/v1/overview", headers={"Host": "rebound.example"})
        assert turned.status_code == 421
        for host in ("127.0.0.1:8090", "localhost:1", "[::1]:8090"):
            assert (await asking.get("/v1/overview", headers={"Host": host})).status_code == 200


def test_tokens_come_from_a_file_and_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text('[[token]]\nname = "ci"\nscopes = ["read", "submit"]\ntoken = "0123456789abcdef"\n')
    file.chmod(0o600)
    tokens = load_tokens(file, {"FAULTWIRE_TOKENS": "ops:read+operate:fedcba9876543210"})
    found = tokens.caller("0123456789abcdef"), tokens.caller("fedcba9876543210")
    assert [(c.name, sorted(c.scopes)) for c in found if c] == [
        ("ci", ["read", "submit"]), ("ops", ["operate", "read"]),
    ]  # fmt: skip
    assert tokens.caller("else-else-else-else") is None


@pytest.mark.parametrize(
    "text",
    [
        "", "token = 3", "[[token]]\n", '[[token]]\nname="a"\nscopes=[]\ntoken="0123456789abcdef"',
        '[[token]]\nname="a"\nscopes=["root"]\ntoken="0123456789abcdef"',
        '[[token]]\nname="a"\nscopes=["read"]\ntoken="secret-but-bad"',
        '[[token]]\nname="a"\nscopes=["read"]\nsha256="zz"',
        '[[token]]\nname="a"\nscopes=["read"]\nscope="x"',
        "not toml",
    ],
)  # fmt: skip
def test_tokens_that_can_not_be_used_are_refused_without_being_shown(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(TokenError) as caught:
        load_tokens(file, {})
    assert "secret-but-bad" not in str(caught.value)


def test_a_token_file_that_everybody_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text('[[token]]\nname = "ci"\nscopes = ["read"]\ntoken = "0123456789abcdef"\n')
    file.chmod(0o644)
    with pytest.raises(TokenError, match="chmod"):
        load_tokens(file, {})


def test_a_client_has_a_burst_and_then_its_rate() -> None:
    buckets = Buckets(rate_per_s=2.0, burst=3)
    assert [buckets.take("a", 0.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert buckets.take("b", 0.0) == 0.0, "others are not held up"
    assert buckets.take("a", 0.5) == 0.0
    assert buckets.take("a", 0.5) > 0


async def test_too_many_requests_are_told_when_to_come_back(store: Store) -> None:
    settings = ServiceSettings(rate_per_s=0.001, burst=2)
    async with client(app_of(store, settings=settings)) as asking:
        replies = [await asking.get("/v1/jobs") for _ in range(3)]
        assert [r.status_code for r in replies] == [200, 200, 429]
        assert int(replies[2].headers["retry-after"]) >= 1
        assert (await asking.get("/healthz")).status_code == 200, "probes have no limit"


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_is_refused_while_it_grows(store: Store, announced: bool) -> None:
    settings = generous(max_body=2048)
    attributors = Attributors(settings, nothing, run=here)
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(1000):
            read += 1024
            yield b"x" * 1024

    async with client(app_of(store, settings=settings, attributors=attributors)) as asking:
        content: Any = b"x" * 4096 if announced else endless()
        reply = await asking.post("/v1/attributors", content=content)
    assert reply.status_code == 413
    assert read <= 8 * 1024
    attributors.close()


async def test_a_reply_that_takes_too_long_is_given_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    release = asyncio.Event()
    app = app_of(store, settings=generous(request_timeout_s=0.05))

    async def stuck() -> None:
        await release.wait()

    app.add_api_route("/stuck", stuck)
    async with client(app) as asking:
        reply = await asking.get("/stuck")
    assert (reply.status_code, reply.headers["content-type"]) == (503, "application/problem+json")
    release.set()


async def test_a_bug_is_told_without_its_insides(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_args: Any, **_more: Any) -> None:
        raise ZeroDivisionError("secret of the inside")

    monkeypatch.setattr("correlator.service.routes.reading.jobs.jobs", breaks)
    async with client(app_of(store)) as asking:
        reply = await asking.get("/v1/jobs")
    assert reply.status_code == 500
    assert reply.headers["content-type"] == "application/problem+json"
    assert "secret" not in reply.text


def test_the_service_has_nothing_to_write_to_kafka_with() -> None:
    """Read from its source: no producer, and of Kafka's administration only the name of the cluster."""
    root = Path(correlator.service.__file__).parent
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            name = (
                node.id
                if isinstance(node, ast.Name)
                else node.attr
                if isinstance(node, ast.Attribute)
                else ""
            )
            assert name not in {"AIOKafkaProducer", "create_topics", "send_and_wait"}, f"{file}: {name}"
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aiokafka"):
                assert {a.name for a in node.names} <= {
                    "AIOKafkaConsumer", "AIOKafkaAdminClient", "ConsumerRecord", "TopicPartition",
                    "KafkaError",
                }  # fmt: skip


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        name: JSON | st.sampled_from(["../../etc/passwd", "\x00", "events", "loki", "kernel", "a" * 2000])
        for name in (
            "context", "job_id", "attempt", "jobs", "inventory", "cluster", "body", "format", "node", "name",
            "workload", "workload_id", "phase", "timeout_ms", "boot_time", "start", "source", "content",
        )
    },
)  # fmt: skip
SUBMISSIONS = (
    "/v1/attributors", "/v1/attributors/{id}/observations", "/v1/attribution", "/latest/attributor",
    "/attributor/{id}/observation",
)  # fmt: skip


BODIES = st.binary(max_size=200) | FIELDS.map(lambda fields: orjson.dumps(_finite(fields)))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=BODIES, place=st.sampled_from(SUBMISSIONS))
async def test_whatever_is_submitted_gets_an_answer_and_changes_nothing_that_is_read(
    store: Store, open_app: FastAPI, body: bytes, place: str
) -> None:
    before = store.version, store.last_seq
    async with client(open_app) as asking:
        made = (await asking.post("/v1/attributors", json=CONTEXT)).json()
        reply = await asking.post(
            place.replace("{id}", made["id"]), content=body, headers={"Content-Type": "application/json"}
        )
    assert reply.status_code < 500, reply.text
    if reply.status_code >= 400:
        assert reply.headers["content-type"] == "application/problem+json"
    assert (store.version, store.last_seq) == before


def _finite(value: Any) -> Any:
    """JSON has no huge integers for our writer, and no lone surrogates."""
    if isinstance(value, dict):
        return {_finite(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-(2**63), min(value, 2**63 - 1))
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
    | st.sampled_from(["..", "%00", "a'--", '" OR 1=1', "%2e%2e%2f"]),
    cursor=st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)
async def test_whatever_is_asked_gets_an_answer(open_app: FastAPI, name: str, cursor: str) -> None:
    async with client(open_app) as asking:
        for path in ("/v1/nodes/", "/v1/events/", "/v1/jobs/"):
            assert (await asking.get(path + quote(name, safe=""))).status_code < 500
        for path in ("/v1/jobs", "/v1/attributions", "/v1/actions"):
            params = {"cursor": cursor, "since": name, "node": name, "outcome": name, "state": name}
            assert (await asking.get(path, params=params)).status_code < 500
