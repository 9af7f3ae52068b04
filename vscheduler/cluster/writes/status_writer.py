"""Writers of what users see: PodGroup status, the pod condition PodScheduled, and events.

Everything is written on change only, after the binds. A PodGroup patch replaces all `conditions`,
so it carries the resourceVersion of the object from which it was computed. After a conflict, the
patch is computed again from the newest object.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

import msgspec
from msgspec.structs import replace

from vscheduler.cluster.http import connection, responses
from vscheduler.cluster.http.connection import (
    ApiError,
    Conflict,
    Connection,
    Forbidden,
    NotFound,
)
from vscheduler.cluster.http.pool import NotSentError
from vscheduler.cluster.writes.event_recorder import Recorder
from vscheduler.cluster.writes.retries import WriteErrors
from vscheduler.cluster.writes.write_queue import CoalescingQueue, WritePriority, WriteQueue
from vscheduler.mirror import paths, statuses
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import DecodeError
from vscheduler.mirror.statuses import Body, ReasonAndMessage
from vscheduler.mirror.translate import pod_owners
from vscheduler.model import jobs
from vscheduler.model.claim_decisions import ClaimKind
from vscheduler.model.decisions import Bind, CycleResult, EndsSoon, Evict, GroupStatus, Pipeline
from vscheduler.model.jobs import GroupState, InvalidPod, Job, JobId, Phase, Task, TaskId

GROUP_SPACING_SECONDS = 1.0
POD_SPACING_SECONDS = 10.0
"""Longer than for PodGroups, because the message has numbers that change with the cluster."""
REASONS_SLACK = 1000
"""How many entries the memory of pod conditions may have beyond twice those of waiting pods."""


class StoredGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup as last seen by the watch."""

    uid: str
    resource_version: str
    state: GroupState


class Groups(Protocol):
    """Gives access to the newest PodGroups and their pods."""

    def stored_group(self, job: JobId) -> StoredGroup | None:
        """Return the PodGroup with this id, or None when the PodGroup was deleted."""

    def has_reason(self, task: TaskId) -> bool:
        """Whether the pod's condition, as last seen, gives a reason for waiting."""

    def waiting_version(self, task: TaskId) -> str | None:
        """Return the resourceVersion of a pod that has no node, as last seen; None of others."""


class _Sent(msgspec.Struct, frozen=True, kw_only=True):
    """The last state written to a PodGroup, and the resourceVersion of the result."""

    uid: str
    version: int
    state: GroupState


