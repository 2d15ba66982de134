"""The files of one capture directory. Nothing outside it is ever opened, whatever links say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import orjson

from faultwire.capture.records import CaptureError

MAX_FILE_BYTES: Final = 1024**3
"""A larger file in a capture is refused: nobody records a gigabyte of one node's text by intent."""

MAX_LINE_CHARS: Final = 1024 * 1024


class CaptureFiles:
    """Reads below `root` only; raises `CaptureError` for what can't be read."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def folders(self, name: str) -> list[str]:
        folder = self.root / name
        if not folder.is_dir():
            return []
        return sorted(e.name for e in os.scandir(folder) if e.is_dir(follow_symlinks=False))

    def json_lines(self, path: Path) -> Iterator[tuple[int, Any]]:
        if path.is_file():
            for number, line in self.lines(path):
                if line.strip():
                    yield number, self.parse(path, number, line.encode("utf-8", "surrogateescape"))

    def lines(self, path: Path) -> Iterator[tuple[int, str]]:
        self._inside(path)
        with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            for number in count(1):
                line = file.readline(MAX_LINE_CHARS)
                if not line:
                    return
                yield number, line.rstrip("\r\n")
                while len(line) == MAX_LINE_CHARS and not line.endswith("\n"):
                    line = file.readline(MAX_LINE_CHARS)  # the rest of a line beyond all reason

    def bytes_of(self, path: Path) -> bytes:
        self._inside(path)
        return path.read_bytes()

    def _inside(self, path: Path) -> None:
        """A link that leads out of the capture, what is no file (a pipe would be waited for), or a file
        beyond all reason, is refused."""
        if not path.resolve().is_relative_to(self.root):
            raise CaptureError(path, None, "leads outside the capture")
        if not path.is_file():
            raise CaptureError(path, None, "not a file")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise CaptureError(path, None, f"larger than {MAX_FILE_BYTES} bytes")

    @staticmethod
    def parse(path: Path, line: int | None, text: bytes) -> Any:
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError as exc:
            raise CaptureError(path, line, f"not JSON: {exc}") from exc
