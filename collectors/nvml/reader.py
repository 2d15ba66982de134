"""Samples every GPU: throttling, links and health, each at its own pace, in one thread with a deadline.

A transition is told at once, a full sample now and then; levels go to the heartbeat. A GPU that is lost
says so once and keeps its name. A call that hangs is reported with what it asked; the agent goes on.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from collectors.clock import Clock, Stamps
from collectors.deadline import HungError, Worker
from collectors.inventory import GpuDevice
from collectors.levels import LevelBoard
from collectors.nvml import links, samples
from collectors.nvml.library import DriverGoneError, Gpu, GpuLostError, Library
from collectors.nvml.link_tracker import LinkTracker
from collectors.reader import Emit, Health, SourceAbsentError, SourceFailedError
from topics import ids, payloads
from topics.events import Event, make
from topics.payloads import Payload

LOST_RETRY_S: Final = 60.0
"""A lost GPU comes back only after a reset or reboot: it is asked seldom."""


@dataclass(slots=True)
class _Seen:
    """What was told last of one GPU."""

    mask: int | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Intervals:
    throttle_s: float = 2.0
    link_s: float = 10.0
    sample_s: float = 30.0
    deadline_s: float = 10.0


class NvmlReader:
    """`found` gets the GPUs of each session; `library` makes a session."""

    name = "nvml"

    def __init__(
        self,
        cluster: str,
        node: str,
        board: LevelBoard,
        clock: Clock,
        stamps: Stamps,
        intervals: Intervals = Intervals(),
        found: Callable[[Iterable[GpuDevice], str | None], None] = lambda _gpus, _driver: None,
        library: Callable[[], Library] = Library,
    ) -> None:
        self.health = Health()
        self._cluster = cluster
        self._node = node
        self._board = board
        self._clock = clock
        self._stamps = stamps
        self._intervals = intervals
        self._found = found
        self._make_library = library
        self._library = library()
        self._worker = Worker("faultwire-nvml")
        self._gpus: list[Gpu] = []
        self._links: dict[str, links.Links] = {}
        self._tracker = LinkTracker(board)
        self._seen: dict[str, _Seen] = {}
        self._lost_until: dict[str, float] = {}
        self._wanted: set[str] = set()
        self._wake = threading.Event()

    def sample_soon(self, uuid: str) -> None:
        """Take a full sample of this GPU now: an event said that something happened to it."""
        self._wanted.add(uuid)
        self._wake.set()

    async def run(self, emit: Emit) -> None:
        await self._open()
        loop = asyncio.get_running_loop()
        every = self._intervals
        self.health.max_silence_s = every.deadline_s * 3 + max(every.link_s, every.throttle_s) * 2
        link_due = sample_due = loop.time()
        try:
            while True:
                self.health.last_turn = self._clock.monotonic()
                self._wake.clear()
                wanted, self._wanted = self._wanted, set()
                now = loop.time()
                if now >= link_due:
                    await self._link(emit)
                    link_due = now + every.link_s
                if now >= sample_due:
                    await self._throttle(emit, self._alive())
                    await self._sample(emit, self._alive())
                    sample_due = now + every.sample_s
                elif wanted:
                    await self._sample(emit, [gpu for gpu in self._alive() if gpu.uuid in wanted])
                self._judge()
                await self._watch(emit, min(link_due, sample_due))
        except DriverGoneError as exc:
            await self._close()
            raise SourceFailedError(f"the driver went away: {exc}") from exc
        except HungError as exc:
            self._forget_levels()
            asked = self._library.calling or "a call"
            self._library = self._make_library()
            raise SourceFailedError(f"NVML hangs: {asked}: {exc}") from exc
        finally:
            self._wake.set()

    async def once(self, emit: Emit) -> None:
        await self._open()
        try:
            await self._throttle(emit, self._alive())
            await self._link(emit)
            await self._sample(emit, self._alive())
            self._judge()
        except (DriverGoneError, HungError) as exc:
            raise SourceFailedError(f"NVML: {exc}") from exc
        finally:
            self._worker.close()

    # -- inside ---------------------------------------------------------------------------------------

    async def _open(self) -> None:
        library = self._library
        try:
            self._gpus = await self._worker.call(library.open, self._intervals.deadline_s)
        except HungError as exc:
            self._library = self._make_library()
            raise SourceFailedError(f"NVML hangs while it starts: {exc}") from exc
        if not self._gpus and not library.errors:
            await self._close()
            raise SourceAbsentError("the driver sees no GPU")
        self._found([GpuDevice(g.index, g.uuid, g.bdf) for g in self._gpus], library.driver_version)
        for gpu in self._gpus:
            self._seen.setdefault(gpu.uuid, _Seen())
        self._lost_until.clear()
        self._links.clear()

    async def _close(self) -> None:
        self._forget_levels()
        library, self._library = self._library, self._make_library()
        try:
            await self._worker.call(library.close, self._intervals.deadline_s)
        except HungError:
            return

    def _alive(self) -> list[Gpu]:
        now = asyncio.get_running_loop().time()
        return [gpu for gpu in self._gpus if self._lost_until.get(gpu.uuid, 0.0) <= now]

    async def _each(self, gpus: list[Gpu], ask: Callable[[Gpu], Any], emit: Emit) -> list[tuple[Gpu, Any]]:
        """Ask every GPU in the worker thread; lost ones are told and left out."""

        def work() -> list[tuple[Gpu, Any]]:
            answers: list[tuple[Gpu, Any]] = []
            for gpu in gpus:
                try:
                    answers.append((gpu, ask(gpu)))
                except GpuLostError as exc:
                    answers.append((gpu, exc))
            return answers

        answers = await self._worker.call(work, self._intervals.deadline_s)
        self.health.read(self._clock.realtime())
        lost = [gpu for gpu, answer in answers if isinstance(answer, GpuLostError)]
        if lost:
            self._lose(lost, emit)
        for gpu, answer in answers:
            if not isinstance(answer, GpuLostError):
                self._seen[gpu.uuid].lost = False
        return [(gpu, answer) for gpu, answer in answers if not isinstance(answer, GpuLostError)]

    def _lose(self, gpus: list[Gpu], emit: Emit) -> None:
        events = []
        for gpu in gpus:
            self._lost_until[gpu.uuid] = asyncio.get_running_loop().time() + LOST_RETRY_S
            self._forget(gpu.uuid)
            seen = self._seen[gpu.uuid]
            if not seen.lost:
                seen.lost = True
                payload = payloads.Gpu(
                    gpu_uuid=gpu.uuid, index=gpu.index, pci_bdf=gpu.bdf, model=gpu.name, lost=True
                )
                events.append(self._event(payload, f"gpu/{gpu.uuid}", "lost"))
        if events:
            emit(events)

    async def _watch(self, emit: Emit, until: float) -> None:
        """The thread looks at the masks on its own, and comes back with the GPUs whose mask has changed."""
        library, gpus, interval_s = self._library, self._alive(), self._intervals.throttle_s
        before = {gpu.uuid: self._seen[gpu.uuid].mask for gpu in gpus}

        def differs(gpu: Gpu) -> bool:
            try:
                return samples.reasons(library, gpu) != before[gpu.uuid]
            except GpuLostError:
                return True

        def look() -> list[Gpu]:
            while not self._wake.wait(min(interval_s, max(0.0, until - time.monotonic()))):
                changed = [gpu for gpu in gpus if differs(gpu)]
                if changed or time.monotonic() >= until:
                    return changed
            return []

        deadline_s = self._intervals.deadline_s
        changed = await self._worker.call(look, deadline_s, alive=lambda: library.stuck_s() < deadline_s)
        self.health.read(self._clock.realtime())
        if changed:
            await self._throttle(emit, changed)

    async def _throttle(self, emit: Emit, gpus: list[Gpu]) -> None:
        library = self._library
        events = []
        for gpu, told in await self._each(gpus, lambda gpu: samples.throttle(library, gpu), emit):
            self._seen[gpu.uuid].mask = told.mask if told else None
            if told is None:
                self._board.throttle.pop(gpu.uuid, None)
                continue
            self._board.throttle[gpu.uuid] = told.reasons
            events.append(self._event(told, f"gpu/{gpu.uuid}", f"{told.mask:#x}"))
        if events:
            emit(events)

    async def _link(self, emit: Emit) -> None:
        library, known = self._library, self._links

        def ask(gpu: Gpu) -> list[links.Values]:
            if gpu.uuid not in known:
                known[gpu.uuid] = links.probe(library, gpu)
            return links.read(library, gpu, known[gpu.uuid])

        events = [
            self._event(told, f"nvlink/{gpu.uuid}/{told.link}", told.state)
            for gpu, rows in await self._each(self._alive(), ask, emit)
            for told in self._tracker.changed(gpu, known[gpu.uuid], rows)
        ]
        if events:
            emit(events)

    async def _sample(self, emit: Emit, gpus: list[Gpu]) -> None:
        library = self._library
        answers = await self._each(gpus, lambda gpu: samples.health(library, gpu), emit)
        events = [self._event(told, f"gpu/{gpu.uuid}", "sample") for gpu, told in answers]
        if events:
            emit(events)

    def _event(self, payload: Payload, subject: str, state: str) -> Event[Any]:
        now = self._stamps.now()
        return make(
            payload,
            id=ids.transition_id(self._cluster, self._node, subject, payload.kind, now, state),
            source=f"/{self._cluster}/{self._node}/nvml",
            subject=subject,
            time=now,
            key=self._node,
        )

    def _judge(self) -> None:
        lost = [uuid for uuid, seen in self._seen.items() if seen.lost]
        troubles = [f"{uuid} is lost" for uuid in lost]
        troubles += [f"{what}: {why}" for what, why in list(self._library.errors.items())[:3]]
        if troubles:
            self.health.set("degraded", "; ".join(troubles))
        else:
            self.health.ok()

    def _forget(self, uuid: str) -> None:
        self._board.throttle.pop(uuid, None)
        self._tracker.forget(uuid)

    def _forget_levels(self) -> None:
        self._board.throttle.clear()
        self._board.nvlinks.clear()
