"""A real Apache Kafka on this machine: an existing one, a container, or a JVM.

For a program that wants one while it runs:

    with broker.ensure(say=print) as running:
        ...  # running.bootstrap == "127.0.0.1:41233"

For fault tests, nodes that can be killed one by one:

    with Cluster(folder, brokers=3) as cluster:
        cluster.kill(2)
        cluster.restart(2)

For a person: `faultwire broker start|stop|status` (`faultwire.broker.daemon`).
"""

from faultwire.broker.cluster import Cluster
from faultwire.broker.errors import BrokerError, BrokerStartError, NoBrokerError
from faultwire.broker.jvm import SERVING
from faultwire.broker.local import RunningBroker, ensure

__all__ = [
    "SERVING", "BrokerError", "BrokerStartError", "Cluster", "NoBrokerError", "RunningBroker", "ensure",
]  # fmt: skip
