"""A certificate authority for one test session, made with openssl."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Authority:
    """Issues certificates whose files stand in `folder`: `NAME.crt`, `NAME.key`, `NAME.pem` (both)."""

    folder: Path
    name: str = "ca"

    @property
    def certificate(self) -> Path:
        return self.folder / f"{self.name}.crt"

    def found(self) -> Authority:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._openssl(
            "req", "-x509", *_NEW_KEY, "-keyout", f"{self.name}.key", "-out", f"{self.name}.crt",
            "-days", "2", "-subj", f"/CN=faultwire test {self.name}",
            "-addext", "basicConstraints=critical,CA:TRUE",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        )  # fmt: skip
        return self

    def issue(self, name: str, *, addresses: str = "") -> Path:
        """The PEM with key and certificate of `CN=name`; `addresses` as openssl's subjectAltName."""
        self._openssl(
            "req", *_NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}"
        )
        extension = self.folder / f"{name}.ext"
        extension.write_text(f"subjectAltName={addresses}\n" if addresses else "")
        self._openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", f"{self.name}.crt", "-CAkey", f"{self.name}.key",
            "-CAcreateserial", "-out", f"{name}.crt", "-days", "2", "-extfile", extension.name,
        )  # fmt: skip
        pem = self.folder / f"{name}.pem"
        pem.write_text((self.folder / f"{name}.key").read_text() + (self.folder / f"{name}.crt").read_text())
        return pem

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(
            ["openssl", *arguments], cwd=self.folder, capture_output=True, text=True, check=False, timeout=30
        )
        assert done.returncode == 0, done.stderr


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
