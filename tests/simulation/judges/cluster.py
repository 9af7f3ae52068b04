"""The cluster between two changes, rebuilt from the history."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from tests.simulation.judges import alone, amounts, objects
from tests.simulation.judges.alone import Lone
from tests.simulation.judges.amounts import Amounts
from tests.simulation.judges.history import Change, Object, served

Key = tuple[str, str]
"""Namespace and name."""
Said = TypeVar("Said")

OF_LONE_PODS = frozenset({"pods", "namespaces", *alone.OWNERS.values()})
"""What decides which pods are jobs by themselves, and their Queues."""


class Cluster:
    """All objects, and where the pods are."""

    def __init__(self, default_queue: str = "default", schedulers: Sequence[str] = ()) -> None:
        """`schedulers` are those whose pods start alone if they need no PodGroup."""
        self._default = default_queue
        self._schedulers = schedulers
        self._lone: Sequence[Lone] | None = None
        self._objects: defaultdict[str, dict[Key, Object]] = defaultdict(dict)
        self.used: defaultdict[str, Amounts] = defaultdict(Counter)
        """Requests by node, of pods that haven't ended."""
        self.leaving: defaultdict[str, Amounts] = defaultdict(Counter)
        """The part of `used` whose pods are being deleted."""
        self.members: defaultdict[Key, dict[Key, Object]] = defaultdict(dict)
        """Pods by PodGroup."""
        self.gone: Counter[Key] = Counter()
        """By PodGroup, how many pods were deleted that had succeeded, while others were left."""
        self.group_held: defaultdict[Key, Amounts] = defaultdict(Counter)
        """Requests by PodGroup, of pods that have a node and stay."""
        self._groups: defaultdict[str, dict[Key, None]] = defaultdict(dict)
        """PodGroups by Queue."""
        self.requests: dict[str, Amounts] = {}
        """By UID of a pod."""
        self._versions: Counter[Key] = Counter()
        """How often each PodGroup, or a pod of it, has changed."""
        self._said: defaultdict[Key, dict[str, tuple[Hashable, Any]]] = defaultdict(dict)
        """By PodGroup and question."""

    def once(
        self, key: Key, question: str, say: Callable[[], Said], given: Hashable = None
    ) -> Said:
        """Let the answer to a question about a PodGroup be found once for each state of it.

        It may depend on the PodGroup, on its pods and on what is `given`, and on nothing else.
        """
        known = self._said[key]
        state = self._versions[key], given
        before = known.get(question)
        if before is not None and before[0] == state:
            found: Said = before[1]
            return found
        found = say()
        known[question] = state, found
        return found

    def all(self, resource: str) -> Iterable[Object]:
        """The objects of a kind, by its plural."""
        return self._objects[resource].values()

    def get(self, resource: str, key: Key) -> Object | None:
        """An object, if it exists."""
        return self._objects[resource].get(key)

    def groups_of(self, queue: str) -> Iterator[Object]:
        """The PodGroups of a Queue."""
        groups = self._objects["podgroups"]
        return (groups[key] for key in self._groups[queue])

    @property
    def lone_pods(self) -> Sequence[Lone]:
        """The pods that are jobs by themselves."""
        if self._lone is None:
            pods = [
                each for each in self.all("pods") if objects.scheduler_of(each) in self._schedulers
            ]
            self._lone = list(alone.found(pods, self.get, self._default))
        return self._lone

    def in_use(self, queue: str) -> bool:
        """Whether a Queue has PodGroups or pods without one."""
        return bool(self._groups[queue]) or any(each.queue == queue for each in self.lone_pods)

    def held(self, queue: str) -> Amounts:
        """Requests of the Queue's pods that have a node and stay."""
        total: Amounts = Counter()
        for key in self._groups[queue]:
            total.update(self.group_held[key])
        for pod, own in self.lone_pods:
            if own == queue and objects.holds(pod) and not objects.leaving(pod):
                total.update(self.request(pod))
        return total

    def request(self, pod: Object) -> Amounts:
        """What a pod needs."""
        uid = pod["metadata"]["uid"]
        known = self.requests.get(uid)
        if known is None:
            known = self.requests[uid] = amounts.request(pod)
        return known

    def apply(self, change: Change) -> None:
        """Take in what a request did."""
        if not served(change) or (change.before is None and change.after is None):
            return
        found = change.after or change.before
        assert found is not None
        self.put(change.resource, objects.key_of(found), change.after)

    def put(self, resource: str, key: Key, after: Object | None) -> None:
        """Store an object as it is now; None where it is gone."""
        known = self._objects[resource]
        before = known.get(key)
        if resource in OF_LONE_PODS:
            self._lone = None
        if resource == "pods":
            self._pod(key, before, -1)
            self._pod(key, after, 1)
            if after is None and before is not None:
                self.requests.pop(before["metadata"]["uid"], None)
                self._note_end(before)
        elif resource == "podgroups":
            self._versions[key] += 1
            if before is not None:
                self._groups[objects.queue_of(before, self._default)].pop(key, None)
            if after is not None:
                self._groups[objects.queue_of(after, self._default)][key] = None
        if after is None:
            known.pop(key, None)
        else:
            known[key] = after

    def _note_end(self, pod: Object) -> None:
        """A PodGroup without pods is free for a new gang."""
        group = objects.group_of(pod)
        if group is None:
            return
        if not self.members[group]:
            self.gone.pop(group, None)
        elif objects.phase(pod) == "Succeeded":
            self.gone[group] += 1

    def _pod(self, key: Key, pod: Object | None, sign: int) -> None:
        if pod is None:
            return
        group = objects.group_of(pod)
        if group is not None:
            self._versions[group] += 1
            if sign > 0:
                self.members[group][key] = pod
            else:
                self.members[group].pop(key, None)
        if not objects.holds(pod):
            return
        asked = self.request(pod)
        _add(self.used[objects.node_of(pod)], asked, sign)
        if objects.leaving(pod):
            _add(self.leaving[objects.node_of(pod)], asked, sign)
        if group is not None and not objects.leaving(pod):
            _add(self.group_held[group], asked, sign)


def _add(total: Amounts, some: Amounts, sign: int) -> None:
    for name, amount in some.items():
        total[name] += sign * amount
