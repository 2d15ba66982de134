"""Wrong credentials are refused in words, on both sides, and no secret is ever told."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from tests.security.authority import Authority
from tests.security.guarded import Guarded, faultwire, password_of
from topics.errors import SecurityError
from topics.security import MAX_SECRET_BYTES, KafkaSecurity

SECRET = "correct-horse-battery"  # noqa: S105


@pytest.mark.broker
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (
            {"FAULTWIRE__KAFKA__SECURITY__PASSWORD": SECRET, "FAULTWIRE__KAFKA__SECURITY__PASSWORD_FILE": ""},
            3,
        ),
        ({"FAULTWIRE__KAFKA__SECURITY__USERNAME": "nobody"}, 3),
        ({"FAULTWIRE__KAFKA__SECURITY__CA_FILE": "other"}, 3),
        ({"FAULTWIRE__KAFKA__SECURITY__PROTOCOL": "SSL"}, 3),
        ({"FAULTWIRE__KAFKA__SECURITY__PASSWORD_FILE": "/nonexistent/secret"}, 2),
        ({"FAULTWIRE__KAFKA__SECURITY__CERT_FILE": "/nonexistent/cert"}, 2),
    ],
    ids=["password", "user", "authority", "no-login", "no-secret-file", "no-certificate-file"],
)
def test_a_wrong_credential_is_refused_and_no_secret_told(
    guarded_broker: Guarded, tmp_path: Path, change: dict[str, str], code: int
) -> None:
    if "FAULTWIRE__KAFKA__SECURITY__CA_FILE" in change:
        change = {
            "FAULTWIRE__KAFKA__SECURITY__CA_FILE": str(Authority(tmp_path, "other").found().certificate)
        }
    env = {**guarded_broker.environment("admin", "none."), **change}
    env = {key: value for key, value in env.items() if value}
    done = faultwire("--log-level", "debug", "topics", "list", env=env)
    assert done.returncode == code, done.stderr
    assert done.stderr.strip()
    for secret in (SECRET, password_of("admin")):
        assert secret not in done.stdout + done.stderr


@pytest.mark.broker
def test_a_client_without_a_certificate_is_refused(guarded_broker: Guarded) -> None:
    env = guarded_broker.environment("admin", "none.", way="mtls")
    del env["FAULTWIRE__KAFKA__SECURITY__CERT_FILE"]
    assert faultwire("topics", "list", env=env).returncode == 3


@pytest.mark.broker
def test_a_broker_under_another_name_is_refused(guarded_broker: Guarded) -> None:
    """What keeps a machine in the middle from being taken for the broker."""
    env = guarded_broker.environment("admin", "none.")
    env["FAULTWIRE__KAFKA__BOOTSTRAP"] = env["FAULTWIRE__KAFKA__BOOTSTRAP"].replace("127.0.0.1", "127.0.0.2")
    assert faultwire("topics", "list", env=env).returncode == 3


def scram(**more: object) -> KafkaSecurity:
    return KafkaSecurity.model_validate({"protocol": "SASL_PLAINTEXT", "username": "u", **more})


def test_the_secret_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\nnot this\n")
    assert scram(password_file=file).client_options()["sasl_plain_password"] == SECRET


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"\xff\xfe\n", b"x" * (MAX_SECRET_BYTES + 1)],
    ids=["empty", "blank", "bytes", "large"],
)
def test_a_file_that_holds_no_secret_is_named_and_not_shown(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content)
    with pytest.raises(SecurityError, match=str(file)):
        scram(password_file=file).client_options()


def test_a_secret_that_everybody_may_read_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET)
    file.chmod(0o644)
    scram(password_file=file).client_options()
    assert str(file) in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"protocol": "SASL_SSL"},
        {"protocol": "SASL_SSL", "username": "u"},
        {"protocol": "PLAINTEXT", "ca_file": "ca.pem"},
        {"protocol": "SSL", "key_file": "k.pem"},
        {"protocol": "KERBEROS"},
    ],
)
def test_settings_that_do_not_fit_together_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        KafkaSecurity.model_validate(wrong)


def test_no_text_of_the_settings_holds_the_secret() -> None:
    security = scram(password=SecretStr(SECRET))
    assert SECRET not in f"{security!r} {security} {security.model_dump_json()} {security.model_dump()}"


def test_config_show_masks_and_only_files_and_the_environment_may_say(tmp_path: Path) -> None:
    env = {
        "FAULTWIRE__KAFKA__SECURITY__PROTOCOL": "SASL_SSL",
        "FAULTWIRE__KAFKA__SECURITY__USERNAME": "u",
        "FAULTWIRE__KAFKA__SECURITY__PASSWORD": SECRET,
    }
    for arguments in (["config", "show"], ["config", "show", "--json"]):
        shown = faultwire(*arguments, env=env)
        assert shown.returncode == 0, shown.stderr
        assert "***" in shown.stdout
        assert SECRET not in shown.stdout
    file = tmp_path / "faultwire.toml"
    file.write_text(f'[kafka.security]\npassword = "{SECRET}"\n')
    for refused in (
        faultwire("--config", str(file), "config", "show", env={}),
        faultwire("--set", f"kafka.security.password={SECRET}", "config", "show", env={}),
        faultwire("--set", "kafka.security.mechanism=ROT13", "config", "show", env=env),
        faultwire("config", "show", env={**env, "FAULTWIRE__KAFKA__SECURITY__USERNAME": ""}),
    ):
        assert refused.returncode == 2
        assert SECRET not in refused.stdout + refused.stderr


def test_a_key_with_a_pass_phrase_never_asks_a_terminal(tmp_path: Path) -> None:
    authority = Authority(tmp_path).found()
    authority.issue("client")
    subprocess.run(
        ["openssl", "ec", "-aes128", "-passout", f"pass:{SECRET}", "-in", "client.key", "-out", "locked.key"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    ours = {"protocol": "SSL", "cert_file": tmp_path / "client.crt", "key_file": tmp_path / "locked.key"}
    unlocked = KafkaSecurity.model_validate({**ours, "key_password": SECRET}).client_options()
    assert unlocked["ssl_context"].check_hostname
    with pytest.raises(SecurityError, match="can't be used"):
        KafkaSecurity.model_validate(ours).client_options()
