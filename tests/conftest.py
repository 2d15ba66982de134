"""Fixtures of the whole suite: one real broker a session, a fresh topic prefix a test.

`broker` is the bootstrap address; `topic_prefix` is unused by anybody else; `kafka` produces and reads;
`catalogue` is a prefix under which all topics of the catalogue exist (4 partitions).
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from docker.errors import DockerException
from hypothesis import settings

from faultwire.broker import docker
from faultwire.broker.cluster import Cluster, free_ports
from faultwire.broker.errors import NoBrokerError
from faultwire.logs import QUIET
from tests import loki
from tests.kafka import Kafka
from tests.kube_real import CRDS, KubeCluster, NoKubernetesError, kube_cluster
from tests.loki_real import NoLokiError, RealLoki, real_loki
from tests.slurm import NoSlurmError, SlurmCluster

settings.register_profile("faultwire", deadline=None)  # a busy machine is no counterexample
settings.load_profile("faultwire")


ONE_OF_A_KIND = ("slurm", "kubernetes")
"""Fixtures that are one whole cluster each: what uses one runs in one process."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for the broker, for Slurm or for Kubernetes, carries the marker; a file is not divided
    between the processes of a parallel run."""
    for item in items:
        asked = set(getattr(item, "fixturenames", ()))
        for name in asked.intersection(("broker", *ONE_OF_A_KIND)):
            item.add_marker(name)
        group = next((name for name in ONE_OF_A_KIND if name in asked), item.nodeid.partition("::")[0])
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """FAULTWIRE_BOOTSTRAP, else a container where a Docker engine answers, else a JVM."""
    existing = os.environ.get("FAULTWIRE_BOOTSTRAP")
    if existing:
        yield existing
        return
    with ExitStack() as stack:
        yield _container_or_jvm(stack, tmp_path_factory)


def _container_or_jvm(stack: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> str:
    why_not_docker = "no Docker engine answers"
    if docker.engine_answers():
        try:
            return stack.enter_context(_container())
        except (DockerException, OSError, RuntimeError) as exc:
            why_not_docker = f"Docker can't run {docker.image()}: {exc}"
    try:
        cluster = Cluster(tmp_path_factory.mktemp("broker"))
    except NoBrokerError as exc:
        no_broker(f"{why_not_docker}, and {exc}")
    return stack.enter_context(cluster).bootstrap


@contextmanager
def _container() -> Iterator[str]:
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    port = free_ports(1)[0]
    wait = LogMessageWaitStrategy(docker.STARTED).with_startup_timeout(docker.READY_TIMEOUT_S)
    container = DockerContainer(docker.image()).with_envs(**docker.environment(port)).waiting_for(wait)
    container.ports[f"{port}/tcp"] = ("127.0.0.1", port)  # type: ignore[assignment]  passed on to the engine
    with container:
        yield f"127.0.0.1:{port}"


def no_broker(why: str) -> NoReturn:
    """Skip, or fail where a broker was promised (FAULTWIRE_REQUIRE_BROKER=1)."""
    if os.environ.get("FAULTWIRE_REQUIRE_BROKER") == "1":
        pytest.fail(f"FAULTWIRE_REQUIRE_BROKER=1, and there is no broker: {why}", pytrace=False)
    pytest.skip(f"no Kafka broker: {why}")


@pytest.fixture
def topic_prefix() -> str:
    return f"t{uuid.uuid4().hex[:10]}."


@pytest.fixture
def kafka(broker: str) -> Kafka:
    return Kafka(broker)


@pytest.fixture
async def catalogue(kafka: Kafka, topic_prefix: str) -> AsyncIterator[str]:
    await kafka.create_catalogue(topic_prefix)
    yield topic_prefix
    await kafka.delete_prefix(topic_prefix)


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[SlurmCluster]:
    """A real Slurm of four nodes. Skipped where it is not installed; FAULTWIRE_REQUIRE_SLURM=1: failed."""
    folder = Path(tempfile.mkdtemp(prefix="fw-slurm-", dir="/tmp"))  # munged refuses private parents
    cluster = SlurmCluster(folder)
    try:
        try:
            cluster.start()
        except NoSlurmError as exc:
            if os.environ.get("FAULTWIRE_REQUIRE_SLURM") == "1":
                pytest.fail(f"FAULTWIRE_REQUIRE_SLURM=1, and there is no Slurm: {exc}", pytrace=False)
            pytest.skip(f"no Slurm: {exc}")
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def slurm(slurm_cluster: SlurmCluster) -> SlurmCluster:
    """The cluster with an empty queue and every node in service."""
    slurm_cluster.reset()
    return slurm_cluster


@pytest.fixture(scope="session")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeCluster]:
    """A real kube-apiserver. Skipped where there is none; FAULTWIRE_REQUIRE_KUBERNETES=1: failed."""
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(kube_cluster(tmp_path_factory.mktemp("kubernetes")))
        except NoKubernetesError as exc:
            if os.environ.get("FAULTWIRE_REQUIRE_KUBERNETES") == "1":
                pytest.fail(f"FAULTWIRE_REQUIRE_KUBERNETES=1, and there is none: {exc}", pytrace=False)
            pytest.skip(f"no Kubernetes: {exc}")
        for definition in CRDS:
            cluster.define(*definition)
        yield cluster


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """The command line sets up the root logger; what a test's command set up must not outlive the test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in QUIET}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


@pytest.fixture(scope="session")
def grafana_loki(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealLoki]:
    """A real Loki. Skipped where there is none; FAULTWIRE_REQUIRE_LOKI=1: failed."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(real_loki(tmp_path_factory.mktemp("loki")))
        except NoLokiError as exc:
            if os.environ.get("FAULTWIRE_REQUIRE_LOKI") == "1":
                pytest.fail(f"FAULTWIRE_REQUIRE_LOKI=1, and there is none: {exc}", pytrace=False)
            pytest.skip(f"no Loki: {exc}")
        yield found


@pytest.fixture(scope="module", params=["stand-in", "real"])
def either_loki(request: pytest.FixtureRequest) -> Iterator[None]:
    """`tests.loki.running` gives the stand-in, then once more the real Loki behind it."""
    if request.param == "stand-in":
        yield
        return
    loki.real = request.getfixturevalue("grafana_loki")
    try:
        yield
    finally:
        loki.real = None
