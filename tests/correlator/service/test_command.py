"""`faultwire serve` says why it can't start, and never starts open to strangers."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from correlator.service.store import Store
from faultwire.cli import app

runner = CliRunner()


def serve(folder: Path, *arguments: str, **environment: str | None) -> tuple[int, str]:
    command = ["serve", "--store", str(folder / "s.db"), "--port", "0", *arguments]
    done = runner.invoke(app, command, env={"FAULTWIRE_TOKENS": None, **environment})
    return done.exit_code, done.output


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings file, no broker of this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAULTWIRE_BROKER_DIR", str(tmp_path / "no-broker"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104  it must refuse
def test_it_does_not_start_for_others_without_tokens(tmp_path: Path, host: str) -> None:
    code, said = serve(tmp_path, "--host", host)
    assert code == 2
    assert "tokens" in said


def test_a_token_that_can_not_be_used_is_told_without_itself(tmp_path: Path) -> None:
    code, said = serve(tmp_path, FAULTWIRE_TOKENS="name:read:short-secret")
    assert code == 2
    assert "short-secret" not in said
    assert "entry 1" in said


def test_a_store_in_use_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    code, said = serve(tmp_path)
    store.close()
    assert code == 2
    assert "in use" in said


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, said = serve(tmp_path, "--port", str(port))
    assert code == 2
    assert str(port) in said


def test_a_database_that_can_not_be_used_is_named(tmp_path: Path) -> None:
    code, said = serve(tmp_path, "--store", "nonsense://x:secret-word@y/z")
    assert code == 2
    assert "secret-word" not in said
