"""What can go wrong with a broker, each said in one sentence with the way out."""

from __future__ import annotations


class BrokerError(Exception):
    """A broker can't be started, reached or stopped; the message says what to do."""


class NoBrokerError(BrokerError):
    """None of the three ways to a broker can be had on this machine."""


class BrokerStartError(BrokerError):
    """A broker was started and did not become ready; the message names its log."""
