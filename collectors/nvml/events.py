"""XIDs and recovery actions as NVML events: a thread that waits in the library.

The kernel log tells the same XIDs with more words. So an event waits a moment for its line; only one
without a line (no access to the log, records lost) is told from here.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pynvml

from collectors.clock import Clock, Stamps
from collectors.deadline import HungError, Worker
from collectors.nvml.library import DRIVER_GONE, Gpu, Library
from collectors.parsers.xid import GpuName, XidLine, xid_payload
from collectors.reader import Emit, Health, SourceAbsentError, SourceFailedError
from topics import ids
from topics.events import Event, make
from topics.payloads import Repeats
from topics.time import NS_PER_S

WAIT_MS: Final = 5_000
BURST: Final = 64
HOLD_S: Final = 1.0
"""How long an event waits for the kernel's line."""
SAME_FACT_NS: Final = 2 * NS_PER_S
ANY_INSTANCE: Final = 0xFFFFFFFF


@dataclass(slots=True)
class XidLedger:
    """Which XIDs the kernel log has told lately, so that NVML does not tell them again."""

    _told: dict[tuple[str, int], int] = field(default_factory=dict)

    def note(self, bdf: str, xid: int, at: int) -> None:
        """`at` is monotonic ns."""
        self._told[bdf, xid] = at

    def told(self, bdf: str, xid: int, at: int) -> bool:
        """The log told this XID of this GPU about when (monotonic ns) the event came."""
        when = self._told.get((bdf, xid))
        return when is not None and abs(when - at) <= SAME_FACT_NS


@dataclass(frozen=True, slots=True)
class _Received:
    gpu: Gpu
    kind: int
    data: int
    gpu_instance: int
    compute_instance: int
    at: int
    monotonic: int


@dataclass(slots=True)
class _Held:
    """An XID that waits for its line, and how often it came meanwhile."""

    first: _Received
    last: int
    count: int = 1