class StatusWriter:
    """Writes the results of a cycle, without repeating earlier writes."""

    def __init__(
        self,
        connection: Connection,
        queue: WriteQueue,
        groups: Groups,
        recorder: Recorder,
        *,
        may_commit: Callable[[], bool],
        observe: Callable[[str, str], None],
    ) -> None:
        self._link = connection
        self._queue = queue
        self._groups = groups
        self._recorder = recorder
        self._may_commit = may_commit
        self._observe = observe
        self._group_writes = CoalescingQueue(
            queue, WritePriority.STATUS, spacing_seconds=GROUP_SPACING_SECONDS
        )
        self._pod_writes = CoalescingQueue(
            queue, WritePriority.CONDITION, spacing_seconds=POD_SPACING_SECONDS
        )
        self._offered: dict[JobId, tuple[GroupStatus, GroupState]] = {}
        self._sent: dict[JobId, _Sent] = {}
        self._pod_reasons: dict[TaskId, ReasonAndMessage] = {}
        self._reasons_max = REASONS_SLACK
        self._nominated: dict[TaskId, Pipeline] = {}
        """The status.nominatedNodeName set by this process on pods still waiting."""
        self._ends_soon: dict[TaskId, EndsSoon] = {}
        """Pods that were told so."""
        self._errors = WriteErrors(observe)

    def report(
        self,
        result: CycleResult,
        job_of: Callable[[JobId], Job],
        transition: str,
    ) -> None:
        """Offer a cycle's results for the jobs of its snapshot.

        `transition` identifies the cycle in conditions.
        """
        starting = {bind.task.job for bind in result.binds}
        for status in result.changeable:
            job = job_of(status.job)
            state = job.state
            for part in statuses.of_parts(status, job, result.binds, self._phase_of):
                self._offer_part(part, transition)
            if self._offered.get(status.job) == (status, state):
                continue
            self._offered[status.job] = (status, state)
            write = partial(self._write_group, status, transition, len(job.tasks))
            if status.job in starting and len(job.tasks) == 1:  # the pod itself shows all
                self._group_writes.offer_when_quiet(status.job, write)
            elif status.job in starting or _is_just_made(job):  # changes again in a moment
                self._group_writes.offer_later(status.job, write)
            else:
                self._group_writes.offer(status.job, write)
            self._offer_reasons(status)
        self._warn(result.ends_soon)
        self.nominate(_without_volumes(result))
        self._renominate(result)
        if result.finished:
            self._forget(result)

    def _offer_part(self, status: GroupStatus, transition: str) -> None:
        """Offer the status of a PodGroup below a CompositePodGroup."""
        known = self._groups.stored_group(status.job)
        if known is None:
            return
        status = replace(status, uid=known.uid)
        if self._offered.get(status.job) == (status, known.state):
            return
        self._offered[status.job] = (status, known.state)
        self._group_writes.offer(status.job, partial(self._write_group, status, transition, 0))

    def _phase_of(self, job: JobId) -> Phase:
        """Return the stored phase of a PodGroup."""
        known = self._groups.stored_group(job)
        return Phase.PENDING if known is None else known.state.phase

    def stop(self) -> None:
        """Drop all waiting writes, at the end of the term."""
        self._group_writes.stop()
        self._pod_writes.stop()

    def bound(self, bind: Bind) -> None:
        """Record that a pod was bound."""
        self._pod_reasons.pop(bind.task.uid, None)
        self._pod_writes.withdraw(bind.task.uid)
        self._recorder.notify(statuses.bound_notice(bind))

    def evicted(self, evict: Evict, gang: Job) -> None:
        """Record that a pod was evicted.

        The condition is written before the kubelet stops the pod.
        """
        write = partial(self._write_disruption, evict, gang)
        self._queue.put(WritePriority.EVICTION, write)
        self._recorder.notify(statuses.evicted_notice(evict, gang))

    def lost(self, evicts: Sequence[Evict]) -> None:
        """Record on PodGroups that some of their pods were evicted."""
        by_job: defaultdict[JobId, list[Evict]] = defaultdict(list)
        for evict in evicts:
            by_job[evict.task.job].append(evict)
        for job, theirs in by_job.items():
            known = self._groups.stored_group(job)
            if known is None:
                continue
            self._recorder.notify(statuses.lost_notice(known.uid, theirs))
            if jobs.is_native(job) and theirs[0].whole:
                write = partial(self._write_lost, job, known.uid, theirs)
                self._queue.put(WritePriority.EVICTION, write)

    def _warn(self, pods: Iterable[EndsSoon]) -> None:
        """Record on pods that they will be ended, once for each end."""
        told, self._ends_soon = self._ends_soon, {pod.task.uid: pod for pod in pods}
        for uid, pod in self._ends_soon.items():
            if uid not in told or told[uid].at != pod.at:
                self._recorder.notify(statuses.ends_soon_notice(pod))

    def invalid(self, uid: str, rejection: DecodeError) -> None:
        """Record on the PodGroup with this UID that it can't be used."""
        self._recorder.notify(statuses.invalid_notice(uid, rejection))

    def without_group(self, pod: Task | InvalidPod, why: str) -> None:
        """Record on a pod that it waits for its automatic PodGroup, and why."""
        words = statuses.without_group(why)
        if self._pod_reasons.get(pod.uid) != words:
            self._pod_writes.offer(pod.uid, partial(self._write_reason, pod, words))

    def nominate(self, nominations: Iterable[Pipeline]) -> None:
        """Write the nominated node onto waiting pods, for users and autoscalers."""
        for nomination in nominations:
            before = self._nominated.get(nomination.task.uid)
            said = nomination.task.nominated_node if before is None else before.node
            if said != nomination.node:
                self._offer_node(nomination.task, nomination.node)
            self._nominated[nomination.task.uid] = nomination

    def _renominate(self, result: CycleResult) -> None:
        """Clear nominations that ended. A bind clears the nomination of its pod by itself."""
        kept = result.carried.nominations
        started = {bind.task.uid for bind in result.binds} if self._nominated else set()
        for uid, nomination in list(self._nominated.items()):
            if kept.get(uid) == nomination.node:
                continue
            del self._nominated[uid]
            if uid not in started:
                self._offer_node(nomination.task, None)

    def _offer_node(self, task: Task, node: str | None) -> None:
        self._pod_writes.offer(("node", task.uid), partial(self._write_node, task, node))

    async def _write_node(self, task: Task, node: str | None) -> None:
        if self._groups.waiting_version(task.uid) is None:
            return  # bound or gone meanwhile
        patch = statuses.nominated_patch(node)
        if await self._write_pod(task, patch, "nomination"):
            again = partial(self._write_node, task, node)
            self._pod_writes.offer_again(("node", task.uid), again)

    async def _write_disruption(self, evict: Evict, gang: Job) -> None:
        # Written after the eviction, because the Eviction API overwrites an earlier condition.
        patch = statuses.evicted_patch(evict, gang, now=time.time())
        if await self._write_pod(evict.task, patch, "victim"):
            self._pod_writes.offer(
                ("victim", evict.task.uid), partial(self._write_disruption, evict, gang)
            )

    async def _write_lost(self, job: JobId, uid: str, evicts: Sequence[Evict]) -> None:
        """Write on a PodGroup of Kubernetes' own API that all of its pods were evicted."""
        self._check_permit()
        namespace, name = jobs.names_of(job)
        path = paths.COLLECTIONS[events.kind_of_job(job)].status(name, namespace)
        body = {"metadata": {"uid": uid}, "status": statuses.lost_patch(evicts, now=time.time())}
        try:
            await self._patch(path, body, connection.STRATEGIC_PATCH)
        except ApiError as error:
            if self._errors.failed("podgroup", error, job) and not isinstance(error, Conflict):
                again = partial(self._write_lost, job, uid, evicts)
                self._group_writes.offer(("lost", job), again)
            return
        self._observe("podgroup", "written")

    async def _write_pod(self, task: Task, status: Body, written: str) -> bool:
        """Patch a pod's status. Return True when the patch failed and a retry makes sense.

        A deleted or recreated pod is skipped.
        """
        self._check_permit()
        path = paths.PODS.status(task.name, task.namespace)
        body = {"metadata": {"uid": task.uid}, "status": status}
        try:
            await self._patch(path, body, connection.STRATEGIC_PATCH)
        except ApiError as error:
            again = self._errors.failed(written, error, f"{task.namespace}/{task.name}")
            return again and not isinstance(error, Conflict)
        self._observe(written, "written")
        return False

    def _forget(self, result: CycleResult) -> None:
        """Drop the memory of deleted jobs and pods, only when the memory has grown enough."""
        if len(self._offered) > 2 * (len(result.changeable) + len(result.others)) + 100:
            current = {status.job for status in result.groups}
            self._offered = {job: kept for job, kept in self._offered.items() if job in current}
            self._sent = {job: kept for job, kept in self._sent.items() if job in current}
        if len(self._pod_reasons) > self._reasons_max:
            waits = self._groups.waiting_version
            self._pod_reasons = {
                uid: kept for uid, kept in self._pod_reasons.items() if waits(uid) is not None
            }
            self._reasons_max = 2 * len(self._pod_reasons) + REASONS_SLACK

    async def _write_group(self, status: GroupStatus, transition: str, pods: int) -> None:
        """Bring a PodGroup's status up to date, starting from its newest version."""
        known = self._groups.stored_group(status.job)
        if known is None or known.uid != status.uid:
            self._offered.pop(status.job, None)  # its API may be away for a moment only
            return
        self._check_permit()
        stored = known.state
        sent = self._sent.get(status.job)
        seen = _number(known.resource_version)
        if sent is not None and sent.uid == known.uid and seen <= sent.version:
            # Nobody wrote since. The API server may have stored less than was sent (a CRD prunes
            # unknown fields), which is no reason to send the status again.
            stored = sent.state
        wanted = statuses.group_state(status, stored, now=time.time(), transition=transition)
        request = _group_request(status.job, known, stored, wanted)
        if request is None:
            return
        try:
            answer = await self._patch(*request)
        except ApiError as error:
            again = partial(self._write_group, status, transition, pods)
            if self._errors.failed("podgroup", error, status.job):
                self._group_writes.offer_again(status.job, again)
            elif isinstance(error, Forbidden | NotFound):  # its API, too, may be away for a while
                self._group_writes.offer_after_refusal(status.job, again)
            return
        version = _number(responses.version_of(answer))
        self._sent[status.job] = _Sent(uid=known.uid, version=version, state=wanted)
        self._observe("podgroup", "written")
        notice = statuses.group_notice(status, stored, wanted, pods=pods)
        if notice is not None:
            self._recorder.notify(notice)

    def _offer_reasons(self, status: GroupStatus) -> None:
        # A pod without a PodGroup is told in any case: nothing else can say why it waits.
        alone = jobs.is_lone_pod(status.job)
        told = tuple(task for task in status.withheld if alone or self._has_sent_reason(task.uid))
        if told:
            status = replace(status, unplaced=told)
        for pod, words in statuses.pod_words(status):
            # What was last written is offered again while an older write is still to come.
            if self._pod_reasons.get(pod.uid) != words or self._pod_writes.is_busy(pod.uid):
                # A PodGroup that is missing, or has no queue, is soon made or adopted as a rule.
                soon_over = not status.uid and pod.uid not in self._pod_reasons
                offer = self._pod_writes.offer_later if soon_over else self._pod_writes.offer
                offer(pod.uid, partial(self._write_reason, pod, words))

    def _has_sent_reason(self, pod: TaskId) -> bool:
        """Whether the pod's condition gives a reason, which must not stay when it is outdated."""
        return (
            pod in self._pod_reasons
            or self._pod_writes.is_busy(pod)
            or self._groups.has_reason(pod)
        )

    async def _write_reason(self, pod: Task | InvalidPod, words: ReasonAndMessage) -> None:
        """Write the reason for waiting to a pod's condition.

        The resourceVersion is a precondition: the bind of the pod may overtake this write, and what
        the bind says must stay. Send an event only when the topic changed.
        """
        written_before = self._pod_reasons.get(pod.uid)
        version = self._groups.waiting_version(pod.uid)
        if written_before == words or version is None:
            return
        self._check_permit()
        path = paths.PODS.status(pod.name, pod.namespace)
        body = {
            "metadata": {"uid": pod.uid, "resourceVersion": version},
            "status": statuses.pod_patch(words, now=time.time()),
        }
        try:
            await self._patch(path, body, connection.STRATEGIC_PATCH)
        except ApiError as error:
            retry = self._errors.failed("pod", error, f"{pod.namespace}/{pod.name}")
            again = partial(self._write_reason, pod, words)
            if isinstance(error, Forbidden):
                self._pod_writes.offer_after_refusal(pod.uid, again)
            elif retry:
                # The write may be executed, so what the pod says is unknown meanwhile. After a
                # conflict, the watch shows until then whether the pod was bound or recreated.
                self._pod_reasons.pop(pod.uid, None)
                self._pod_writes.offer_again(pod.uid, again)
            return
        self._pod_reasons[pod.uid] = words
        self._observe("pod", "written")
        if written_before is None or written_before.topic != words.topic:
            self._recorder.notify(statuses.waiting_notice(pod, words))

    def _check_permit(self) -> None:
        if not self._may_commit():
            raise NotSentError

    async def _patch(self, path: str, body: object, content_type: str) -> bytes:
        return await self._link.call(
            "PATCH",
            path,
            msgspec.json.encode(body),
            content_type=content_type,
            may_send=self._may_commit,
        )


