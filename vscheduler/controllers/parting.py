"""Automatic PodGroups that nobody uses go, in the two steps that deletion.py tells of."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from vscheduler.controllers import deletion, group_reading, ports

log = structlog.get_logger(__name__)

ROUNDS = 4
"""How often groups are looked at in a row: to mark them, to delete them, and twice more where
something came between."""


@dataclass(slots=True)
class Case:
    """A group that seems to be unused, while it is looked at."""

    name: str
    unused_since: float
    group: ports.Object | None = None
    owner: deletion.OwnerState = deletion.OwnerState.UNKNOWN
    refused: deletion.Delete | None = None
    """A delete that met another version."""
    verdict: deletion.Step | None = None
    """What is left to do; None: it is gone."""


class Parter:
    """Marks and deletes PodGroups."""

    def __init__(
        self,
        api: ports.Api,
        notes: group_reading.Notes,
        *,
        schedulers: Sequence[str],
        grace_seconds: float,
    ) -> None:
        self._api = api
        self._notes = notes
        self._reader = group_reading.Reader(api, notes)
        self._schedulers = tuple(schedulers)
        self._grace_seconds = grace_seconds

    async def part(
        self, namespace: str, unused: Mapping[str, float]
    ) -> Mapping[str, deletion.Step | None]:
        """Look at groups that seem to be unused since these times (time.monotonic), by name.

        Gives what is left to do: None where the group is gone, Keep or Wait where nothing is, and
        anything else where it is to be looked at again. Raises RefusedError.
        """
        cases = [Case(name, since) for name, since in unused.items()]
        left = cases
        for _ in range(ROUNDS):
            left = await self._look(namespace, left)
            if not left:
                break
        return {case.name: case.verdict for case in cases}

    async def _look(self, namespace: str, cases: Sequence[Case]) -> list[Case]:
        """One round: read all anew, in the order that counts, and do what is to be done."""

        async def read(case: Case) -> None:
            case.group = await self._reader.group(namespace, case.name)
            if case.group is not None:
                case.owner = await self._owner_state(namespace, case.group)

        await group_reading.each(read, cases)
        pods: defaultdict[str, list[deletion.Pod]] = defaultdict(list)
        for pod in await self._reader.pods(namespace):
            pods[pod.group or pod.automatic].append(pod)
        again: list[Case] = []

        async def act(case: Case) -> None:
            case.verdict = self._judge(namespace, case, pods[case.name])
            if case.verdict is not None and await self._obey(namespace, case, case.verdict):
                again.append(case)

        await group_reading.each(act, cases)
        return again

    async def _owner_state(self, namespace: str, group: ports.Object) -> deletion.OwnerState:
        ref = deletion.owner_ref(group)
        if ref is None:
            return deletion.OwnerState.GONE
        state, _ = await self._reader.owner(ref, namespace)
        return state

    def _judge(
        self, namespace: str, case: Case, pods: Sequence[deletion.Pod]
    ) -> deletion.Step | None:
        group = case.group
        if group is None:
            return None
        found = deletion.found(
            group,
            case.owner,
            pods,
            schedulers=self._schedulers,
            unused_since=case.unused_since,
        )
        step = deletion.judge(found, time.monotonic(), self._grace_seconds)
        if case.refused is not None:
            log.info(
                "podgroup.kept",
                podgroup=f"{namespace}/{case.name}",
                why=step.why if isinstance(step, deletion.Keep) else type(step).__name__.lower(),
                judged_uid=case.refused.uid,
                judged_resource_version=case.refused.resource_version,
                uid=found.uid,
                resource_version=found.resource_version,
            )
            case.refused = None
        return step

    async def _obey(self, namespace: str, case: Case, step: deletion.Step) -> bool:
        """Do what was decided; whether to look at the group again at once."""
        path = f"{group_reading.GROUPS.format(namespace=namespace)}/{case.name}"
        action = type(step).__name__.lower()
        try:
            match step:
                case deletion.Keep() | deletion.Wait():
                    return False
                case deletion.Mark():
                    await self._api.patch(path, deletion.marking(step, time.time()))
                case deletion.Unmark():
                    await self._api.patch(path, deletion.unmarking(step))
                case deletion.Delete():
                    await self._api.delete(
                        path,
                        ports.Preconditions(uid=step.uid, resource_version=step.resource_version),
                    )
        except ports.RefusedError as error:
            return self._take(namespace, case, action, error)
        self._notes.done(action)
        if isinstance(step, deletion.Delete):
            case.verdict = None
            log.info(
                "podgroup.deleted",
                podgroup=f"{namespace}/{case.name}",
                uid=step.uid,
                resource_version=step.resource_version,
                owner=case.owner.value,
            )
            return False
        return isinstance(step, deletion.Mark)

    def _take(self, namespace: str, case: Case, action: str, error: ports.RefusedError) -> bool:
        """Note a write that came to nothing; whether to look at the group again at once.

        An answer that is lost says nothing of what was done, so all is read anew.
        """
        self._notes.refused(action, f"{namespace}/{case.name}", error)
        match error.trouble:
            case ports.Trouble.MISSING:
                case.verdict = None
                return False
            case ports.Trouble.CONFLICT:
                if isinstance(case.verdict, deletion.Delete):
                    case.refused = case.verdict
                return True
            case ports.Trouble.UNANSWERED:
                return True
        return False
