"""The lifecycle of volumes: what is asked for, has failed, and is given back.

Kubernetes: the plugin VolumeBinding of kube-scheduler, which does this pod by pod.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from vscheduler.core.claims import kind
from vscheduler.core.claims.kind import Ending, Lacks, OpenClaim, Waiting
from vscheduler.core.claims.volumes.attempts import ClaimAttempts
from vscheduler.core.claims.volumes.state import VolumeState
from vscheduler.model.claim_decisions import (
    ClaimAttempt,
    ClaimBinding,
    ClaimKind,
    ClaimWait,
    Pause,
    Release,
    ReleaseClaim,
    ReleaseVolume,
)
from vscheduler.model.decisions import Pipeline
from vscheduler.model.jobs import Task
from vscheduler.model.snapshot import Snapshot
from vscheduler.model.storage import ClaimReference


class VolumeLifecycle:
    """Claims of volumes, as a kind of claims; see kind.KindLifecycle."""

    kind = ClaimKind.VOLUMES

    def __init__(self, snapshot: Snapshot, volumes: VolumeState) -> None:
        self._attempts = ClaimAttempts(snapshot, volumes.bind_timeout_seconds)
        self._storage, self._volumes = snapshot.storage, volumes
        self._rows = snapshot.nodes.layout.rows
        self.refused = snapshot.carried.reported.refused_claims

    def keys(self, task: Task, node: str) -> Iterable[str]:
        """Return the claims that the task needs on any node."""
        del node
        return task.volume_claims

    def lacks(self, task: Task, row: int) -> Lacks:
        """Return the claims to bind before the task may start on this node."""
        if not task.volumes:
            return kind.NOTHING
        requests = self._volumes.unbound(task, row)
        lacks_choice = not requests and not all(map(self._is_bound, task.volume_claims))
        return Lacks(requests, unchosen=lacks_choice)

    def is_usable(self, key: str, task: Task) -> bool:
        """Whether the claim is bound."""
        del task
        return self._is_bound(key)

    def _is_bound(self, key: str) -> bool:
        """Whether a claim is bound; if no plugin looks at claims, that doesn't matter."""
        claim = self._storage.claims.get(key)
        return not self._volumes.binds or (claim is not None and claim.bound)

    def open(self, pod: Waiting) -> Iterator[OpenClaim]:
        """Iterate over the claims that aren't bound."""
        for request in pod.lacks.requests:
            assert isinstance(request, ClaimBinding)
            yield OpenClaim(
                key=request.key,
                node=request.node,
                source=request.volume or self._provisioner(request.key),
                since=self._attempts.since(request),
            )

    def releases(self, ending: Ending) -> Iterator[Release]:
        """Iterate over what this scheduler has asked for, and no pod waits for any more."""
        needed = self._needed(ending)
        spared = {key for task in ending.spared for key in task.volume_claims}
        for key in self._storage.selected_claims:
            claim, request = self._storage.claims[key], needed.get(key)
            node = claim.selected_node
            is_needed = request is not None and (request.node, request.volume) == (node, None)
            if is_needed or key in spared or claim.volume or claim.deleting:
                continue
            if claim.selection is not None and claim.selection.node == node:
                yield ReleaseClaim(
                    namespace=claim.namespace, name=claim.name, uid=claim.uid, node=node
                )
        for name in self._storage.selected_volumes:
            volume = self._storage.volumes[name]
            reference = volume.claim
            # A volume that is bound, or was, is never given to another claim: it may hold data.
            if reference is None or not reference.uid or not volume.available or volume.deleting:
                continue
            if not self._is_needed(name, reference, needed, spared):
                yield ReleaseVolume(
                    name=name,
                    uid=volume.uid,
                    key=reference.key,
                    reserved=not volume.bound_by_controller,
                )

    def _needed(self, ending: Ending) -> Mapping[str, ClaimBinding]:
        """Return what waiting pods need on their nodes, by claim."""
        return {request.key: request for _, request in self._requests(ending)}

    def _requests(self, ending: Ending) -> Iterator[tuple[Task, ClaimBinding]]:
        """Iterate over what waiting pods need on their nodes, each with its pod."""
        for pod in ending.pipelined:
            if pod.task.volumes:
                for request in self._volumes.unbound(pod.task, self._rows[pod.node]):
                    yield pod.task, request

    def _is_needed(
        self,
        volume: str,
        reference: ClaimReference,
        needed: Mapping[str, ClaimBinding],
        spared: Collection[str],
    ) -> bool:
        """Whether a pod waits for the claim, or the claim is being bound to the volume."""
        claim, request = self._storage.claims.get(reference.key), needed.get(reference.key)
        if claim is None or claim.uid != reference.uid:
            return False
        is_needed = request is not None and request.volume == volume
        return is_needed or bool(claim.volume) or reference.key in spared

    # Attempts that have failed.

    def attempts_after(
        self, waiting: Iterable[Pipeline], ending: Ending
    ) -> tuple[Mapping[str, ClaimAttempt], tuple[float, ...]]:
        """Return the attempts that the next cycle must know, where these pods wait, and the
        instants at which one fails or a pause ends.
        """
        held = {pod.task.uid for pod in waiting}
        under_way = {
            request.key: request
            for task, request in self._requests(ending)
            if request.requested or task.uid in held
        }
        wake_at = (*map(self._attempts.expires, under_way.values()), self._attempts.wake_at)
        return self._attempts.carried(under_way), tuple(at for at in wake_at if at is not None)

    def pauses(self, task: Task) -> Iterator[tuple[str, Pause]]:
        """Iterate over the pauses of the task's claims, each with the claim."""
        return self._attempts.pauses(task)

    def paused(self, task: Task) -> ClaimWait | None:
        """Return the claim for which no volume is asked for now, wherever the task could run."""
        for key, pause in self._attempts.pauses(task):
            if not pause.node:
                claims = [self._storage.claims.get(each) for each in task.volume_claims]
                return ClaimWait(
                    kind=self.kind,
                    ready=sum(claim is not None and claim.bound for claim in claims),
                    claims=len(claims),
                    claim=key,
                    source=self._provisioner(key),
                    pause=pause.seconds,
                )
        return None

    def _provisioner(self, key: str) -> str:
        claim = self._storage.claims.get(key)
        storage_class = None if claim is None else self._storage.class_of(claim)
        return "" if storage_class is None else storage_class.provisioner
