"""A group of controllers of which one acts: all partitions go to the member that has been there longest.

Limits are counted over everything that was done, so the work can't be split. The others stand by and take
over when the active one leaves or is not heard of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata


def oldest_member(since_ns: int) -> type[AbstractPartitionAssignor]:
    """The assignor of a member that runs since `since_ns`. aiokafka wants a class, hence one for each."""

    class OldestMember(AbstractPartitionAssignor):  # type: ignore[misc]  # aiokafka has no types
        name = "faultwire-oldest-member"
        version = 0

        @classmethod
        def assign(
            cls, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
        ) -> dict[str, ConsumerProtocolMemberAssignment]:
            active = min(members, key=lambda member: (_since(members[member]), member))
            topics = {topic for metadata in members.values() for topic in metadata.subscription}
            everything = [(t, sorted(cluster.partitions_for_topic(t) or ())) for t in sorted(topics)]
            return {
                member: ConsumerProtocolMemberAssignment(
                    cls.version, everything if member == active else [], b""
                )
                for member in members
            }

        @classmethod
        def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
            return ConsumerProtocolMemberMetadata(cls.version, list(topics), b"%d" % since_ns)

        @classmethod
        def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
            """Nothing is kept from one assignment to the next."""

    return OldestMember


def _since(metadata: ConsumerProtocolMemberMetadata) -> int:
    text = bytes(metadata.user_data or b"")
    return int(text) if text.isdigit() else 2**63
