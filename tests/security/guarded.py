"""A real broker that lets nobody in unknown: SASL/SCRAM over TLS, client certificates, and ACLs."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiokafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest

from faultwire.broker.cluster import Cluster, free_ports
from tests.kafka import Kafka
from tests.security.authority import Authority
from topics.acls import processes
from topics.security import KafkaSecurity

ROOT = Path(__file__).parents[2]

# Kafka's numbers (org.apache.kafka.common.acl.AclOperation, .resource.ResourceType, .PatternType)
_OPERATIONS = {"Read": 3, "Write": 4, "Create": 5, "Describe": 8, "DescribeConfigs": 10}
_RESOURCES = {"topic": 2, "group": 3, "transactional_id": 5}
_PATTERNS = {"literal": 3, "prefixed": 4}
_DENY, _ALLOW = 2, 3


def password_of(process: str) -> str:
    """Of the SCRAM user `faultwire-<process>`; nobody else may ever print it."""
    return f"pass-phrase-of-{process}"


@dataclass(frozen=True, slots=True)
class Guarded:
    """`open_` is a listener for the test itself, which may do everything."""

    cluster: Cluster
    authority: Authority
    scram: str
    mtls: str
    folder: Path

    @property
    def open_(self) -> Kafka:
        return Kafka(self.cluster.bootstrap)

    def environment(self, process: str, prefix: str, *, way: str = "scram") -> dict[str, str]:
        """The settings of one process, as a service manager would give them: files, and no secret itself."""
        common = {
            "CLUSTER": "demo",
            "KAFKA__PREFIX": prefix,
            "KAFKA__SECURITY__CA_FILE": str(self.authority.certificate),
        }
        if way == "scram":
            secret = self.folder / f"{process}.secret"
            secret.write_text(password_of(process) + "\n")
            secret.chmod(0o600)
            own = {
                "KAFKA__BOOTSTRAP": self.scram,
                "KAFKA__SECURITY__PROTOCOL": "SASL_SSL",
                "KAFKA__SECURITY__USERNAME": f"faultwire-{process}",
                "KAFKA__SECURITY__PASSWORD_FILE": str(secret),
            }
        else:
            own = {
                "KAFKA__BOOTSTRAP": self.mtls,
                "KAFKA__SECURITY__PROTOCOL": "SSL",
                "KAFKA__SECURITY__CERT_FILE": str(self.authority.folder / f"cert-{process}.pem"),
            }
        return {f"FAULTWIRE__{key}": value for key, value in {**common, **own}.items()}

    def options(self, process: str) -> dict[str, Any]:
        """For a client of aiokafka in this process: bootstrap and credentials."""
        security = KafkaSecurity(
            protocol="SASL_SSL",
            username=f"faultwire-{process}",
            password=password_of(process),  # type: ignore[arg-type]  # pydantic takes text for a secret
            ca_file=self.authority.certificate,
        )
        return {"bootstrap_servers": self.scram, **security.client_options()}

    async def allow(self, lines: Iterable[str]) -> None:
        """Put what kafka-acls would be told into force."""
        creations = [creation for line in lines for creation in _creations(line)]
        async with self.open_.admin() as admin:
            for creation in creations:
                answer = await admin._send_to_controller(CreateAclsRequest(*creation))
                assert all(code == 0 for code, _ in answer.creation_responses), answer

    @asynccontextmanager
    async def withdrawn(self, process: str, operation: str, topic: str) -> AsyncIterator[None]:
        """Until the block ends, `process` may not do that to the topic, whatever allows it."""
        principal = f"User:faultwire-{process}"
        rule = (
            _RESOURCES["topic"], topic, _PATTERNS["literal"], principal, "*", _OPERATIONS[operation], _DENY
        )  # fmt: skip
        async with self.open_.admin() as admin:
            made = await admin._send_to_controller(CreateAclsRequest(*rule))
            assert all(code == 0 for code, _ in made.creation_responses), made
        try:
            yield
        finally:
            async with self.open_.admin() as admin:
                gone = await admin._send_to_controller(DeleteAclsRequest(*rule))
                assert [len(found) for _, _, found in gone.filter_responses] == [1], gone


def start(folder: Path) -> Guarded:
    authority = Authority(folder / "certificates").found()
    server = authority.issue("broker", addresses="IP:127.0.0.1,DNS:localhost")
    for name in (*processes(), "stranger"):
        authority.issue(f"cert-{name}")
    plain, scram, mtls = free_ports(3)
    users = [
        f"SCRAM-SHA-512=[name=faultwire-{p},password={password_of(p)}]" for p in (*processes(), "stranger")
    ]
    cluster = Cluster(
        folder / "broker",
        port=plain,
        settings=_settings(plain, scram, mtls, server, authority.certificate),
        format_options=[part for user in users for part in ("--add-scram", user)],
    )
    node = cluster.nodes[1]
    node.spec.extra["listeners"] += f",CONTROLLER://127.0.0.1:{node.spec.controller_port}"
    cluster.start()
    return Guarded(cluster, authority, f"127.0.0.1:{scram}", f"127.0.0.1:{mtls}", folder)


def faultwire(
    *arguments: str, env: dict[str, str], timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """One command as a process, with nothing but the given settings."""
    return subprocess.run(
        [sys.executable, "-m", "faultwire", *arguments],
        cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=timeout_s,
    )  # fmt: skip


def _settings(plain: int, scram: int, mtls: int, server: Path, ca: Path) -> dict[str, str]:
    ours = f"PLAINTEXT://127.0.0.1:{plain},SCRAM://127.0.0.1:{scram},MTLS://127.0.0.1:{mtls}"
    return {
        "listeners": ours,
        "advertised.listeners": ours,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SCRAM:SASL_SSL,MTLS:SSL",
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.scram.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "listener.name.mtls.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",  # the plain listener: the test itself, and the broker
    }


def _creations(line: str) -> list[tuple[int, str, int, str, str, int, int]]:
    """(resource type, name, pattern, principal, host, operation, permission) of one call of kafka-acls."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--allow-principal", required=True)
    parser.add_argument("--operation", action="append", required=True)
    parser.add_argument("--resource-pattern-type", default="literal")
    for resource in _RESOURCES:
        parser.add_argument(f"--{resource.replace('_', '-')}", action="append", default=[])
    told = parser.parse_args(shlex.split(line))
    return [
        (number, name, _PATTERNS[told.resource_pattern_type], told.allow_principal, "*",
         _OPERATIONS[operation], _ALLOW)
        for resource, number in _RESOURCES.items()
        for name in getattr(told, resource)
        for operation in told.operation
    ]  # fmt: skip
