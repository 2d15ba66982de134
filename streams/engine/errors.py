"""What stops a worker. None of these is ever handled by going on."""

from __future__ import annotations


class EngineError(Exception):
    """Base: the process must end with exit code 1 and start again from Kafka."""


class PreflightError(EngineError):
    """The topics are missing or not what the engine needs; the message says what to do."""


class StateError(EngineError):
    """A changelog value that can't be read."""


class DeliveryError(EngineError):
    """An output or a state could not be delivered."""


class OwnershipError(EngineError):
    """Source partitions were assigned without the changelog partitions that hold their state."""
