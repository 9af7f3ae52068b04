"""Volume binding: what pods that wait for their claims ask for, and what is given back.

Kubernetes: the plugin VolumeBinding of kube-scheduler, which does this pod by pod.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from vscheduler.core.model import storage
from vscheduler.core.model.claim_decisions import (
    ClaimAttempt,
    ClaimBinding,
    PrepareClaims,
    Release,
    ReleaseClaim,
    ReleaseVolume,
    VolumeWait,
)
from vscheduler.core.model.jobs import Job, JobId, Task
from vscheduler.core.model.snapshot import Snapshot
from vscheduler.core.model.storage import ClaimReference
from vscheduler.core.session import claim_attempts
from vscheduler.core.session.claim_attempts import ClaimAttempts
from vscheduler.core.session.decided import Decided
from vscheduler.core.session.held_pods import Held
from vscheduler.core.session.interfaces import Volumes


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """What a cycle has decided about claims."""

    prepared: tuple[PrepareClaims, ...] = ()
    releases: tuple[Release, ...] = ()
    attempts: Mapping[str, ClaimAttempt] = msgspec.field(default_factory=dict)
    waits: Mapping[JobId, VolumeWait] = msgspec.field(default_factory=dict)
    """How far the volumes are, of jobs with pods that wait for volumes."""
    wake_at: tuple[float, ...] = ()


NOTHING = Conclusion()


class VolumeBinding:
    """What is asked for in this cycle, and what is given back."""

    def __init__(self, snapshot: Snapshot, volumes: Volumes) -> None:
        self.attempts = ClaimAttempts(snapshot, volumes.bind_timeout_seconds)
        self._storage, self._volumes = snapshot.storage, volumes
        self._refused = snapshot.carried.reported.refused_claims

    def unbound(self, task: Task, row: int) -> tuple[ClaimBinding, ...]:
        """Return the claims to bind before the task may start on this node."""
        return self._volumes.unbound(task, row) if task.volumes else ()

    def lacks_choice(self, task: Task, bindings: tuple[ClaimBinding, ...]) -> bool:
        """Whether a claim isn't bound, although there is nothing to ask for on the task's node."""
        if bindings or not (task.volumes and self._volumes.binds):
            return False
        claims = map(self._storage.claims.get, claim_attempts.keys(task))
        return not all(claim is not None and claim.bound for claim in claims)

    def conclude(
        self,
        waiting: Sequence[Held],
        so_far: Decided,
        rows: Mapping[str, int],
        *,
        without_turn: Iterable[Job],
        finished: bool,
    ) -> Conclusion:
        """Return the decisions on claims, at the end of the cycle.

        Nothing is given back of jobs without a turn, or by a cycle that isn't finished: their pods
        might still need it.
        """
        if self._storage is storage.NO_STORAGE:
            return NOTHING
        asked = {
            binding.key: binding for held in reversed(waiting) for binding in held.lacks.bindings
        }
        needed = {
            each.key: each
            for pipelined in so_far.pipelined.values()
            for each in self.unbound(pipelined.task, rows[pipelined.node])
        }
        under_way = asked | {key: each for key, each in needed.items() if each.requested}
        expiries = (self.attempts.expires(each) for each in under_way.values())
        wake_at = (*expiries, self.attempts.wake_at)
        spared = {
            key for job in without_turn for task in job.tasks for key in claim_attempts.keys(task)
        }
        return Conclusion(
            prepared=tuple(_prepared(waiting, asked)),
            releases=tuple(self._releases(needed, spared)) if finished else (),
            attempts=self.attempts.carried(under_way),
            waits=self._waits(waiting),
            wake_at=tuple(at for at in wake_at if at is not None),
        )

    def _releases(
        self, needed: Mapping[str, ClaimBinding], spared: Collection[str]
    ) -> Iterator[Release]:
        """Iterate over what this scheduler has asked for, and no pod waits for any more."""
        for key in self._storage.selected_claims:
            claim, wanted = self._storage.claims[key], needed.get(key)
            node = claim.selected_node
            kept = wanted is not None and (wanted.node, wanted.volume) == (node, None)
            if kept or key in spared or claim.volume or claim.deleting:
                continue
            if claim.selection is not None and claim.selection.node == node:
                yield ReleaseClaim(
                    namespace=claim.namespace, name=claim.name, uid=claim.uid, node=node
                )
        for name in self._storage.selected_volumes:
            volume = self._storage.volumes[name]
            of = volume.claim
            # A volume that is bound, or was, is never given to another claim: it may hold data.
            if of is None or not of.uid or not volume.available or volume.deleting:
                continue
            if not self._is_wanted(name, of, needed, spared):
                yield ReleaseVolume(
                    name=name,
                    uid=volume.uid,
                    claim=of.key,
                    reserved=not volume.bound_by_controller,
                )

    def _is_wanted(
        self,
        volume: str,
        of: ClaimReference,
        needed: Mapping[str, ClaimBinding],
        spared: Collection[str],
    ) -> bool:
        """Whether a pod waits for the claim, or the claim is being bound to the volume."""
        claim, wanted = self._storage.claims.get(of.key), needed.get(of.key)
        if claim is None or claim.uid != of.uid:
            return False
        kept = wanted is not None and wanted.volume == volume
        return kept or bool(claim.volume) or of.key in spared

    def _waits(self, waiting: Iterable[Held]) -> Mapping[JobId, VolumeWait]:
        by_job: defaultdict[JobId, list[Held]] = defaultdict(list)
        for held in waiting:
            by_job[held.task.job].append(held)
        found = ((job, self._wait(theirs)) for job, theirs in by_job.items())
        return {job: wait for job, wait in found if wait is not None}

    def _wait(self, waiting: Iterable[Held]) -> VolumeWait | None:
        """Return how far the volumes of these pods are, which belong to one job."""
        pods = list(waiting)
        keys = {key for held in pods for key in claim_attempts.keys(held.task)}
        open_ = [binding for held in pods for binding in held.lacks.bindings]
        if not open_:
            return None
        # What can't be asked for is told first, then what has been asked for first.
        slowest = min(
            open_,
            key=lambda each: (
                each.key not in self._refused,
                self.attempts.since(each),
                each.key,
            ),
        )
        return VolumeWait(
            bound=len(keys) - len({each.key for each in open_}),
            claims=len(keys),
            claim=slowest.key,
            source=slowest.volume or self._provisioner(slowest.key),
            node=slowest.node,
            since=self.attempts.since(slowest),
            refusal=self._refused.get(slowest.key, ""),
        )

    def paused(self, task: Task) -> VolumeWait | None:
        """Return the claim for which no volume is asked for now, wherever the task could run."""
        for key, pause in self.attempts.pauses(task):
            if not pause.node:
                of = [self._storage.claims.get(each) for each in claim_attempts.keys(task)]
                return VolumeWait(
                    bound=sum(claim is not None and claim.bound for claim in of),
                    claims=len(of),
                    claim=key,
                    source=self._provisioner(key),
                    pause=pause.seconds,
                )
        return None

    def _provisioner(self, key: str) -> str:
        claim = self._storage.claims.get(key)
        of = None if claim is None else self._storage.class_of(claim)
        return "" if of is None else of.provisioner


def _prepared(
    waiting: Iterable[Held], asked: Mapping[str, ClaimBinding]
) -> Iterator[PrepareClaims]:
    """Iterate over what the API server doesn't show yet, by job; no claim is in two of them."""
    pods: defaultdict[JobId, list[Task]] = defaultdict(list)
    bindings: defaultdict[JobId, dict[str, ClaimBinding]] = defaultdict(dict)
    taken: set[str] = set()
    for held in waiting:
        if held.lacks.bindings:
            pods[held.task.job].append(held.task)
        for binding in held.lacks.bindings:
            if binding.key not in taken and not asked[binding.key].requested:
                taken.add(binding.key)
                bindings[held.task.job][binding.key] = asked[binding.key]
    for job in sorted(bindings):
        found = bindings[job]
        yield PrepareClaims(
            job=job, pods=tuple(pods[job]), bindings=tuple(found[key] for key in sorted(found))
        )
