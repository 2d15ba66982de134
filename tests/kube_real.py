"""A real kube-apiserver with its etcd, on loopback: no scheduler, no kubelet; tests play those.

The binary is Kubernetes' own, built from its Go module by `make kube-apiserver` into `.cache/`, or named by
FAULTWIRE_KUBE_APISERVER. etcd is Debian's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import yaml
from kubernetes import client, utils
from kubernetes.client.exceptions import ApiException

from faultwire.broker.cluster import free_ports

ROOT: Final = Path(__file__).parents[1]
READY_S: Final = 90.0
TOKEN: Final = "for-tests-on-loopback-only"  # noqa: S105
CRDS: Final = (
    ("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"),
    ("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs"),
    ("kueue.x-k8s.io", "v1beta1", "Workload", "workloads"),
)
"""Names of the real definitions; what is inside is not checked (the connector must not rely on that)."""


class NoKubernetesError(Exception):
    """Why there is no API server here, and what to do about it."""


@dataclass(frozen=True, slots=True)
class KubeCluster:
    """`admin` may do everything; `as_account` may do what the role bindings allow."""

    host: str
    certificate: Path
    admin: client.ApiClient
    etcd: str

    def as_account(self, namespace: str, name: str) -> client.ApiClient:
        """A client with a token of that service account."""
        request = client.AuthenticationV1TokenRequest(
            spec=client.V1TokenRequestSpec(audiences=["faultwire"], expiration_seconds=3600)
        )
        core = client.CoreV1Api(self.admin)
        answer = core.create_namespaced_service_account_token(name, namespace, request)
        return talker(self.host, self.certificate, answer.status.token)

    def forget_history(self) -> None:
        """What etcd does every few minutes: versions from before now can't be watched from any more."""
        present = httpx.post(f"{self.etcd}/v3/kv/range", json={"key": "AA=="}).json()["header"]["revision"]
        httpx.post(f"{self.etcd}/v3/kv/compaction", json={"revision": present}).raise_for_status()

    def apply(self, manifest: Path) -> None:
        """Every object of the file; what is there already stays."""
        for thing in yaml.safe_load_all(manifest.read_text("utf-8")):
            if thing is None:
                continue
            try:
                utils.create_from_dict(self.admin, thing)
            except utils.FailToCreateError as exc:
                if any(inner.status != 409 for inner in exc.api_exceptions):
                    raise

    def namespace(self, name: str) -> None:
        body = client.V1Namespace(metadata=client.V1ObjectMeta(name=name))
        try:
            client.CoreV1Api(self.admin).create_namespace(body)
        except ApiException as exc:
            if exc.status != 409:
                raise

    def define(self, group: str, version: str, kind: str, plural: str) -> None:
        """A custom kind with a status, any content, served when this returns."""
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        served = {
            "name": version, "served": True, "storage": True,
            "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
        }  # fmt: skip
        names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
        approved = {"api-approved.kubernetes.io": "unapproved"}  # protected groups want a word on that
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}", "annotations": approved},
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
        }
        custom = client.CustomObjectsApi(self.admin)
        custom.create_cluster_custom_object("apiextensions.k8s.io", "v1", "customresourcedefinitions", body)
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            try:
                custom.list_cluster_custom_object(group, version, plural)
            except ApiException:
                time.sleep(0.1)
            else:
                return
        raise TimeoutError(f"{kind} is not served")


def talker(host: str, certificate: Path, token: str) -> client.ApiClient:
    """An official client that trusts the certificate which the server made for itself."""
    settings = client.Configuration(host=host)
    settings.ssl_ca_cert = str(certificate)
    settings.api_key = {"authorization": token, "BearerToken": token}
    settings.api_key_prefix = {"authorization": "Bearer", "BearerToken": "Bearer"}
    settings.retries = False
    return client.ApiClient(settings)


def binary() -> Path:
    """Raises `NoKubernetesError` with what to do."""
    named = os.environ.get("FAULTWIRE_KUBE_APISERVER")
    path = Path(named) if named else ROOT / ".cache" / "kube-apiserver"
    if not path.is_file():
        raise NoKubernetesError(f"no {path}: run `make kube-apiserver` (needs Go, some minutes)")
    for needed, package in (("etcd", "etcd-server"), ("openssl", "openssl")):
        if shutil.which(needed) is None:
            raise NoKubernetesError(f"no {needed}: install {package}")
    return path


@contextmanager
def kube_cluster(folder: Path) -> Iterator[KubeCluster]:
    """Raises `NoKubernetesError` where it can't be started at all."""
    server = binary()
    etcd_port, peer_port, port = free_ports(3)
    key, tokens = folder / "accounts.key", folder / "tokens.csv"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    tokens.write_text(f'{TOKEN},admin,admin,"system:masters"\n', "utf-8")
    etcd = f"http://127.0.0.1:{etcd_port}"
    peers = f"http://127.0.0.1:{peer_port}"
    with ExitStack() as stack:
        stack.enter_context(
            running(
                folder / "etcd.log", "etcd", "--data-dir", str(folder / "etcd"),
                "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
                "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
                "--initial-cluster", f"default={peers}", "--unsafe-no-fsync",
            )
        )  # fmt: skip
        stack.enter_context(
            running(
                folder / "apiserver.log", str(server), "--etcd-servers", etcd,
                "--bind-address", "127.0.0.1", "--secure-port", str(port),
                "--cert-dir", str(folder / "certs"),
                "--advertise-address", "127.0.0.1", "--service-cluster-ip-range", "10.96.0.0/24",
                "--authorization-mode", "RBAC", "--token-auth-file", str(tokens),
                "--service-account-issuer", "faultwire", "--api-audiences", "faultwire",
                "--service-account-key-file", str(key), "--service-account-signing-key-file", str(key),
                "--disable-admission-plugins", "ServiceAccount",
                "--watch-cache=false",  # watches are etcd's own: a compaction of its history is seen at once
            )
        )  # fmt: skip
        host = f"https://127.0.0.1:{port}"
        certificate = folder / "certs/apiserver.crt"
        _await_ready(host, certificate, folder / "apiserver.log")
        yield KubeCluster(host, certificate, talker(host, certificate, TOKEN), etcd)


@contextmanager
def running(log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await_ready(host: str, certificate: Path, log: Path) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        if certificate.is_file():
            trusted = ssl.create_default_context(cafile=certificate)
            with contextlib.suppress(httpx.HTTPError):
                asked = httpx.get(
                    f"{host}/readyz", headers={"Authorization": f"Bearer {TOKEN}"}, verify=trusted
                )
                if asked.status_code == 200:
                    return
        time.sleep(0.2)
    raise NoKubernetesError(f"not ready after {READY_S:.0f} s: {log.read_text('utf-8', 'replace')[-2000:]}")
