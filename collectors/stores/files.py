"""Local log files, also compressed, as lines in their order.

Files are named by globs. What a glob leads to is read whatever it is, but only regular files, and only as
much as the bounds allow (counted uncompressed, so that no archive can fill the memory).
"""

from __future__ import annotations

import asyncio
import glob
import gzip
import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from collectors.stores.bounds import Meter
from collectors.stores.loki_answers import Entry, read_lines
from collectors.stores.slices import Span
from topics.time import parse_rfc3339

CHUNK_LINES: Final = 20_000
MOST_FILES: Final = 100_000


@dataclass(slots=True)
class FileFetch:
    """The files that fit `globs`. `problems` tells what could not be read."""

    globs: tuple[str, ...]
    meter: Meter
    span: Span
    problems: list[str] = field(default_factory=list)

    def found(self) -> list[Path]:
        """Regular files, each once, in the order of their names."""
        paths = sorted({Path(p) for text in self.globs for p in glob.iglob(text, recursive=True)})  # noqa: PTH207
        regular = [p for p in paths if p.is_file()]
        if len(regular) > MOST_FILES:
            self.problems.append(f"{len(regular)} files fit; the first {MOST_FILES} are read")
        return regular[:MOST_FILES]

    async def lines(self, path: Path) -> AsyncIterator[list[tuple[int, Entry]]]:
        """A file's lines in pieces, with their numbers. A line without a time has the time 0. Raises
        `BoundReachedError`; what else goes wrong ends the file and is a problem."""
        reader = self._read(path)
        while True:
            try:
                chunk = await asyncio.to_thread(_take, reader)
            except (OSError, EOFError, zlib.error) as exc:
                self.problems.append(f"{path}: {exc}")
                return
            if not chunk:
                return
            yield chunk

    def texts(self, path: Path) -> Iterator[str]:
        """Its lines as they stand there, for parsers that know more about stamps. Raises as `lines`."""
        try:
            for line in self._bytes(path):
                yield line.decode("utf-8", "replace").rstrip("\r\n")
        except (OSError, EOFError, zlib.error) as exc:
            self.problems.append(f"{path}: {exc}")

    def _read(self, path: Path) -> Iterator[tuple[int, Entry]]:
        labels = {"filename": str(path)}
        ndjson = is_ndjson(path)
        for number, line in enumerate(self._bytes(path), 1):
            if ndjson:
                for entry in read_lines([line]):
                    if entry is not None and self.span.start <= entry.time < self.span.end:
                        yield number, entry._replace(labels={**labels, **entry.labels})
                continue
            stamp, rest = leading_time(line.decode("utf-8", "replace").rstrip("\r\n"))
            yield number, Entry(stamp or 0, labels, rest)

    def _bytes(self, path: Path) -> Iterator[bytes]:
        with _opened(path) as file:
            for line in _bounded(file, self.meter.bounds.max_line_chars):
                self.meter.take(size=len(line), lines=1)
                yield line


def is_ndjson(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith((".ndjson", ".jsonl"))


def leading_time(text: str) -> tuple[int | None, str]:
    """The RFC 3339 time with a zone that a line begins with, and the rest; None and the line without one."""
    head, _, rest = text.partition(" ")
    if len(head) < 20 or head[4] != "-" or head[10] not in "Tt":
        return None, text
    try:
        return parse_rfc3339(head.replace(",", ".")), rest
    except ValueError:
        return None, text


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as raw:
        magic = raw.read(2)
    return gzip.open(path, "rb") if magic == b"\x1f\x8b" else path.open("rb")  # type: ignore[return-value]


def _bounded(file: IO[bytes], most: int) -> Iterator[bytes]:
    """Lines of at most `most` bytes; what is longer is cut, and the rest of it passed over."""
    while line := file.readline(most + 1):
        yield line[:most]
        while len(line) > most and not line.endswith(b"\n"):
            line = file.readline(most + 1)


def _take(reader: Iterator[tuple[int, Entry]]) -> list[tuple[int, Entry]]:
    chunk: list[tuple[int, Entry]] = []
    for row in reader:
        chunk.append(row)
        if len(chunk) >= CHUNK_LINES:
            break
    return chunk
