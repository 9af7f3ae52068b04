"""Device charges: for which pods the devices of claims count in the figures of queues.

A claim counts once, for a pod that uses it. As soon as it is reserved, that is the first pod that
it is reserved for. Before, each job that waits for the claim has one pod for which it counts: none
of them may start without it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from vscheduler.core.model.devices import ResourceClaim
from vscheduler.core.model.jobs import WAITING, JobId, TaskId, TaskStatus
from vscheduler.mirror.translate.pods import Pod

Amounts = Mapping[str, int]


class Uses(msgspec.Struct, kw_only=True):
    """A claim, and the pods that wait for it."""

    claim: ResourceClaim | None = None
    waiting: dict[TaskId, Pod] = msgspec.field(default_factory=dict)
    charged: frozenset[TaskId] = frozenset()


class DeviceCharges:
    """Follows claims and the pods that use them."""

    def __init__(
        self,
        pod_of: Callable[[TaskId], Pod | None],
        changed: Callable[[TaskId, Amounts], None],
    ) -> None:
        """`pod_of` returns a pod as cycles see it. `changed` is told what counts for a pod now."""
        self._pod_of, self._changed = pod_of, changed
        self._uses: defaultdict[str, Uses] = defaultdict(Uses)
        self._reserved: defaultdict[str, set[str]] = defaultdict(set)
        """By UID of a pod, the allocated claims that are reserved for it."""
        self._charges: defaultdict[TaskId, dict[str, Amounts]] = defaultdict(dict)
        """By pod, what counts for it, by claim."""
        self._foreign: set[str] = set()
        self.foreign: frozenset[str] = frozenset()
        """Claims that living pods of other schedulers use, and no pod of ours."""

    @property
    def anything(self) -> bool:
        """Whether devices count for any pod."""
        return bool(self._charges)

    def concerns(self, pod: Pod) -> bool:
        """Whether a claim is reserved for the pod."""
        return pod.uid in self._reserved

    def move_claim(self, key: str, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Apply a claim that came, changed or went."""
        for uid in _consumers(old):
            self._reserved[uid].discard(key)
            if not self._reserved[uid]:
                del self._reserved[uid]
        for uid in _consumers(new):
            self._reserved[uid].add(key)
        self._uses[key].claim = new
        self._settle(key)

    def move_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Apply a pod that came, changed or went."""
        known = old or new
        assert known is not None
        before, after = set(_waits_for(old)), set(_waits_for(new))
        for key in before - after:
            del self._uses[key].waiting[known.uid]
        for key in after:
            assert new is not None
            self._uses[key].waiting[known.uid] = new
        for key in sorted(before | after | self._reserved.get(known.uid, set())):
            self._settle(key)

    def _settle(self, key: str) -> None:
        """Find out for which pods a claim counts, and tell of those for which that has changed."""
        self._note_foreign(key)
        uses = self._uses[key]
        amounts = {} if uses.claim is None else uses.claim.counted
        charged = frozenset(self._charged(uses)) if amounts else frozenset()
        before, uses.charged = uses.charged, charged
        if uses.claim is None and not uses.waiting:
            del self._uses[key]
        for uid in sorted(before | charged):
            known = self._charges[uid].pop(key, None)
            if uid in charged:
                self._charges[uid][key] = amounts
            total = _sum(self._charges[uid].values())
            if not self._charges[uid]:
                del self._charges[uid]
            if known != (amounts if uid in charged else None):
                self._changed(uid, total)

    def _note_foreign(self, key: str) -> None:
        claim = self._uses[key].claim
        users = () if claim is None or claim.allocation is None else claim.reserved_for
        pods_ = [pod for user in users if (pod := self._pod_of(TaskId(user.uid))) is not None]
        others = any(user.resource != "pods" for user in users) or any(
            pod.lives for pod in pods_ if not pod.ours
        )
        foreign = others and not any(pod.ours for pod in pods_)
        if foreign != (key in self._foreign):
            (self._foreign.add if foreign else self._foreign.discard)(key)
            self.foreign = frozenset(self._foreign)

    def _charged(self, uses: Uses) -> Iterator[TaskId]:
        claim = uses.claim
        if claim is not None and claim.allocation is not None and claim.reserved_for:
            consumers = (TaskId(each.uid) for each in claim.reserved_for)
            yield from [uid for uid in consumers if self._lives(uid)][:1]
            return
        first: dict[JobId | None, Pod] = {}
        for pod in sorted(uses.waiting.values(), key=_rank):
            first.setdefault(pod.group, pod)
        yield from (pod.uid for pod in first.values())

    def _lives(self, uid: TaskId) -> bool:
        pod = self._pod_of(uid)
        return pod is not None and pod.ours and pod.lives


def _consumers(claim: ResourceClaim | None) -> Iterator[str]:
    if claim is not None and claim.allocation is not None:
        yield from {each.uid for each in claim.reserved_for}


def _waits_for(pod: Pod | None) -> Iterator[str]:
    """Iterate over the claims that a waiting pod of ours uses."""
    if pod is not None and pod.task is not None and pod.status in WAITING:
        uses = pod.pod_class.constraints.resource_claims
        yield from (use.claim for use in uses if use.claim and use.owner in ("", pod.uid))


def _rank(pod: Pod) -> tuple[bool, int, float, str]:
    """Return the place of a pod among those of its job: in the order in which they start."""
    assert pod.task is not None
    return (
        pod.status is TaskStatus.GATED,
        -pod.task.priority,
        pod.task.created,
        pod.uid,
    )


def _sum(every: Iterable[Amounts]) -> Amounts:
    found: Counter[str] = Counter()
    for each in every:
        found.update(each)
    return dict(sorted(found.items()))
