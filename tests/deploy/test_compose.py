"""docker-compose.yml and the image: all is there, nothing is reachable, only the collector is root."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.testing import CliRunner

from faultwire.cli import app

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: s for name, s in SERVICES.items() if s["image"].startswith("faultwire:")}
DOCKERFILE = (ROOT / "deploy/container/Dockerfile").read_text("utf-8")
PUBLISHED = re.compile(r"127\.0\.0\.1:\d+:\d+")

PIPELINE = {"kafka", "topics", "collector", "streams", "correlator", "controller", "quarantine", "service"}
WATCHED = {"prometheus", "alertmanager", "grafana"}


def test_it_has_the_shape_that_compose_reads() -> None:
    schema = json.loads((Path(__file__).parent / "compose.schema.json").read_text("utf-8"))
    problems = [
        f"{list(p.absolute_path)}: {p.message}" for p in Draft202012Validator(schema).iter_errors(COMPOSE)
    ]
    assert problems == []


def test_one_command_starts_the_pipeline_and_what_watches_it() -> None:
    started = {name for name, service in SERVICES.items() if "profiles" not in service}
    assert started == PIPELINE | WATCHED


def test_services_wait_for_what_they_need_and_no_service_waits_for_itself() -> None:
    done: set[str] = set()
    waiting = {name: set(service.get("depends_on", {})) for name, service in SERVICES.items()}
    while ready := {name for name, needs in waiting.items() if needs <= done} - done:
        done |= ready
    assert done == set(SERVICES)
    for name, service in OURS.items():
        condition = "service_healthy" if name == "topics" else "service_completed_successfully"
        assert {d["condition"] for d in service["depends_on"].values()} == {condition}, name
    assert "healthcheck" in SERVICES["kafka"]


def test_everything_listens_on_loopback_only() -> None:
    for name, service in SERVICES.items():
        assert all(PUBLISHED.fullmatch(port) for port in service.get("ports", ())), name
    asked = " ".join(word for s in SERVICES.values() for word in s.get("command", ()))
    assert "0.0.0.0" not in asked  # noqa: S104
    assert "--web.listen-address=127.0.0.1:9090" in SERVICES["prometheus"]["command"]
    assert "--web.listen-address=127.0.0.1:9093" in SERVICES["alertmanager"]["command"]
    assert "--cluster.listen-address=" in SERVICES["alertmanager"]["command"]
    assert SERVICES["grafana"]["environment"]["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"


def test_every_mounted_file_is_there_and_every_volume_is_declared() -> None:
    named = set()
    for name, service in SERVICES.items():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (ROOT / source).exists(), f"{name}: {source}"
                assert volume.endswith(":ro"), f"{name}: {volume}"
            else:
                named.add(source)
    assert named == set(COMPOSE["volumes"])


def test_images_are_pinned_to_a_version() -> None:
    for name, service in SERVICES.items():
        assert re.search(r":v?\d+\.\d+\.\d+$", service["image"]), f"{name}: {service['image']}"
    for image in re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE):
        assert re.search(r":\d+(\.\d+)?-", image), image


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_command_is_one_that_the_program_has(name: str) -> None:
    words = OURS[name]["command"]
    asked = words[: words.index("--")] if "--" in words else words
    ran = CliRunner().invoke(app, [*asked, "--help"])
    assert ran.exit_code == 0, ran.output


def test_what_is_scraped_is_what_listens() -> None:
    scraped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text("utf-8"))
    targets = {
        target.rpartition(":")[2]
        for job in scraped["scrape_configs"]
        for static in job["static_configs"]
        for target in static["targets"]
    }
    listening = set()
    for service in OURS.values():
        words = service["command"]
        for option in ("--health-port", "--metrics-port", "--port"):
            if option in words:
                listening.add(words[words.index(option) + 1])
    assert targets == listening
    assert all(job["job_name"].startswith("faultwire-") for job in scraped["scrape_configs"])


def test_every_long_running_process_has_a_health_of_its_own() -> None:
    for name, service in OURS.items():
        if service.get("healthcheck") == {"disable": True}:
            assert service["restart"] in {"on-failure", "no"}, name
            continue
        address = service["environment"]["FAULTWIRE_HEALTH"]
        port = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/(livez|healthz|metrics)", address)
        assert port is not None, address
        assert port[1] in service["command"], name


def test_only_the_collector_is_root_with_the_one_right_that_it_needs() -> None:
    assert re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE) == ["10001:10001"]
    assert {name: s["user"] for name, s in OURS.items() if "user" in s} == {"collector": "0:10001"}
    assert (
        "-o faultwire -g faultwire -m 0770 /var/lib/faultwire" in DOCKERFILE
    )  # root has no right to override
    for name, service in OURS.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"] is True, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name
        assert service.get("cap_add", []) == (["SYSLOG"] if name == "collector" else []), name


def test_nothing_acts_in_the_example() -> None:
    words = [word for service in OURS.values() for word in service["command"]]
    assert "--enable" not in words
    assert "--for-real" not in words


def test_grafana_gets_the_datasource_and_the_dashboards_that_we_draw() -> None:
    provisioning = ROOT / "deploy/grafana/provisioning"
    provider = yaml.safe_load((provisioning / "dashboards/faultwire.yml").read_text("utf-8"))
    (path,) = [p["options"]["path"] for p in provider["providers"]]
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"])
    assert mounts["./deploy/grafana/dashboards"] == path
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (ROOT / "deploy/grafana/dashboards" / Path(home).name).is_file()
    source = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text("utf-8"))
    assert [s["url"] for s in source["datasources"]] == ["http://127.0.0.1:9090"]


def test_the_image_is_made_of_what_goes_to_the_engine() -> None:
    """Each file or folder that the Dockerfile copies exists and is let through."""
    let_through = {
        line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line[:1] == "!"
    }
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        for source in line.split()[:-1]:
            name = source.rstrip("/")
            assert (ROOT / name).exists(), name
            assert any(name == allowed or name.startswith(f"{allowed}/") for allowed in let_through), name


def needed(name: str) -> set[str]:
    """A distribution and all that it needs here, by canonical name."""
    found, waiting = set(), [name]
    while waiting:
        one = canonicalize_name(waiting.pop())
        if one in found:
            continue
        found.add(one)
        asked = (Requirement(text) for text in requires(one) or ())
        waiting += [r.name for r in asked if r.marker is None or r.marker.evaluate({"extra": ""})]
    return found


def test_what_builds_the_wheel_is_in_the_lock_with_hashes(tmp_path: Path) -> None:
    (program,) = re.findall(r"awk '(.+?)'", DOCKERFILE)
    lock = subprocess.run(
        ["awk", program, ROOT / "requirements-dev.lock"], capture_output=True, text=True, check=True
    ).stdout
    names = re.findall(r"^([a-z-]+)==", lock, re.MULTILINE)
    assert set(names) == needed("hatchling")
    assert len(re.findall("--hash=sha256:", lock)) >= len(names)
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert 'build-backend = "hatchling.build"' in project


def test_every_package_of_the_wheel_goes_into_the_image() -> None:
    packages = re.search(r"^packages = \[(.+)\]$", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert packages is not None
    for name in shlex.split(packages[1].replace(",", " ")):
        assert f"COPY {name}/ {name}/" in DOCKERFILE


@pytest.mark.parametrize(("answer", "code"), [(200, 0), (503, 1), (None, 1), ("", 0)])
def test_the_container_is_as_well_as_what_its_address_says(answer: object, code: int) -> None:
    import http.server
    import threading

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(answer if isinstance(answer, int) else 500)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = (
            f"http://127.0.0.1:{server.server_port}/livez" if answer is not None else "http://127.0.0.1:9"
        )
        try:
            ran = subprocess.run(
                [sys.executable, ROOT / "deploy/container/healthy.py"],
                env={"FAULTWIRE_HEALTH": "" if answer == "" else address},
                check=False,
                timeout=60,
            )
        finally:
            server.shutdown()
            thread.join()
    assert ran.returncode == code


def test_docker_itself_reads_it() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True).returncode:  # noqa: PLW1510
        pytest.skip("no docker compose")
    ran = subprocess.run(
        [docker, "compose", "--profile", "demo", "config", "--quiet"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
