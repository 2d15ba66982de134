"""Post-mortem analyses: contexts and observations are kept, and the engine is run over them when asked.

What is submitted stays in a folder of its own and never meets the store, the live stream or Kafka: there is
no way from here to an action. The analysis runs in another process, which is ended when it takes too long.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio.to_process
import orjson
from anyio import BrokenWorkerProcess, CapacityLimiter

from correlator.service.context import ExecutionContext, Observation, ObservationHead
from correlator.service.problems import ProblemError
from correlator.service.settings import ServiceSettings

CONTEXT: Final = "context.json"
HEADS: Final = "observations.jsonl"
MOST_OBSERVATIONS: Final = 10_000

Analyse = Callable[[str], dict[str, Any]]
"""A folder with `context.json`, `observations.jsonl` (heads with `id`) and `<id>.body` files -> what it comes
to: `{"revisions": [attribution payloads], "observations": {id: {"events", "problems"}}, "events": {kind:
count}, "problems": [texts]}`. Must be importable by name: it is called in another process."""

Runner = Callable[[Analyse, str], Coroutine[Any, Any, dict[str, Any]]]


@dataclass(slots=True)
class Attributor:
    """One attempt under analysis."""

    id: str
    context: ExecutionContext
    owner: str
    folder: Path
    touched: float
    size: int = 0
    observations: dict[str, ObservationHead] = field(default_factory=dict)
    analysed: tuple[int, dict[str, Any]] | None = None
    """(number of observations, what they came to)"""
    running: tuple[int, asyncio.Task[dict[str, Any]]] | None = None
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)


class Attributors:
    """All of them. `clock` is monotonic seconds; `run` calls `analyse` somewhere."""

    def __init__(
        self,
        settings: ServiceSettings,
        analyse: Analyse,
        *,
        run: Runner | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._analyse = analyse
        self._run = run or self._in_process
        self._clock = clock
        self._all: dict[str, Attributor] = {}
        self._limiter: CapacityLimiter | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._spool: Path | None = None

    def __len__(self) -> int:
        return len(self._all)

    @property
    def size(self) -> int:
        """Bytes of all observations."""
        return sum(a.size for a in self._all.values())

    def close(self) -> None:
        for attributor in tuple(self._all.values()):
            self._forget(attributor)
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    async def create(self, context: ExecutionContext, owner: str) -> Attributor:
        """Raises `ProblemError` when there are too many that are in use."""
        self._expire()
        if len(self._all) >= self._settings.max_attributors:
            idle = [a for a in self._all.values() if a.running is None]
            if not idle:
                raise ProblemError(503, "all attributors are in use", headers={"Retry-After": "30"})
            self._forget(min(idle, key=lambda a: a.touched))
        name = secrets.token_hex(16)
        folder = self._root() / name
        attributor = Attributor(name, context, owner, folder, self._clock())
        await asyncio.to_thread(_begin, folder, context)
        self._all[name] = attributor
        return attributor

    def get(self, name: str) -> Attributor:
        """Raises `ProblemError` (404)."""
        self._expire()
        found = self._all.get(name)
        if found is None:
            raise ProblemError(404, "there is no such attributor, or it was idle for too long")
        found.touched = self._clock()
        return found

    def delete(self, name: str) -> None:
        self._forget(self.get(name))

    async def observe(self, name: str, observation: Observation) -> tuple[str, bool]:
        """(id, whether it was there already): the same observation again is the same."""
        attributor = self.get(name)
        head, body = _parts(observation)
        told = head.model_dump(mode="json", exclude_none=True)
        digest = hashlib.blake2b(digest_size=16)
        digest.update(orjson.dumps(told, option=orjson.OPT_SORT_KEYS) + b"\n" + body)
        observation_id = digest.hexdigest()
        async with attributor.writing:
            if observation_id in attributor.observations:
                return observation_id, True
            settings = self._settings
            if attributor.size + len(body) > settings.attributor_bytes:
                raise ProblemError(413, f"an attributor takes {settings.attributor_bytes} bytes in all")
            if self.size + len(body) > settings.attributors_bytes:
                raise ProblemError(503, "no room for further observations", headers={"Retry-After": "60"})
            if len(attributor.observations) >= MOST_OBSERVATIONS:
                raise ProblemError(413, f"an attributor takes {MOST_OBSERVATIONS} observations")
            attributor.size += len(body)
            try:
                await asyncio.to_thread(_keep, attributor.folder, observation_id, told, body)
            except OSError as exc:
                attributor.size -= len(body)
                raise ProblemError(503, "the observation could not be kept") from exc
            attributor.observations[observation_id] = head
        return observation_id, False

    async def attribution(self, name: str, phase: str) -> dict[str, Any]:
        """What the observations come to so far. `fast` is the verdict that stood shortly after the onset,
        `slow` the last one. Raises `ProblemError` when the analysis fails or takes too long."""
        attributor = self.get(name)
        result = await self._result(attributor)
        revisions = result["revisions"]
        early = [r for r in revisions if r["phase"] != "final"]
        chosen = (early or revisions)[-1:] if phase == "fast" else revisions[-1:]
        said: dict[str, dict[str, Any]] = result["observations"]
        return {
            "id": attributor.id,
            "job_id": attributor.context.job_id,
            "attempt": attributor.context.attempt,
            "phase": phase,
            "attribution": chosen[0] if chosen else None,
            "revisions": revisions,
            "observations": [
                {
                    "id": key,
                    "source": head.source,
                    "format": head.format,
                    **said.get(key, {"events": 0, "problems": ["not read yet"]}),
                }
                for key, head in attributor.observations.items()
            ],
            "events": result["events"],
            "problems": result["problems"],
        }

    # -- inside ------------------------------------------------------------------------------------------
    async def _result(self, attributor: Attributor) -> dict[str, Any]:
        """Computed once for everybody who asks while nothing is added."""
        count = len(attributor.observations)
        if attributor.analysed is not None and attributor.analysed[0] == count:
            return attributor.analysed[1]
        if attributor.running is None or attributor.running[0] != count:
            task = asyncio.create_task(self._run(self._analyse, str(attributor.folder)))
            attributor.running = (count, task)
        count, task = attributor.running
        try:
            result = await asyncio.shield(task)
        finally:
            if task.done() and attributor.running is not None and attributor.running[1] is task:
                attributor.running = None
        attributor.analysed = (count, result)
        attributor.touched = self._clock()
        return result

    async def _in_process(self, analyse: Analyse, folder: str) -> dict[str, Any]:
        if self._limiter is None:
            self._limiter = CapacityLimiter(self._settings.analyses)
        try:
            async with self._limiter:
                with anyio.fail_after(self._settings.analysis_timeout_s):
                    return await anyio.to_process.run_sync(
                        analyse, folder, cancellable=True, limiter=CapacityLimiter(1)
                    )
        except TimeoutError as exc:
            limit = self._settings.analysis_timeout_s
            raise ProblemError(503, f"the analysis took more than {limit:g} s and was ended") from exc
        except BrokenWorkerProcess as exc:
            raise ProblemError(503, "the analysis ended without a result") from exc

    def _root(self) -> Path:
        if self._spool is None:
            if self._settings.spool is not None:
                self._settings.spool.mkdir(parents=True, exist_ok=True)
            self._temporary = tempfile.TemporaryDirectory(prefix="faultwire-", dir=self._settings.spool)
            self._spool = Path(self._temporary.name)
        return self._spool

    def _expire(self) -> None:
        late = self._clock() - self._settings.attributor_idle_s
        for attributor in [a for a in self._all.values() if a.touched < late and a.running is None]:
            self._forget(attributor)

    def _forget(self, attributor: Attributor) -> None:
        self._all.pop(attributor.id, None)
        if attributor.running is not None:
            attributor.running[1].cancel()
        shutil.rmtree(attributor.folder, ignore_errors=True)


def _begin(folder: Path, context: ExecutionContext) -> None:
    folder.mkdir(mode=0o700)
    (folder / CONTEXT).write_bytes(orjson.dumps(context.model_dump(mode="json")))
    (folder / HEADS).touch()


def _parts(observation: Observation) -> tuple[ObservationHead, bytes]:
    head = ObservationHead.model_validate(observation.model_dump(exclude={"body"}))
    body = observation.body
    if isinstance(body, str):
        return head, body.encode("utf-8", "replace")
    if head.format in ("kernel", "fabric_manager", "workload"):
        raise ProblemError(422, f"the body of format {head.format} is text")
    return head, orjson.dumps(body)


def _keep(folder: Path, name: str, head: dict[str, Any], body: bytes) -> None:
    """The body first: a head without one would be read as an empty observation."""
    (folder / f"{name}.body").write_bytes(body)
    with contextlib.closing((folder / HEADS).open("ab")) as heads:
        heads.write(orjson.dumps({"id": name, **head}) + b"\n")
