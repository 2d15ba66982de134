"""Dead letters: what could not be read (or not be written), kept with the reason and the original bytes."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from streams.engine.api import Output
from topics.derived import DeadLetter
from topics.errors import DecodeError
from topics.events import make
from topics.ids import fact_id

if TYPE_CHECKING:
    from streams.engine.ledger import Record

TOPIC: Final = "dead-letter"
MAX_KEPT_BYTES: Final = 64 * 1024
"""Of a value; enough for every batch that follows the contract, small enough to keep thousands."""
MAX_ERRORS: Final = 5


@dataclass(frozen=True, slots=True)
class Letters:
    """Writes dead letters in the name of one app. Their ids depend on the record alone, so that reading it
    again, here or in another worker, tells the same fact."""

    cluster: str
    app: str

    def undecodable(self, record: Record, errors: Sequence[DecodeError]) -> Output:
        """The letter for a record none, or not all, of which could be read."""
        text = "; ".join(e.detail for e in errors[:MAX_ERRORS])
        if len(errors) > MAX_ERRORS:
            text += f" (+{len(errors) - MAX_ERRORS} more)"
        return self._letter(record, errors[0].reason, text, record.value or b"")

    def unwritable(self, output: Output, value: bytes, limit: int) -> Output:
        """The letter for an output larger than what readers accept. It stands for the output, whose id
        names it; to stop would mean to stop again at every start."""
        letter = DeadLetter(
            topic=output.topic,
            partition=-1,
            offset=-1,
            reason="output_too_large",
            error=f"{self.app} made event {output.event.id} of {len(value)} bytes, more than {limit}",
            key=output.key,
            value=b64encode(value[:MAX_KEPT_BYTES]).decode(),
            size_bytes=len(value),
            kept_bytes=min(len(value), MAX_KEPT_BYTES),
        )
        return self._output(letter, f"{output.topic}/{output.event.id}", output.event.time)

    def _letter(self, record: Record, reason: str, error: str, value: bytes) -> Output:
        letter = DeadLetter(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            reason=reason,
            error=error,
            key=None if record.key is None else record.key[:1024].decode("utf-8", "backslashreplace"),
            value=b64encode(value[:MAX_KEPT_BYTES]).decode(),
            size_bytes=len(value),
            kept_bytes=min(len(value), MAX_KEPT_BYTES),
        )
        place = f"{record.topic}/{record.partition}/{record.offset}"
        return self._output(letter, place, record.timestamp or 0)

    def _output(self, letter: DeadLetter, place: str, time: int) -> Output:
        event = make(
            letter,
            id=fact_id("dead-letter", self.cluster, place),
            source=f"/{self.cluster}/{self.app}",
            subject=f"record/{place}",
            time=time,
            key=place,
        )
        return Output(TOPIC, place, event)
