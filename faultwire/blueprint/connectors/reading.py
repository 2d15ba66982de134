"""Lines of any store on their way to the parsers."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.stores.lines import Content, KernelLines, LineRules, WorkloadLines, place
from collectors.stores.loki_answers import Entry
from collectors.stores.names import NodeNames
from faultwire.blueprint.gather import Found, Gathering


class Reading:
    """Lines of one content on their way to the parsers."""

    def __init__(self, content: Content, rules: LineRules, gathering: Gathering, found: Found) -> None:
        context = gathering.context
        self._content = content
        self._rules = rules
        self._names: NodeNames = gathering.names
        self._found = found
        attempts = context.attempts()
        self._workload = WorkloadLines(
            context.cluster,
            context.job.job_id,
            lambda at: attempts.at(context.job.job_id, at),
            rules,
            gathering.names,
        )
        self._kernel = KernelLines(rules, gathering.names)
        self._fabric: dict[str, int] = {}

    def feed(self, entries: Sequence[Entry], stream: str, offsets: Sequence[int] | None = None) -> None:
        if self._content == "workload":
            for i, entry in enumerate(entries):
                offset = offsets[i] if offsets is not None else None
                self._found.events += self._workload.feed(entry, stream, offset)
        elif self._content == "kernel":
            for entry in entries:
                self._kernel.feed(entry)
        else:
            for entry in entries:
                line = place(entry, self._rules, self._names)
                if line.node is not None:
                    self._found.fabric.setdefault(line.node, []).append(line.text)
                    self._fabric[line.node] = self._fabric.get(line.node, 0) + 1

    def end(self) -> None:
        """Call it after the last line of a stream of lines."""
        found, report = self._found, self._found.report
        if self._content == "workload":
            found.events += self._workload.flush()
        for node, records in self._kernel.records.items():
            found.kernel.setdefault(node, []).extend(records)
        for counted in (self._workload.per_node, self._kernel.per_node, self._fabric):
            for node, lines in counted.items():
                report.nodes[node] = report.nodes.get(node, 0) + lines
        homeless = self._workload.homeless + self._kernel.homeless
        if homeless:
            report.problem(f"{homeless:,} lines name none of the attempt's nodes")
        if self._workload.timeless:
            report.problem(f"{self._workload.timeless:,} lines have no time: they can't be placed")
        if self._workload.foreign:
            report.problem(f"{self._workload.foreign:,} lines are of other jobs")
        report.kept = len(found.events) + sum(map(len, found.kernel.values())) + sum(self._fabric.values())
