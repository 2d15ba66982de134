"""What can be wrong with a record, told so that a reader of the dead-letter topic knows what to fix; and
what can be wrong with a broker."""

from __future__ import annotations


class ContractError(Exception):
    """Base of everything this room raises about data."""


class DecodeError(ContractError):
    """A record, or one event of a batch, does not follow the contract.

    `reason` is a stable word for counting; the message says where and why.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class EncodeError(ContractError):
    """An event holds something that JSON can't say; a bug of whoever built it."""


class AdminError(Exception):
    """The broker can't be asked, or refused to create a topic; the message names the topic and why."""


class SecurityError(Exception):
    """The credentials for Kafka can't be used; the message names the file and why, never what is in it."""
