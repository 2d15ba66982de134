"""The unit and the manifest give the agent what it needs, and no more."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from faultwire.config import load

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = DEPLOY / "systemd/faultwire-collect.service"
MANIFEST = DEPLOY / "kubernetes/collector-daemonset.yaml"


def unit() -> dict[str, list[str]]:
    """Every setting with its values; a key may stand several times."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in UNIT.read_text("utf-8").splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[key].append(value)
    return found


def manifest(kind: str) -> Any:
    (found,) = [part for part in yaml.safe_load_all(MANIFEST.read_text("utf-8")) if part["kind"] == kind]
    return found


def test_the_unit_limits_what_the_agent_may_use() -> None:
    settings = unit()
    assert settings["MemoryMax"] == ["256M"]
    assert settings["CPUQuota"] == ["25%"]
    assert settings["TasksMax"] == ["64"]
    assert settings["ProtectSystem"] == ["strict"]
    assert settings["CapabilityBoundingSet"] == settings["AmbientCapabilities"] == ["CAP_SYSLOG"]
    assert settings["DevicePolicy"] == ["closed"]
    assert settings["DeviceAllow"][0] == "/dev/kmsg r"
    drivers = ("char-nvidia", "char-infiniband_verbs")
    assert all(device.startswith(drivers) for device in settings["DeviceAllow"][1:])
    assert settings["ProtectKernelLogs"] == ["no"], "it could not read the kernel log"
    assert "AF_NETLINK" in settings["RestrictAddressFamilies"][0]


def test_the_watchdog_waits_longer_than_the_loops_take_and_stopping_longer_than_a_flush() -> None:
    settings = unit()
    assert settings["Type"] == ["notify"]
    assert int(settings["WatchdogSec"][0]) >= 15
    assert int(settings["TimeoutStopSec"][0]) > 5
    assert settings["Restart"] == ["always"]
    assert settings["StateDirectory"] == ["faultwire"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text("utf-8").replace("/opt/faultwire/bin/faultwire", "/bin/true"))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy], check=False, capture_output=True, text=True
    )
    assert (checked.returncode, checked.stderr.strip()) == (0, "")


def test_the_manifests_settings_are_ours(tmp_path: Path) -> None:
    file = tmp_path / "faultwire.toml"
    file.write_text(manifest("ConfigMap")["data"]["faultwire.toml"], "utf-8")
    told = load(file, environ={}).settings
    container = _container()
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert str(told.collect.state_dir) in mounts
    assert str(told.collect.sysfs_root) in mounts
    assert str(told.collect.kmsg_path) in mounts
    assert container["ports"][0]["containerPort"] == told.collect.metrics_port


def test_every_variable_of_the_manifest_is_known() -> None:
    names = {entry["name"]: "x" for entry in _container()["env"] if entry["name"].startswith("FAULTWIRE__")}
    told = load(environ=names).settings
    assert told.collect.node == "x"


def test_the_pod_reaches_the_hosts_sources_and_nothing_of_the_cluster() -> None:
    pod = manifest("DaemonSet")["spec"]["template"]["spec"]
    assert pod["hostNetwork"] is True
    assert pod["automountServiceAccountToken"] is False
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert "hostPID" not in pod
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["name"]: mount for mount in _container()["volumeMounts"]}
    assert volumes.keys() == mounts.keys()
    assert volumes["kmsg"]["hostPath"] == {"path": "/dev/kmsg", "type": "CharDevice"}
    writable = {name for name, mount in mounts.items() if not mount.get("readOnly")}
    assert writable == {"state", "tmp"}


def test_the_pod_is_limited_and_restarted_only_when_its_loops_stand_still() -> None:
    container = _container()
    assert container["resources"]["limits"] == {"cpu": "250m", "memory": "256Mi"}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def _container() -> Any:
    (found,) = manifest("DaemonSet")["spec"]["template"]["spec"]["containers"]
    return found
