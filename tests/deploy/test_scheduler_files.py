"""Units, prolog helper and rights of connectors and controllers."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from collectors.schedulers.kubernetes.owners import RESOURCES
from controllers.kubernetes.actuator import KubernetesActuator
from controllers.kubernetes.client import KubeClient
from controllers.kubernetes.settings import KubernetesSettings
from tests.controllers.builders import action
from tests.controllers.test_kubernetes import begun, interrupt
from tests.kube_api import NODES, PODS, api_server, node, pod

DEPLOY = Path(__file__).parents[2] / "deploy"
VERBS = {"GET": "get", "PATCH": "patch", "POST": "create"}


def allowed(file: str) -> set[tuple[str, str]]:
    """(resource, verb) of every cluster role in a file."""
    roles = [p for p in yaml.safe_load_all((DEPLOY / file).read_text("utf-8")) if p["kind"] == "ClusterRole"]
    return {
        (r, v) for role in roles for rule in role["rules"] for r in rule["resources"] for v in rule["verbs"]
    }


def asked_for(method: str, path: str) -> tuple[str, str]:
    """(resource, verb) as the API server authorises a request."""
    words = path.strip("/").split("/")[2:]
    if words[0] == "namespaces":
        words = words[2:]
    resource = "/".join([words[0], *words[2:]])
    verb = VERBS[method]
    return resource, "list" if verb == "get" and len(words) == 1 else verb


async def test_the_controllers_rights_are_those_that_it_uses_and_no_more() -> None:
    with api_server() as (state, talker):
        state.put(NODES, node("n1"))
        state.put(PODS, pod("old", "n1", phase="Running"))
        acts = KubernetesActuator(KubeClient(talker), KubernetesSettings())
        await acts.standing()
        for event in (interrupt(), action("return_to_service", "n1")):
            for step in acts.steps(event):
                await acts.perform(step, event, begun(event))
        used = {asked_for(method, path) for method, path in state.requests}
    assert used == allowed("kubernetes/controller-rbac.yaml")


def test_the_connector_may_only_see_pods_and_what_owns_them() -> None:
    seen = {"pods", *(resource.path.rpartition("/")[2] for resource in RESOURCES)}
    allowed_to = allowed("kubernetes/connector-rbac.yaml")
    assert allowed_to == {(thing, verb) for thing in seen for verb in ("list", "watch")}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
@pytest.mark.parametrize("name", ["faultwire-slurm-connector.service", "faultwire-slurm-controller.service"])
def test_systemd_takes_the_units(name: str, tmp_path: Path) -> None:
    text = (DEPLOY / "slurm" / name).read_text("utf-8")
    copy = tmp_path / name
    copy.write_text(text.replace("/opt/faultwire/bin/faultwire", "/bin/true").replace("User=slurm\n", ""))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], check=False, capture_output=True, text=True
    )
    assert not [line for line in done.stderr.splitlines() if name in line], done.stderr


def test_the_prolog_helper_pokes_the_connector_and_never_fails(tmp_path: Path) -> None:
    path = tmp_path / "sock"
    script = (DEPLOY / "slurm/poke").read_text("utf-8")
    command = f"{sys.executable} -m faultwire job poke"
    copy = tmp_path / "poke"
    copy.write_text(
        script.replace("timeout 1 ", "")
        .replace("faultwire job poke", command)
        .replace("/run/faultwire/slurm.sock", str(path))
    )
    assert subprocess.run(["/bin/sh", str(copy)], check=False).returncode == 0  # nobody listens
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(20)
        assert subprocess.run(["/bin/sh", str(copy)], check=False).returncode == 0
        assert listener.recv(16) == b"poke"
