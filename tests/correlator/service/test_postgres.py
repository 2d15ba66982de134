"""The store on a real PostgreSQL gives the replies that it gives on SQLite."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from correlator.service.store import Store, StoreError
from faultwire.broker.cluster import free_ports
from tests.correlator.service.builders import at
from tests.correlator.service.test_store import STORY, expected, said

USER = "postgres"


def programs() -> Path | None:
    """Debian keeps them out of the path."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    return next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


def account() -> int | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return os.geteuid()
    try:
        return pwd.getpwnam(USER).pw_uid
    except KeyError:
        return None


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The URL of a database of its own."""
    where, user = programs(), account()
    if where is None or user is None:
        pytest.skip("no PostgreSQL (Debian: postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="fw-pg-", dir="/tmp"))  # the account must reach it
    os.chown(folder, user, -1)
    port = free_ports(1)[0]

    def run(*command: str) -> None:
        extra = (
            {"user": user, "group": pwd.getpwuid(user).pw_gid, "extra_groups": []}
            if os.geteuid() == 0
            else {}
        )
        subprocess.run(
            [str(where / command[0]), *command[1:]], check=True, cwd=folder, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, timeout=90, **extra,  # type: ignore[call-overload]
        )  # fmt: skip

    run("initdb", "-D", "data", "-A", "trust", "-U", "faultwire", "--no-sync")
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    run("pg_ctl", "-D", "data", "-o", options, "-l", "log", "-w", "-t", "60", "start")
    try:
        yield f"postgresql+psycopg://faultwire@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-D", "data", "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def test_replies_are_those_of_sqlite(postgres: str) -> None:
    store = Store(postgres)
    store.ingest(STORY[::-1], {("signals", 0): 5})
    store.ingest(STORY)
    assert said(store) == expected()
    store.close()
    again = Store(postgres)
    assert (said(again), again.offsets()) == (expected(), {("signals", 0): 5})
    again.prune(at(4000), at(4000))
    again.empty()
    again.ingest(STORY)
    assert said(again) == expected()
    again.close()


def test_a_database_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises(StoreError) as caught:
        Store("postgresql+psycopg://faultwire:secret-word@127.0.0.1:1/postgres")
    assert "127.0.0.1:1" in str(caught.value)
    assert "secret-word" not in str(caught.value)
