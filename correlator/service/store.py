"""The store: events and what they come to, in SQLite or PostgreSQL, with how far Kafka has been read.

A batch is one transaction: rows and offsets together, so that after a crash reading goes on exactly where
the rows end. What comes twice changes nothing. One process writes; any number of threads read.
"""

from __future__ import annotations

import fcntl
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from sqlalchemy import (
    Connection,
    Engine,
    MetaData,
    create_engine,
    delete,
    func,
    insert,
    inspect,
    not_,
    select,
    text,
)
from sqlalchemy import event as hooks
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from correlator.service import schema
from correlator.service.batch import Written, insert_all, write
from correlator.service.records import fits, is_kept, record_of
from correlator.service.samples import Sample
from topics.events import Event
from topics.time import NS_PER_US

log = logging.getLogger(__name__)

Offsets = Mapping[tuple[str, int], int]
"""(topic, partition) -> the next record to read; topics by their logical names."""

SQLITE_MAGIC: Final = b"SQLite format 3\x00"
PRUNE_ROWS: Final = 5_000
"""Rows dropped in one transaction, so that ingestion never waits long."""


class StoreError(Exception):
    """The store can't be used; the message says which and why."""


class EmptiedError(StoreError):
    """The store was emptied while the batch was read."""


class Store:
    """`url` is a SQLAlchemy URL, or the path of an SQLite file, which is created where it is missing.

    A store of another version of the tables is made anew, and so is a file that is no database any more:
    everything in it can be had again.
    """

    def __init__(self, url: str | Path) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Callable[[Written], None]] = []
        self._held: IO[str] | None = None
        self._path: Path | None = None
        self.version = 0
        """Counts the batches after which a reply may differ."""
        self.epoch = 0
        """Counts how often the store was emptied while it was open."""
        try:
            self._engine = self._open(str(url))
            self._prepare()
        except (DBAPIError, ArgumentError, NoSuchModuleError, OSError, ImportError) as exc:
            self._release()
            raise StoreError(f"{_shown(url)}: {getattr(exc, 'orig', None) or exc}") from exc
        self.last_seq = self._last_seq()

    # -- opening ---------------------------------------------------------------------------------------
    def _open(self, url: str) -> Engine:
        if "://" not in url:
            path = self._path = Path(url)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._hold(path)
            _put_aside(path)
            url = f"sqlite:///{path}"
        engine = create_engine(url, pool_size=8, max_overflow=40)
        if engine.dialect.name == "sqlite":
            hooks.listen(engine, "connect", _pragmas)
            hooks.listen(engine, "begin", _begin)
        return engine

    def _hold(self, path: Path) -> None:
        """Two writers would overtake each other's offsets."""
        self._held = path.with_name(path.name + ".lock").open("w")
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            raise OSError("in use by another process") from exc

    def _release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def _prepare(self) -> None:
        version = str(schema.VERSION)
        with self._engine.begin() as db:
            if inspect(db).has_table(schema.meta.name):
                if db.scalar(select(schema.meta.c.value).where(schema.meta.c.name == "version")) == version:
                    return
                old = MetaData()
                old.reflect(db, only=lambda name, _: name in schema.metadata.tables)
                old.drop_all(db)
            schema.metadata.create_all(db)
            db.execute(insert(schema.meta).values(name="version", value=version))

    def _last_seq(self) -> int:
        """A store that is made anew counts the live stream on from the present microsecond: higher than any
        number that a lost one gave out, so that a listener who comes back gets everything again, not less."""
        with self.read() as db:
            last = db.scalar(select(func.max(schema.stream.c.seq)))
        return int(last) if last is not None else time.time_ns() // NS_PER_US

    # -- writing ---------------------------------------------------------------------------------------
    def ingest(
        self,
        events: Iterable[tuple[str, Event[Any]]],
        offsets: Offsets | None = None,
        epoch: int | None = None,
        samples: Sequence[Sample] = (),
    ) -> Written:
        """Keep `(topic, event)`s, and with them how far their topics have been read: one transaction.

        The order does not matter, nor how often an event comes. `samples` are events on their short way
        (`correlator.service.samples`). Raises `StoreError`, and `EmptiedError` when
        `epoch` is given and the store was emptied since: those offsets hold no more.
        """
        made = [record_of(topic, event) for topic, event in events if is_kept(event)]
        records = [record for record in made if fits(record)]
        with self._lock:
            if epoch is not None and epoch != self.epoch:
                raise EmptiedError("emptied meanwhile")
            try:
                with self._engine.begin() as db:
                    written = write(db, records, self.last_seq, samples)
                    rows = [{"topic": t, "partition": p, "next": n} for (t, p), n in (offsets or {}).items()]
                    insert_all(db, schema.offsets, rows, replace=True)
            except DBAPIError as exc:
                raise StoreError(str(exc.orig)) from exc
            if written.seqs:
                self.last_seq = written.seqs[-1][0]
            written.refused = len(made) - len(records)
            self.version += written.visible
            if written.seqs:
                for listener in tuple(self._listeners):  # under the lock, so that they hear in order
                    listener(written)
        return written

    def adopt(self, origin: str) -> bool:
        """Say what the store is filled from (broker's cluster, prefix). True: it was filled from something
        else, and has been emptied."""
        with self.read() as db:
            known = db.scalar(select(schema.meta.c.value).where(schema.meta.c.name == "origin"))
        if known == origin:
            return False
        if known is not None:
            self.empty()
        with self._lock, self._engine.begin() as db:
            insert_all(db, schema.meta, [{"name": "origin", "value": origin}], replace=True)
        return known is not None

    def empty(self) -> None:
        """Forget everything but the number that the live stream has come to."""
        with self._lock, self._engine.begin() as db:
            for table in schema.metadata.sorted_tables:
                if table is not schema.meta:
                    db.execute(delete(table))
            self.epoch += 1
            self.version += 1

    def prune(self, before: int, samples_before: int) -> int:
        """Drop what is older than `before` (ns), and uncited samples older than `samples_before`; open
        conditions, and attempts that something was said of since, stay. Returns the number of rows dropped.
        """
        e, c, a, v = schema.events.c, schema.conditions.c, schema.attempts.c, schema.verdicts.c
        cited = select(schema.causes.c.cause).where(schema.causes.c.cause == e.id).exists()
        # the last words on what is still there
        held = (
            select(schema.attempts.c.key)
            .where((a.job_event == e.id) | (a.verdict_event == e.id) | (a.action_event == e.id))
            .exists()
            | select(schema.conditions.c.key).where(c.event == e.id).exists()
            | select(schema.nodes.c.key).where(schema.nodes.c.health_id == e.id).exists()
        )
        dropped = self._drop(schema.attempts, "key", a.last < before)
        dropped += self._drop(schema.conditions, "key", (c.time < before) & not_(c.open))
        dropped += self._drop(schema.events, "id", e.sample & (e.time < samples_before) & ~cited)
        gone = self._drop(schema.events, "id", (e.time < before) & ~held)
        dropped += self._drop(schema.verdicts, "event", v.time < before) if gone else 0
        with self._lock, self._engine.begin() as db:
            last = schema.stream.c.seq < self.last_seq  # the newest number is remembered
            db.execute(delete(schema.stream).where((schema.stream.c.time < before) & last))
            if gone:
                kept = select(schema.events.c.id)
                db.execute(delete(schema.causes).where(schema.causes.c.effect.not_in(kept)))
                db.execute(delete(schema.concerns).where(schema.concerns.c.event.not_in(kept)))
                db.execute(delete(schema.named).where(schema.named.c.event.not_in(kept)))
                db.execute(delete(schema.condition_of).where(schema.condition_of.c.event.not_in(kept)))
            self.version += 1
        return dropped + gone

    def _drop(self, table: Any, key: str, condition: Any) -> int:
        dropped = 0
        while True:
            with self._lock, self._engine.begin() as db:
                some = select(table.c[key]).where(condition).limit(PRUNE_ROWS)
                count = db.execute(delete(table).where(table.c[key].in_(some))).rowcount
            dropped += count
            if count < PRUNE_ROWS:
                return dropped

    # -- reading ---------------------------------------------------------------------------------------
    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection on which everything is read from one state of the store."""
        with self._engine.connect() as db:
            yield db

    def offsets(self) -> dict[tuple[str, int], int]:
        with self.read() as db:
            return {(row.topic, row.partition): row.next for row in db.execute(select(schema.offsets))}

    def subscribe(self, listener: Callable[[Written], None]) -> Callable[[], None]:
        """Call `listener` after each batch that has news for the live stream, in the writer's thread.
        Returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def size_bytes(self) -> int | None:
        """Of an SQLite file with its log; None elsewhere."""
        if self._path is None:
            return None
        files = (self._path, self._path.with_name(self._path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def check(self) -> None:
        """Raises `StoreError` when the store does not answer."""
        try:
            with self.read() as db:
                db.execute(text("SELECT 1"))
        except DBAPIError as exc:
            raise StoreError(str(exc.orig)) from exc

    def close(self) -> None:
        self._engine.dispose()
        self._release()


def _put_aside(path: Path) -> None:
    """A file that is no database (a disk was full, somebody wrote over it) is kept beside, for who asks."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("rb") as file:
        if file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC:
            return
    log.warning("%s is no SQLite database; it is put aside, and the store is made anew", path)
    path.replace(path.with_name(path.name + ".broken"))
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _begin(db: Connection) -> None:
    """The driver begins transactions only before writes; readers need one state, too."""
    db.exec_driver_sql("BEGIN")


def _pragmas(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN
    cursor = connection.cursor()
    for pragma in (
        "journal_mode = WAL",
        "synchronous = NORMAL",  # a power cut may cost the last batches; their offsets go with them
        "busy_timeout = 10000",
        "temp_store = MEMORY",
        "mmap_size = 268435456",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _shown(url: str | Path) -> str:
    """Without the password."""
    scheme, separator, rest = str(url).partition("://")
    return f"{scheme}://…@{rest.rpartition('@')[2]}" if separator and "@" in rest else str(url)
