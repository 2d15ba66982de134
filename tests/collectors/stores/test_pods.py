"""Logs of pods over the Kubernetes API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes import client as kube

from collectors.stores.bounds import Bounds, Meter, StoreError
from collectors.stores.pods import PodFetch, Stream, read_lines, streams
from tests.collectors.stores.builders import at, span
from tests.loki import Handler, Loki, running
from topics.kube import parse_job_id

JOB = parse_job_id("ml:jobset:train")
assert JOB is not None


def pod(name: str, node: str | None, restarts: int = 0) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ml", "labels": {"jobset.sigs.k8s.io/jobset-name": "train"}},
        "spec": {"nodeName": node, "containers": [{"name": "main"}]},
        "status": {
            "containerStatuses": [
                {"name": "main", "restartCount": restarts, "ready": True, "image": "i", "imageID": "i"}
            ]
        },
    }


PODS = [pod("a-0", "node-01", 1), pod("a-1", "node-02"), pod("a-2", None)]
LOGS = {
    ("a-0", "false"): b"2026-05-04T08:00:01.5Z second life\n",
    ("a-0", "true"): b"2026-05-04T08:00:00.25Z first life\nno time\n",
    ("a-1", "false"): b"2026-05-04T08:00:02Z hello\n2026-05-04T09:00:02Z too late\n",
}


class Api(Handler):
    """Lists the pods and gives their logs; one pod's log can't be had."""

    broken = ""

    def do_GET(self) -> None:  # noqa: N802  as http.server calls it
        parts = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path.endswith("/pods"):
            pods = PODS if asked["labelSelector"] == "jobset.sigs.k8s.io/jobset-name=train" else []
            self.say_json({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods})
            return
        name = parts.path.split("/")[-2]
        if name == self.broken or asked["timestamps"] != "true":
            self.say(500, b'{"message":"kubelet is away"}', "application/json")
        else:
            self.say(200, LOGS[name, asked["previous"]])


@pytest.fixture
def api() -> Iterator[kube.ApiClient]:
    with running(Loki(), Api) as server:
        settings = kube.Configuration(host=server.url)
        settings.retries = False
        made = kube.ApiClient(settings)
        yield made
        made.rest_client.pool_manager.clear()


def fetch(api: kube.ApiClient, bounds: Bounds | None = None) -> PodFetch:
    assert JOB is not None
    return PodFetch(api, JOB, Meter(bounds or Bounds()))


def test_a_restarted_container_has_two_logs_and_a_pod_without_a_node_none() -> None:
    assert [s.name for s in streams(PODS)] == ["a-0/main (previous)", "a-0/main", "a-1/main"]
    assert streams(PODS)[0].labels["node"] == "node-01"


async def test_every_log_of_the_job_is_read_with_its_node_and_times(api: kube.ApiClient) -> None:
    one = fetch(api)
    found = [e for s in streams(await one.pods()) for e in await one.read(s, span(-100, 100))]
    assert [(e.time, e.labels["node"], e.text) for e in found] == [
        (at(0.25), "node-01", "first life"), (at(1.5), "node-01", "second life"), (at(2), "node-02", "hello"),
    ]  # fmt: skip
    assert one.meter.requests == 4


async def test_a_log_that_can_not_be_had_is_told(
    api: kube.ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Api, "broken", "a-1")
    one = fetch(api)
    with pytest.raises(StoreError, match="a-1/main: 500"):
        await one.read(Stream("a-1", "main", False, {}), span(-100, 100))


async def test_an_api_that_is_away_is_told() -> None:
    settings = kube.Configuration(host="http://127.0.0.1:9")
    settings.retries = False
    with pytest.raises(StoreError, match="ml:jobset:train"):
        await fetch(kube.ApiClient(settings)).pods()


def test_lines_without_a_time_are_left_out_and_long_ones_cut() -> None:
    body = b"2026-05-04T08:00:01Z " + b"x" * 500 + b"\n\xff\xfe\n\n"
    assert [len(e.text) for e in read_lines(body, {}, 100)] == [100]
