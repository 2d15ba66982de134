"""Lines from the pods of a job."""

from __future__ import annotations

from collectors.stores.bounds import Meter, StoreError
from collectors.stores.pods import PodFetch, streams
from collectors.stores.slices import Gap, Span
from faultwire.blueprint.connectors.reading import Reading
from faultwire.blueprint.gather import Connector, Gathering
from faultwire.blueprint.settings import PodsCollect
from topics.kube import parse_job_id


class PodsConnector(Connector):
    kind = "kubernetes_pods"

    def __init__(self, name: str, settings: PodsCollect) -> None:
        super().__init__(name, settings.bounds, "workload")
        self._settings = settings

    async def collect(self, gathering: Gathering, meter: Meter) -> None:
        from collectors.schedulers.kubernetes.connector import connect  # noqa: PLC0415  slow to import

        job = parse_job_id(gathering.context.job.job_id)
        if job is None:
            raise StoreError(f"{gathering.context.job.job_id!r:.80} is no job of Kubernetes")
        fetch = PodFetch(connect(self._settings.kubeconfig), job, meter)
        whole = Span(gathering.spans[0].start, gathering.spans[-1].end)
        found = streams(await fetch.pods())
        for number, stream in enumerate(found, 1):
            reading = Reading("workload", self._settings.rules, gathering, self.found)
            try:
                reading.feed(await fetch.read(stream, whole), stream.name)
            except StoreError as exc:
                self.gap(Gap(whole, str(exc)))
            reading.end()
            gathering.progress(self.name, number / len(found), meter.lines)
        for problem in fetch.problems:
            self.found.report.problem(problem)
