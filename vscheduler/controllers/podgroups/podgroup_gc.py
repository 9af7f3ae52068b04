"""Garbage collection of unused automatic PodGroups, in the two steps explained in deletion.py.

Groups of a namespace are judged together because they share the list of its pods. Each group is
then written separately, so that a slow write doesn't delay the writes after it.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import msgspec
import structlog

from vscheduler.controllers.podgroups import deletion, group_reading
from vscheduler.controllers.podgroups.auto_groups import Owner
from vscheduler.controllers.podgroups.deletion import (
    Delete,
    Keep,
    Mark,
    OwnerState,
    Pod,
    Step,
    Unmark,
    Wait,
)
from vscheduler.controllers.podgroups.group_reading import Notes, Reader
from vscheduler.controllers.ports import Api, Object, Preconditions, RefusedError, Trouble
from vscheduler.mirror import paths

log = structlog.get_logger(__name__)

ROUNDS = 4
"""How often a write is tried in a row after concurrent changes."""

FAILED = "the scheduler failed on the group"


class UnusedPodGroup(msgspec.Struct):
    """A group that seems unused, with the progress of its deletion."""

    namespace: str
    name: str
    unused_since: float
    group: Object | None = None
    owner: OwnerState = OwnerState.UNKNOWN
    refused: Delete | None = None
    """A delete that was refused because the version had changed."""
    verdict: Step | None = None
    """The step left to do; None when the group is gone."""

    @property
    def key(self) -> str:
        """`namespace/name` of the group."""
        return f"{self.namespace}/{self.name}"

    @property
    def unchanged(self) -> bool:
        """Whether nothing has to be written."""
        return self.verdict is None or isinstance(self.verdict, Keep | Wait)


class PodGroupGC:
    """Marks and deletes unused PodGroups."""

    def __init__(
        self,
        api: Api,
        notes: Notes,
        *,
        schedulers: Sequence[str],
        grace_seconds: float,
        spares: Callable[[Object, Owner], bool],
    ) -> None:
        """`spares` tells whether new pods of an owner go without this group."""
        self._api = api
        self._notes = notes
        self._reader = Reader(api, notes)
        self._schedulers = tuple(schedulers)
        self._grace_seconds = grace_seconds
        self._spares = spares

    async def look(self, namespace: str, unused: Mapping[str, float]) -> list[UnusedPodGroup]:
        """Judge groups by name that seem unused since the given times (time.monotonic).

        An unreadable group is kept, with the error as the reason. Raises RefusedError if the pods
        can't be read.
        """
        cases = [UnusedPodGroup(namespace, name, since) for name, since in unused.items()]
        await self._judge_anew(namespace, cases)
        return cases

    async def write(self, case: UnusedPodGroup) -> None:
        """Carry out the verdict; after a concurrent change, judge again and carry out the new
        verdict.

        Afterwards `verdict` is the step left to do: None when the group is gone, Mark when the mark
        is set and the group has to be judged once more.
        """
        for _ in range(ROUNDS):
            if case.unchanged or not await self._obey(case):
                return
            try:
                await self._judge_anew(case.namespace, [case])
            except RefusedError as error:
                case.verdict = Keep(why=str(error))
        case.verdict = Keep(why="it keeps changing")

    async def _judge_anew(self, namespace: str, cases: Sequence[UnusedPodGroup]) -> None:
        """Read groups, owners and pods again, in the required order, and judge."""
        unread: dict[str, Step] = {}

        async def read(case: UnusedPodGroup) -> None:
            try:
                case.group = await self._reader.group(namespace, case.name)
                if case.group is not None:
                    case.owner = await self._owner_state(namespace, case.group)
            except RefusedError as error:
                unread[case.name] = Keep(why=str(error))
            except Exception as error:  # noqa: BLE001 - a failure affects a single group
                self._notes.failures.failed("part", case.key, error)
                unread[case.name] = Keep(why=FAILED)

        await group_reading.each(read, cases)
        pods: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in await self._reader.pods(namespace):
            for name in pod.groups:
                pods[name].append(pod)
        for case in cases:
            verdict: Step | None = unread.get(case.name, Keep(why=FAILED))
            with self._notes.failures.contained("part", case.key):
                verdict = unread.get(case.name) or self._judge(case, pods[case.name])
            case.verdict = verdict

    async def _owner_state(self, namespace: str, group: Object) -> OwnerState:
        ref = deletion.owner_ref(group)
        if ref is None:
            return OwnerState.GONE
        state, owner = await self._reader.owner(ref, namespace)
        if state is OwnerState.ALIVE and owner is not None and self._spares(group, owner):
            return OwnerState.SPARED
        return state

    def _judge(self, case: UnusedPodGroup, pods: Sequence[Pod]) -> Step | None:
        group = case.group
        if group is None:
            return None
        state = deletion.found(
            group,
            case.owner,
            pods,
            schedulers=self._schedulers,
            unused_since=case.unused_since,
        )
        step = deletion.judge(state, time.monotonic(), self._grace_seconds)
        if case.refused is not None:
            log.info(
                "podgroup.kept",
                podgroup=case.key,
                why=step.why if isinstance(step, Keep) else type(step).__name__.lower(),
                judged_uid=case.refused.uid,
                judged_resource_version=case.refused.resource_version,
                uid=state.uid,
                resource_version=state.resource_version,
            )
            case.refused = None
        return step

    async def _obey(self, case: UnusedPodGroup) -> bool:
        """Carry out the verdict; return whether to judge the group again at once."""
        path = paths.POD_GROUPS.at(case.name, case.namespace)
        step = case.verdict
        action = type(step).__name__.lower()
        try:
            match step:
                case Mark():
                    await self._api.patch(path, deletion.marking(step, time.time()))
                case Unmark():
                    await self._api.patch(path, deletion.unmarking(step))
                case Delete():
                    await self._api.delete(
                        path,
                        Preconditions(uid=step.uid, resource_version=step.resource_version),
                    )
        except RefusedError as error:
            return self._take(case, action, error)
        self._notes.done(action)
        if isinstance(step, Delete):
            case.verdict = None
            log.info(
                "podgroup.deleted",
                podgroup=case.key,
                uid=step.uid,
                resource_version=step.resource_version,
                owner=case.owner.value,
            )
        return False

    def _take(self, case: UnusedPodGroup, action: str, error: RefusedError) -> bool:
        """Record a failed write; return whether to judge the group again at once.

        Without an answer the outcome is unknown: the group is judged again later, in the next
        batch.
        """
        self._notes.refused(action, case.key, error)
        match error.trouble:
            case Trouble.MISSING:
                case.verdict = None
                return False
            case Trouble.CONFLICT:
                if isinstance(case.verdict, Delete):
                    case.refused = case.verdict
                return True
        case.verdict = Keep(why=str(error))
        return False