class NvmlEventsReader:
    """`changed` is called with the UUID of a GPU that should be sampled now."""

    name = "nvml_events"

    def __init__(
        self,
        cluster: str,
        node: str,
        clock: Clock,
        stamps: Stamps,
        ledger: XidLedger,
        changed: Callable[[str], None] = lambda _: None,
        *,
        log_is_read: Callable[[], bool] = lambda: True,
        deadline_s: float = 10.0,
        library: Callable[[], Library] = Library,
    ) -> None:
        self.health = Health()
        self._cluster = cluster
        self._node = node
        self._clock = clock
        self._stamps = stamps
        self._ledger = ledger
        self._changed = changed
        self._log_is_read = log_is_read
        self._deadline_s = deadline_s
        self._make_library = library
        self._worker = Worker("faultwire-nvml-events")
        self._set: Any = None
        self._gpus: dict[int, Gpu] = {}
        self._held: dict[tuple[str, int, int, int], _Held] = {}

    async def run(self, emit: Emit) -> None:
        library = self._make_library()
        try:
            unwatched = await self._worker.call(lambda: self._register(library), self._deadline_s)
            self.health.max_silence_s = self._deadline_s * 2 + WAIT_MS / 1000
            self._judge(unwatched)
            while True:
                self.health.last_turn = self._clock.monotonic()
                wait_ms = round(HOLD_S * 250) if self._held else WAIT_MS
                got = await self._worker.call(partial(self._wait, wait_ms), wait_ms / 1000 + self._deadline_s)
                self.health.last_read = self._clock.realtime()
                self._take(got, emit)
        except HungError as exc:
            raise SourceFailedError(f"NVML hangs: waiting for events: {exc}") from exc
        except pynvml.NVMLError as exc:
            await self._close(library)
            if exc.value in DRIVER_GONE:
                raise SourceFailedError(f"the driver went away: {exc}") from exc
            raise SourceFailedError(f"waiting for events: {exc}") from exc

    async def once(self, emit: Emit) -> None:
        """Nothing to read: events only come while one waits."""
        library = self._make_library()
        try:
            unwatched = await self._worker.call(lambda: self._register(library), self._deadline_s)
        except (HungError, pynvml.NVMLError) as exc:
            raise SourceFailedError(f"NVML events: {exc}") from exc
        self._judge(unwatched)
        emit([])
        await self._close(library)

    # -- in the thread --------------------------------------------------------------------------------

    def _register(self, library: Library) -> list[str]:
        """Watch every GPU for what it supports; names of those that can't be watched."""
        gpus = library.open()
        if not gpus:
            raise SourceAbsentError("the driver sees no GPU")
        self._set = pynvml.nvmlEventSetCreate()
        self._gpus = {}
        unwatched: list[str] = []
        for gpu in gpus:
            self._gpus[_address(gpu.handle)] = gpu
            try:
                # One type that is not supported would refuse all of them, so only what is.
                wanted = pynvml.nvmlDeviceGetSupportedEventTypes(gpu.handle) & _WANTED
                pynvml.nvmlDeviceRegisterEvents(gpu.handle, wanted, self._set)
            except pynvml.NVMLError as exc:
                if exc.value in DRIVER_GONE:
                    raise
                unwatched.append(f"{gpu.uuid}: {exc}")
        if len(unwatched) == len(gpus):
            raise SourceFailedError(f"no GPU can be watched: {unwatched[0]}")
        return unwatched

    def _wait(self, timeout_ms: int) -> list[_Received]:
        """Events that come within the time; after the first one only what is there already."""
        got: list[_Received] = []
        while len(got) < BURST:
            try:
                data = pynvml.nvmlEventSetWait_v2(self._set, 0 if got else timeout_ms)
            except pynvml.NVMLError as exc:
                if exc.value == pynvml.NVML_ERROR_TIMEOUT or (got and exc.value not in DRIVER_GONE):
                    break
                if exc.value == pynvml.NVML_ERROR_GPU_IS_LOST:
                    time.sleep(timeout_ms / 1000)  # of which GPU is not said: the samples find out
                    break
                raise
            gpu = self._gpus.get(_address(data.device))
            if gpu is not None:
                got.append(
                    _Received(
                        gpu,
                        data.eventType,
                        data.eventData,
                        data.gpuInstanceId,
                        data.computeInstanceId,
                        self._stamps.now(),
                        self._clock.monotonic(),
                    )
                )
        return got

    # -- in the loop ----------------------------------------------------------------------------------

    def _take(self, got: list[_Received], emit: Emit) -> None:
        for received in got:
            self._changed(received.gpu.uuid)
            if received.kind == pynvml.nvmlEventTypeXidCriticalError:
                self._hold(received)
        hold_ns = HOLD_S * NS_PER_S if self._log_is_read() else 0
        now = self._clock.monotonic()
        due = [key for key, held in self._held.items() if now - held.first.monotonic >= hold_ns]
        events = []
        for held in [self._held.pop(key) for key in due]:
            first = held.first
            if not self._ledger.told(first.gpu.bdf, first.data, first.monotonic):
                events.append(self._event(held))
        if events:
            emit(events)

    def _hold(self, received: _Received) -> None:
        key = (received.gpu.uuid, received.data, received.gpu_instance, received.compute_instance)
        held = self._held.get(key)
        if held is None:
            self._held[key] = _Held(received, received.at)
        else:
            held.count += 1
            held.last = received.at

    def _event(self, held: _Held) -> Event[Any]:
        received, gpu = held.first, held.first.gpu
        instances = (received.gpu_instance, received.compute_instance)
        line = XidLine(
            bdf=gpu.bdf,
            code=received.data,
            body="",
            message=f"NVML event: XID {received.data}",
            mig=None if ANY_INSTANCE in instances else "/".join(map(str, instances)),
        )
        payload = xid_payload(line, gpu=GpuName(gpu.uuid, gpu.index), via="nvml")
        if held.count > 1:
            repeats = Repeats(count=held.count, first=received.at, last=held.last)
            payload = payload.model_copy(update={"repeats": repeats})
        subject = f"gpu/{gpu.uuid}"
        return make(
            payload,
            id=ids.transition_id(self._cluster, self._node, subject, "xid", received.at, str(received.data)),
            source=f"/{self._cluster}/{self._node}/{self.name}",
            subject=subject,
            time=received.at,
            key=self._node,
        )

    def _judge(self, unwatched: list[str]) -> None:
        if unwatched:
            self.health.set("degraded", "not watched: " + "; ".join(unwatched))
        else:
            self.health.ok()

    async def _close(self, library: Library) -> None:
        def close() -> None:
            if self._set is not None:
                pynvml.nvmlEventSetFree(self._set)
                self._set = None
            library.close()

        try:
            await self._worker.call(close, self._deadline_s)
        except (HungError, pynvml.NVMLError):
            return


_WANTED: Final = (
    pynvml.nvmlEventTypeXidCriticalError
    | pynvml.nvmlEventTypeDoubleBitEccError
    | pynvml.nvmlEventMigConfigChange
    | pynvml.nvmlEventTypeDramRetirementEvent
    | pynvml.nvmlEventTypeDramRetirementFailure
    | pynvml.nvmlEventTypeNonFatalPoisonError
    | pynvml.nvmlEventTypeFatalPoisonError
    | pynvml.nvmlEventTypeGpuUnavailableError
    | pynvml.nvmlEventTypeGpuRecoveryAction
)


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
