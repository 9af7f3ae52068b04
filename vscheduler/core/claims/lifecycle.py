"""The lifecycle of claims: asked for, in flight, confirmed, given back; the same for both kinds.

A cycle that has nodes for a job asks for what the claims of its pods lack there, all at once, and
keeps the nodes. In flight, a claim counts as written (mirror.index.claim_objects); it is confirmed
once the API server shows it. A later cycle then checks everything again, and binds the pods. What
was asked for, and no pod needs any more, is given back. Every state in between is in the API
server, so a restarted instance goes on with it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from vscheduler.core.claims import kind
from vscheduler.core.claims.devices.device_lifecycle import DeviceLifecycle
from vscheduler.core.claims.devices.state import DeviceState
from vscheduler.core.claims.kind import Ending, KindLifecycle, Lacks, Waiting
from vscheduler.core.claims.volumes.state import VolumeState
from vscheduler.core.claims.volumes.volume_lifecycle import VolumeLifecycle
from vscheduler.model import devices as device_model
from vscheduler.model import storage
from vscheduler.model.claim_decisions import (
    ClaimAllocation,
    ClaimAttempt,
    ClaimWait,
    PrepareClaims,
    Release,
    Request,
)
from vscheduler.model.decisions import Pipeline
from vscheduler.model.jobs import JobId, Task
from vscheduler.model.snapshot import Snapshot


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """What a cycle has decided about claims."""

    prepared: tuple[PrepareClaims, ...] = ()
    releases: tuple[Release, ...] = ()
    waits: Mapping[JobId, ClaimWait] = msgspec.field(default_factory=dict)
    """How far the claims are, of jobs with pods that wait for claims."""
    attempts: Mapping[str, ClaimAttempt] = msgspec.field(default_factory=dict)
    wake_at: tuple[float, ...] = ()


NOTHING = Conclusion()


class ClaimLifecycle:
    """The claims of a cycle."""

    def __init__(self, snapshot: Snapshot, volumes: VolumeState, devices: DeviceState) -> None:
        self._rows = snapshot.nodes.layout.rows
        self.volumes = VolumeLifecycle(snapshot, volumes)
        self._kinds: list[KindLifecycle] = []
        if snapshot.storage is not storage.NO_STORAGE:
            self._kinds.append(self.volumes)
        if snapshot.devices is not device_model.NO_DEVICES:
            self._kinds.append(DeviceLifecycle(snapshot, devices))

    @property
    def exist(self) -> bool:
        """Whether any pod has claims."""
        return bool(self._kinds)

    def lacks(self, task: Task, row: int) -> Lacks:
        """Return what the task lacks before it may start on this node.

        What is chosen for a placed task isn't given to others any more.
        """
        if not (task.volumes or task.pod_class.constraints.resource_claims):
            return kind.NOTHING
        found = [each.lacks(task, row) for each in self._kinds]
        return Lacks(
            requests=tuple(request for lacks in found for request in lacks.requests),
            unconfirmed=tuple(key for lacks in found for key in lacks.unconfirmed),
            unchosen=any(lacks.unchosen for lacks in found),
        )

    def unusable(self, task: Task, node: str) -> Iterator[str]:
        """Iterate over the task's claims with which it may not start on this node."""
        for each in self._kinds:
            for key in each.keys(task, node):
                if not each.is_usable(key, task):
                    yield key

    def conclude(
        self, waiting: Sequence[Pipeline], ending: Ending, *, finished: bool
    ) -> Conclusion:
        """Return the decisions on claims, where these pods wait at the end of the cycle, by name.

        A cycle that isn't finished gives nothing back.
        """
        prepared: list[PrepareClaims] = []
        releases: list[Release] = []
        waits: dict[JobId, ClaimWait] = {}
        for each in self._kinds:
            pods = [
                Waiting(pod.task, pod.node, each.lacks(pod.task, self._rows[pod.node]))
                for pod in waiting
            ]
            prepared += _prepared(pods)
            releases += each.releases(ending) if finished else ()
            for job, wait in _waits(each, pods):
                # A refusal is told first, then how far the volumes are.
                if job not in waits or wait.refusal:
                    waits[job] = wait
        attempts, wake_at = self.volumes.attempts_after(waiting, ending)
        return Conclusion(
            prepared=tuple(prepared),
            releases=tuple(releases),
            waits=waits,
            attempts=attempts,
            wake_at=wake_at,
        )


def _prepared(waiting: Iterable[Waiting]) -> Iterator[PrepareClaims]:
    """Iterate over what the API server doesn't show yet, by job; no claim is in two of them."""
    pods: defaultdict[JobId, list[Task]] = defaultdict(list)
    requests: dict[str, Request] = {}
    owners: dict[str, JobId] = {}
    for pod in waiting:
        if pod.lacks.anything:
            pods[pod.task.job].append(pod.task)
        for request in pod.lacks.requests:
            if not request.requested:
                owners.setdefault(request.key, pod.task.job)
                before = requests.get(request.key)
                requests[request.key] = request if before is None else _joined(before, request)
    by_job: defaultdict[JobId, list[Request]] = defaultdict(list)
    for key in sorted(requests):
        by_job[owners[key]].append(requests[key])
    for job in sorted(by_job):
        yield PrepareClaims(job=job, pods=tuple(pods[job]), requests=tuple(by_job[job]))


def _joined(one: Request, other: Request) -> Request:
    """Return what two pods that share a claim ask for: one volume, or the same devices for both."""
    if isinstance(one, ClaimAllocation) and isinstance(other, ClaimAllocation):
        return one.joined(other)
    return one


def _waits(of: KindLifecycle, waiting: Iterable[Waiting]) -> Iterator[tuple[JobId, ClaimWait]]:
    """Iterate over how far the claims are, by job."""
    by_job: defaultdict[JobId, list[Waiting]] = defaultdict(list)
    for pod in waiting:
        by_job[pod.task.job].append(pod)
    for job, pods in by_job.items():
        still_open = {claim.key: claim for pod in reversed(pods) for claim in of.open(pod)}
        if still_open:
            every = {key for pod in pods for key in of.keys(pod.task, pod.node)}
            first = min(
                still_open.values(),
                key=lambda claim: (claim.key not in of.refused, claim.since, claim.key),
            )
            yield (
                job,
                ClaimWait(
                    kind=of.kind,
                    ready=len(every) - len(still_open),
                    claims=len(every),
                    claim=first.key,
                    node=first.node,
                    source=first.source,
                    since=first.since,
                    refusal=of.refused.get(first.key, ""),
                ),
            )
