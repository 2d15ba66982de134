"""Which way to a broker is taken, and what is said when there is none: with programs that only pretend."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from faultwire.broker import docker, ensure, jars, java
from faultwire.broker.cluster import free_ports
from faultwire.broker.errors import BrokerError, NoBrokerError
from faultwire.broker.settings import server_properties

ROOT = Path(__file__).parents[2]

DOCKER = """#!/bin/sh
echo "$@" >> {folder}/calls
case "$1" in
version) echo 28.0 ;;
run) [ -e {folder}/no-image ] && {{ echo "pull access denied" >&2; exit 125; }}; echo id ;;
logs) [ -e {folder}/dies ] && echo "FATAL no space" || echo "[nodeId=1] Kafka Server started" ;;
inspect) [ -e {folder}/dies ] && echo false || echo true ;;
esac
"""

MAVEN = """#!/bin/sh
echo call >> {folder}/calls
[ -e {folder}/offline ] && {{ echo "[ERROR] Could not transfer artifact kafka_2.13"; exit 1; }}
for argument in "$@"; do
  case "$argument" in -DoutputDirectory=*) out="${{argument#-DoutputDirectory=}}" ;; esac
done
mkdir -p "$out" && sleep 0.2 && : > "$out/kafka_2.13-4.3.0.jar"
"""

JAVA = """#!/bin/sh
echo 'openjdk version "{version}" 2025-01-01' >&2
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH besides the system's own, an empty cache, and no broker named."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("sh", "mkdir", "sleep"):
        (folder / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("FAULTWIRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FAULTWIRE_BOOTSTRAP", raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return folder


def pretend(folder: Path, name: str, script: str, **values: str) -> None:
    path = folder / name
    path.write_text(script.format(folder=folder, **values), "utf-8")
    path.chmod(0o755)


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text("utf-8").splitlines()


def test_without_any_way_one_sentence_says_what_to_install(tools: Path) -> None:
    with pytest.raises(NoBrokerError) as told:
        ensure()
    message = str(told.value)
    assert message.startswith(
        "No Kafka broker can be had: FAULTWIRE_BOOTSTRAP is not set, no Docker engine answers"
    )
    assert "apt-get install openjdk-17-jre-headless maven" in message
    assert "\n" not in message


def test_without_maven_the_sentence_says_so(tools: Path) -> None:
    pretend(tools, "java", JAVA, version="17.0.15")
    with pytest.raises(NoBrokerError, match="Maven, which fetches the Kafka broker, was not found"):
        ensure()


def test_an_existing_broker_comes_first_and_is_not_ours_to_stop(
    tools: Path, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tools, "docker", DOCKER)
    monkeypatch.setenv("FAULTWIRE_BOOTSTRAP", broker)
    running = ensure()
    running.stop()
    assert (running.way, running.bootstrap) == ("existing", broker)
    assert not (tools / "calls").exists()


@pytest.mark.parametrize("address", ["localhost", "host:port", ":9092", "127.0.0.1:1,"])
def test_an_address_that_is_none_is_told(tools: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("FAULTWIRE_BOOTSTRAP", address)
    with pytest.raises(BrokerError, match=r"is not host:port|no broker answers"):
        ensure()


def test_a_docker_engine_comes_before_java(tools: Path) -> None:
    pretend(tools, "docker", DOCKER)
    port = free_ports(1)[0]
    with ensure(port=port) as running:
        assert (running.way, running.bootstrap) == ("docker", f"127.0.0.1:{port}")
    ran = next(call for call in calls(tools) if call.startswith("run"))
    assert f"--publish 127.0.0.1:{port}:{port}" in ran
    assert f"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:{port}" in ran
    assert ran.endswith(docker.image())
    assert calls(tools)[-1].startswith("rm --force faultwire-")


def test_data_kept_in_docker_has_a_volume_named_after_its_folder(tools: Path, tmp_path: Path) -> None:
    pretend(tools, "docker", DOCKER)
    for _ in range(2):
        ensure(tmp_path / "data").stop()
    ensure(tmp_path / "other").stop()
    volumes = [call.partition("--volume ")[2].split()[0] for call in calls(tools) if call.startswith("run")]
    assert volumes[0] == volumes[1] != volumes[2]
    assert volumes[0].endswith(":/var/lib/kafka/data")


@pytest.mark.parametrize("trouble", ["no-image", "dies"])
def test_a_container_that_does_not_come_up_is_told_and_removed_before_java_is_tried(
    tools: Path, trouble: str
) -> None:
    pretend(tools, "docker", DOCKER)
    (tools / trouble).touch()
    said: list[str] = []
    with pytest.raises(NoBrokerError, match=r"pull access denied|no space"):
        ensure(say=said.append)
    assert any(line.endswith("trying a JVM instead") for line in said)
    assert calls(tools)[-1].startswith("rm --force")


def test_java_that_is_too_old_is_named(tools: Path) -> None:
    pretend(tools, "java", JAVA, version="11.0.2")
    with pytest.raises(NoBrokerError, match=r"no Java 17 or newer was found \(.*/java is Java 11\)"):
        java.find_java()


@pytest.mark.parametrize(("version", "good"), [("17.0.15", True), ("21", True), ("1.8.0_202", False)])
def test_java_versions_are_read_as_java_prints_them(tools: Path, version: str, good: bool) -> None:
    pretend(tools, "java", JAVA, version=version)
    if good:
        assert java.find_java() == tools / "java"
    else:
        with pytest.raises(NoBrokerError, match="Java 8"):
            java.find_java()


def test_the_java_of_java_home_comes_first(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    pretend(tmp_path / "jdk" / "bin", "java", JAVA, version="21")
    pretend(tools, "java", JAVA, version="17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert java.find_java() == tmp_path / "jdk" / "bin" / "java"


def test_jars_are_fetched_once(tools: Path) -> None:
    pretend(tools, "mvn", MAVEN)
    first, second = jars.ensure_jars(print), jars.ensure_jars(print)
    assert first == second == jars.jars_dir()
    assert len(calls(tools)) == 1
    assert [path.name for path in first.iterdir()] == ["kafka_2.13-4.3.0.jar"]


def test_several_who_need_the_jars_at_once_fetch_them_once(tools: Path) -> None:
    pretend(tools, "mvn", MAVEN)
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: jars.ensure_jars(lambda _: None), range(4)))
    assert found == {jars.jars_dir()}
    assert len(calls(tools)) == 1


def test_a_failed_fetch_leaves_nothing_and_says_what_maven_said(tools: Path) -> None:
    pretend(tools, "mvn", MAVEN)
    (tools / "offline").touch()
    with pytest.raises(NoBrokerError, match="Could not transfer artifact"):
        jars.ensure_jars(print)
    assert not jars.jars_dir().exists()
    (tools / "offline").unlink()
    assert jars.ensure_jars(print).is_dir()


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FAULTWIRE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert jars.cache_dir() == tmp_path / "xdg" / "faultwire"
    monkeypatch.setenv("FAULTWIRE_CACHE", str(tmp_path / "own"))
    assert jars.cache_dir() == tmp_path / "own"


def test_three_brokers_acknowledge_by_two_and_one_by_itself() -> None:
    one = server_properties(node_id=1, port=9092, voters={1: 1}, data_dir="/d")
    three = server_properties(node_id=2, port=9092, voters={1: 1, 2: 2, 3: 3}, data_dir="/d")
    assert (one["min.insync.replicas"], one["offsets.topic.replication.factor"]) == ("1", "1")
    assert (three["min.insync.replicas"], three["offsets.topic.replication.factor"]) == ("2", "3")
    assert three["controller.quorum.voters"] == "1@127.0.0.1:1,2@127.0.0.1:2,3@127.0.0.1:3"


def test_brokers_listen_on_loopback_only() -> None:
    listeners = server_properties(node_id=1, port=9092, voters={1: 9093}, data_dir="/d")["listeners"]
    assert all("://127.0.0.1:" in listener for listener in listeners.split(","))


def test_the_compose_file_has_the_image_and_settings_of_the_code() -> None:
    kafka = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]["kafka"]
    assert kafka["image"] == docker.image()
    assert kafka["environment"] == docker.environment(9092)
    assert kafka["ports"] == ["127.0.0.1:9092:9092"]
    assert kafka["volumes"] == [f"kafka-data:{docker.DATA}"]


def test_the_image_is_pinned_to_a_version() -> None:
    assert docker.image().partition(":")[2].count(".") == 2
