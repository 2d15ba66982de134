"""How a process proves to Kafka who it is: SASL/SCRAM, client certificates, or both. One model for all.

Secrets come from files or from the environment; their text is never shown, logged or put into an error.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, SecretStr, model_validator

from topics.errors import SecurityError

log = logging.getLogger(__name__)

MAX_SECRET_BYTES: Final = 4096
"""A secret is a line; whoever names a larger file has named the wrong one."""

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]


class KafkaSecurity(BaseModel):
    """The `kafka.security` section. Files are read when a connection is first made."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    protocol: Protocol = "PLAINTEXT"
    mechanism: Mechanism = "SCRAM-SHA-512"
    username: str | None = None
    password: SecretStr | None = None
    """From the environment (FAULTWIRE__KAFKA__SECURITY__PASSWORD) alone; else `password_file`."""
    password_file: Path | None = None
    ca_file: Path | None = None
    """PEM of the authority that signed the brokers' certificates; absent: those that the system trusts."""
    cert_file: Path | None = None
    """PEM of our own certificate (mTLS), with its chain."""
    key_file: Path | None = None
    """PEM of its key; absent: it stands in `cert_file`."""
    key_password: SecretStr | None = None
    """As `password`; else `key_password_file`."""
    key_password_file: Path | None = None
    check_hostname: bool = True
    """Off only where brokers are reached under names that their certificates do not have."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.protocol.startswith("SASL"):
            if not self.username:
                raise ValueError(f"{self.protocol} needs a username")
            if self.password is None and self.password_file is None:
                raise ValueError(f"{self.protocol} needs password_file (or the password in the environment)")
        if not self.protocol.endswith("SSL") and (self.ca_file or self.cert_file):
            raise ValueError(f"certificates are of no use with protocol {self.protocol}")
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file needs cert_file")
        return self

    def client_options(self) -> dict[str, Any]:
        """Arguments for any client of aiokafka; none for a plain connection. Raises `SecurityError`."""
        if self.protocol == "PLAINTEXT":
            return {}
        options: dict[str, Any] = {"security_protocol": self.protocol}
        if self.protocol.endswith("SSL"):
            options["ssl_context"] = self._context()
        if self.protocol.startswith("SASL"):
            options |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": _secret(self.password, self.password_file),
            }
        return options

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.check_hostname = self.check_hostname
            if self.cert_file is not None:
                phrase = _secret(self.key_password, self.key_password_file)
                # without a phrase OpenSSL would ask the terminal for one, and wait
                context.load_cert_chain(self.cert_file, self.key_file, password=lambda: phrase or "")
        except (OSError, ssl.SSLError) as exc:
            files = ", ".join(str(f) for f in (self.ca_file, self.cert_file, self.key_file) if f)
            raise SecurityError(f"the certificates can't be used ({files}): {_why(exc)}") from None
        return context


def _secret(given: SecretStr | None, file: Path | None) -> str | None:
    """The text of a secret: the file's first line without its end, or what the environment said."""
    if given is not None:
        return given.get_secret_value()
    if file is None:
        return None
    try:
        with file.open("rb") as stream:
            if file.stat().st_mode & 0o004:
                log.warning("%s holds a secret and everybody may read it: chmod 0640", file)
            raw = stream.read(MAX_SECRET_BYTES + 1)
    except OSError as exc:
        raise SecurityError(f"{file}: {exc.strerror}") from None
    if len(raw) > MAX_SECRET_BYTES:
        raise SecurityError(f"{file}: more than {MAX_SECRET_BYTES} bytes: that is no secret of ours")
    lines = raw.splitlines()
    if not lines or not lines[0]:
        raise SecurityError(f"{file}: the first line is empty")
    try:
        return lines[0].decode()
    except UnicodeDecodeError:
        raise SecurityError(f"{file}: not UTF-8") from None


def _why(exc: OSError) -> str:
    return (exc.strerror if not isinstance(exc, ssl.SSLError) else exc.reason) or type(exc).__name__