def _group_request(
    job: JobId, known: StoredGroup, stored: GroupState, wanted: GroupState
) -> tuple[str, Body, str] | None:
    """Return path, body and content type of the patch of a PodGroup; None if nothing differs."""
    namespace, name = jobs.names_of(job)
    if jobs.is_native(job):
        patch = statuses.native_group_patch(stored, wanted)
        path, kind = (
            paths.COLLECTIONS[events.kind_of_job(job)].status(name, namespace),
            connection.STRATEGIC_PATCH,
        )
        metadata = {"uid": known.uid}
    else:
        patch = statuses.group_patch(stored, wanted)
        path, kind = paths.POD_GROUPS.at(name, namespace), connection.MERGE_PATCH
        metadata = {"resourceVersion": known.resource_version}
    return None if patch is None else (path, {"metadata": metadata, "status": patch}, kind)


def _is_just_made(job: Job) -> bool:
    """Whether the group was made for pods that haven't joined it yet: it lacks none of them."""
    empty = job.state.blank and not (job.tasks or job.rejections)
    return empty and pod_owners.is_automatic(job.name)


def _without_volumes(result: CycleResult) -> Iterator[Pipeline]:
    """Iterate over the pods that wait on their nodes for volumes."""
    held = {
        task.uid
        for status in result.changeable
        if status.claims is not None and status.claims.kind is ClaimKind.VOLUMES
        for task in status.without_claims
    }
    return (each for each in result.pipelined if each.task.uid in held)


def _number(version: str) -> int:
    """Return a resourceVersion as a number. Versions may be compared since Kubernetes 1.35."""
    return int(version) if version.isdecimal() else 0
