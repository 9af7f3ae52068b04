"""What people are shown: PodGroup status, the pod condition PodScheduled, events.

Written on change only, after the binds. A PodGroup's patch carries the resourceVersion of the
object that it was worked out from, because `conditions` are replaced whole; on a conflict it is
worked out again from the newest object.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec

from vscheduler.cluster.http import connection, responses
from vscheduler.cluster.writes import event_recorder, retries, write_queue
from vscheduler.core.model import decisions, jobs
from vscheduler.mirror import paths, statuses

GROUP_SPACING_SECONDS = 1.0
POD_SPACING_SECONDS = 10.0
"""A pod's condition tells numbers that change with the cluster."""
TOLD_SLACK = 1000
"""Pods more than twice those that wait, of which what they were told is remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGroup:
    """A PodGroup as it was last seen."""

    uid: str
    resource_version: str
    state: jobs.GroupState


class Groups(Protocol):
    """Where the newest PodGroups are found."""

    def stored_group(self, job: jobs.JobId) -> StoredGroup | None:
        """The PodGroup of this id; None when it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """What was last written to a PodGroup, and the version that this made."""

    uid: str
    version: int
    state: jobs.GroupState


class StatusWriter:
    """Writes what a cycle found out; nothing that it wrote already."""

    def __init__(
        self,
        link: connection.Connection,
        queue: write_queue.WriteQueue,
        groups: Groups,
        herald: event_recorder.Recorder,
        *,
        may_commit: Callable[[], bool],
        observe: Callable[[str, str], None],
    ) -> None:
        self._link = link
        self._lanes = queue
        self._groups = groups
        self._herald = herald
        self._may_commit = may_commit
        self._observe = observe
        self._group_box = write_queue.CoalescingQueue(
            queue, write_queue.WritePriority.STATUS, spacing_seconds=GROUP_SPACING_SECONDS
        )
        self._pod_box = write_queue.CoalescingQueue(
            queue, write_queue.WritePriority.CONDITION, spacing_seconds=POD_SPACING_SECONDS
        )
        self._offered: dict[jobs.JobId, tuple[decisions.GroupStatus, jobs.GroupState]] = {}
        self._sent: dict[jobs.JobId, _Sent] = {}
        self._told: dict[jobs.TaskId, statuses.ReasonAndMessage] = {}
        self._nominated: dict[jobs.TaskId, decisions.Pipeline] = {}
        """What status.nominatedNodeName was set to, of pods that wait still."""
        self._errors = retries.WriteErrors(observe)

    def report(
        self,
        result: decisions.CycleResult,
        taken: Mapping[jobs.JobId, jobs.Job],
        transition: str,
    ) -> None:
        """Offer what a cycle found out about the jobs of its snapshot.

        transition names the cycle in conditions.
        """
        starting = {bind.task.job for bind in result.binds}
        for status in result.groups:
            job = taken[status.job]
            state = job.state
            if self._offered.get(status.job) == (status, state):
                continue
            self._offered[status.job] = (status, state)
            write = partial(self._write_group, status, transition, len(job.tasks))
            if status.job in starting:  # it will soon be another: once its pods are seen there
                self._group_box.offer_later(status.job, write)
            else:
                self._group_box.offer(status.job, write)
            self._tell_pods(status)
        self._renominate(result)
        if result.finished:
            self._forget(result)

    def bound(self, bind: decisions.Bind) -> None:
        """Record that a pod was bound."""
        self._told.pop(bind.task.uid, None)
        self._pod_box.withdraw(bind.task.uid)
        self._herald.notify(statuses.bound_notice(bind))

    def evicted(self, evict: decisions.Evict, gang: jobs.Job) -> None:
        """Record that a pod was evicted; its condition before the kubelet lets go of it."""
        write = partial(self._mark, evict, gang)
        self._lanes.put(write_queue.WritePriority.EVICTION, write)
        self._herald.notify(statuses.evicted_notice(evict, gang))

    def lost(self, evicts: Sequence[decisions.Evict]) -> None:
        """Record on PodGroups that pods of theirs were evicted."""
        by_job: defaultdict[jobs.JobId, list[decisions.Evict]] = defaultdict(list)
        for evict in evicts:
            by_job[evict.task.job].append(evict)
        for job, theirs in by_job.items():
            known = self._groups.stored_group(job)
            if known is not None:
                self._herald.notify(statuses.lost_notice(known.uid, theirs))

    def nominate(self, claims: Iterable[decisions.Pipeline]) -> None:
        """Write on waiting pods where room is being made for them, for people and autoscalers."""
        for claim in claims:
            before = self._nominated.get(claim.task.uid)
            said = claim.task.nominated_node if before is None else before.node
            if said != claim.node:
                self._offer_node(claim.task, claim.node)
            self._nominated[claim.task.uid] = claim

    def _renominate(self, result: decisions.CycleResult) -> None:
        """Take back what is said of pods that room is kept for no more; a bind does so itself."""
        kept = result.carried.nominations
        started = {bind.task.uid for bind in result.binds} if self._nominated else set()
        for uid, claim in list(self._nominated.items()):
            if kept.get(uid) == claim.node:
                continue
            del self._nominated[uid]
            if uid not in started:
                self._offer_node(claim.task, None)

    def _offer_node(self, task: jobs.Task, node: str | None) -> None:
        self._pod_box.offer(("node", task.uid), partial(self._write_node, task, node))

    async def _write_node(self, task: jobs.Task, node: str | None) -> None:
        patch = statuses.nominated_patch(node)
        if await self._write_pod(task, patch, "nomination"):
            again = partial(self._write_node, task, node)
            self._pod_box.offer_again(("node", task.uid), again)

    async def _mark(self, evict: decisions.Evict, gang: jobs.Job) -> None:
        # The Eviction API overwrites a condition that was set before.
        patch = statuses.evicted_patch(evict, gang, now=time.time())
        if await self._write_pod(evict.task, patch, "victim"):
            self._pod_box.offer(("victim", evict.task.uid), partial(self._mark, evict, gang))

    async def _write_pod(self, task: jobs.Task, status: statuses.Body, written: str) -> bool:
        """Write to a pod's status; True where it failed and is worth another try.

        A pod that is another by now, or gone, is left alone.
        """
        if not self._may_commit():
            return False
        path = paths.PODS.status(task.name, task.namespace)
        body = {"metadata": {"uid": task.uid}, "status": status}
        try:
            await self._patch(path, body, connection.STRATEGIC_PATCH)
        except connection.ApiError as error:
            return self._errors.failed(written, error) and not isinstance(
                error, connection.Conflict
            )
        self._observe(written, "written")
        return False

    def _forget(self, result: decisions.CycleResult) -> None:
        """Drop what is remembered of jobs and pods that are gone; now and then is enough."""
        if len(self._offered) > 2 * len(result.groups) + 100:
            current = {status.job for status in result.groups}
            self._offered = {job: kept for job, kept in self._offered.items() if job in current}
            self._sent = {job: kept for job, kept in self._sent.items() if job in current}
        waiting = sum(len(status.unplaced) + len(status.rejections) for status in result.groups)
        if len(self._told) > 2 * waiting + TOLD_SLACK:
            there = {task.uid for status in result.groups for task in status.unplaced}
            there |= {pod.uid for status in result.groups for pod in status.rejections}
            self._told = {uid: kept for uid, kept in self._told.items() if uid in there}

    async def _write_group(self, status: decisions.GroupStatus, transition: str, pods: int) -> None:
        """Bring a PodGroup's status to what it should be, seen from its newest version."""
        known = self._groups.stored_group(status.job)
        if known is None or known.uid != status.uid or not self._may_commit():
            return
        stored = known.state
        sent = self._sent.get(status.job)
        seen = _number(known.resource_version)
        if sent is not None and sent.uid == known.uid and seen <= sent.version:
            # Nobody wrote since. What the API server kept of our write may be less (a CRD that
            # doesn't know a field prunes it), and isn't a reason to write it again.
            stored = sent.state
        wanted = statuses.group_state(status, stored, now=time.time(), transition=transition)
        patch = statuses.group_patch(stored, wanted)
        if patch is None:
            return
        body = {"metadata": {"resourceVersion": known.resource_version}, "status": patch}
        namespace, _, name = status.job.partition("/")
        path = paths.POD_GROUPS.at(name, namespace)
        try:
            answer = await self._patch(path, body, connection.MERGE_PATCH)
        except connection.ApiError as error:
            if self._errors.failed("podgroup", error):
                again = partial(self._write_group, status, transition, pods)
                self._group_box.offer_again(status.job, again)
            return
        version = _number(responses.version_of(answer))
        self._sent[status.job] = _Sent(uid=known.uid, version=version, state=wanted)
        self._observe("podgroup", "written")
        notice = statuses.group_notice(status, stored, wanted, pods=pods)
        if notice is not None:
            self._herald.notify(notice)

    def _tell_pods(self, status: decisions.GroupStatus) -> None:
        for pod, words in statuses.pod_words(status):
            if self._told.get(pod.uid) != words:
                self._pod_box.offer(pod.uid, partial(self._tell_pod, pod, words))

    async def _tell_pod(
        self, pod: jobs.Task | jobs.InvalidPod, words: statuses.ReasonAndMessage
    ) -> None:
        """Tell a pod why it waits; an event only when the topic is another."""
        told = self._told.get(pod.uid)
        if told == words or not self._may_commit():
            return
        path = paths.PODS.status(pod.name, pod.namespace)
        body = {
            "metadata": {"uid": pod.uid},
            "status": statuses.pod_patch(words, now=time.time()),
        }
        try:
            await self._patch(path, body, connection.STRATEGIC_PATCH)
        except connection.ApiError as error:
            if self._errors.failed("pod", error) and not isinstance(error, connection.Conflict):
                self._pod_box.offer_again(pod.uid, partial(self._tell_pod, pod, words))
            return
        self._told[pod.uid] = words
        self._observe("pod", "written")
        if told is None or told.topic != words.topic:
            self._herald.notify(statuses.waiting_notice(pod, words.message))

    async def _patch(self, path: str, body: object, content_type: str) -> bytes:
        return await self._link.call(
            "PATCH",
            path,
            msgspec.json.encode(body),
            content_type=content_type,
            may_send=self._may_commit,
        )


def _number(version: str) -> int:
    """A resourceVersion as a number, which may be compared since Kubernetes 1.35."""
    return int(version) if version.isdecimal() else 0
