"""All scenarios, registered by importing the modules that describe them."""

from tests.captures import gpu, hosts, network, workload
from tests.captures.catalogue import SCENARIOS

__all__ = ["SCENARIOS", "gpu", "hosts", "network", "workload"]
