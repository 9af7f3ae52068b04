"""Trees of PodGroups of Kubernetes' own API, and the jobs that they are.

A CompositePodGroup with policy gang is one job with all PodGroups below it as sub-groups, told
apart by a label that only cycles see. Below one with policy basic, each group is a job by itself.
Kubernetes: the workload forest of kube-scheduler, and its plugin GangScheduling.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from vscheduler.mirror.paths import COMPOSITE_POD_GROUPS
from vscheduler.mirror.translate.translation import Group
from vscheduler.model import jobs
from vscheduler.model.constraints import Operator, Requirement, Selector
from vscheduler.model.jobs import JobId, SubGroup
from vscheduler.model.topology import TopologyRequest

LEVELS_MAX = 4
"""How many levels a tree may have, PodGroups included (Kubernetes: WorkloadMaxTreeDepth)."""


class TreeError(ValueError):
    """Why the pods of a tree can't start."""


class Moved(msgspec.Struct, frozen=True):
    """What a change of a group means for jobs."""

    shown: Mapping[JobId, Group | None]
    """The jobs of changed trees, even if only the status of a PodGroup below has changed; None for
    those that are none any more."""
    roots: Mapping[JobId, JobId]
    """PodGroups with another job: the group whose job it is now."""


class GroupTrees:
    """Follows groups, and says which jobs they are."""

    def __init__(self) -> None:
        self._groups: dict[JobId, Group] = {}
        """Groups that belong to a tree."""
        self._children: defaultdict[JobId, set[JobId]] = defaultdict(set)
        self._changed: set[JobId] = set()
        """The groups above all others of trees that have changed."""
        self._trees: dict[JobId, set[JobId]] = {}
        """By the group above all others, the groups of a tree, as last read."""
        self.roots: dict[JobId, JobId] = {}
        """The job of each PodGroup that is none by itself."""

    @property
    def has_changed(self) -> bool:
        """Whether `settle` has anything to find out."""
        return bool(self._changed)

    def group(self, key: JobId) -> Group | None:
        """Return a group that belongs to a tree, as it is by itself."""
        return self._groups.get(key)

    def pod_groups(self) -> Iterator[Group]:
        """Iterate over the PodGroups that belong to a tree."""
        return (each for key, each in self._groups.items() if not jobs.is_composite(key))

    def queue_beside(self, key: JobId) -> str:
        """Return the queue that the first PodGroup by name names of those with the same parent, the
        PodGroup itself included; empty if none does.
        """
        group = self._groups.get(key)
        below = sorted(self._children.get(group.parent, ()) if group and group.parent else ())
        groups = (self._groups[each] for each in below if not jobs.is_composite(each))
        return next((each.job.queue for each in groups if each.job.queue), "")

    def move(self, key: JobId, new: Group | None) -> bool:
        """Apply a group that came, changed or went; return whether it is a matter of trees, for
        `settle`. Others are jobs by themselves.
        """
        old = self._groups.get(key)
        in_tree = jobs.is_composite(key) or (new is not None and new.parent)
        if old is None and not in_tree and key not in self._changed:
            return False
        self._changed.add(self._top(key))
        if old is not None:
            del self._groups[key]
            self._unlink(key, old)
        if new is not None:
            self._groups[key] = new
            if new.parent:
                self._children[new.parent].add(key)
        self._changed.add(self._top(key))
        return True

    def _unlink(self, key: JobId, group: Group) -> None:
        if group.parent:
            self._children[group.parent].discard(key)
            if not self._children[group.parent]:
                del self._children[group.parent]

    def settle(self, known_jobs: Mapping[JobId, Group]) -> Moved:
        """Find out which jobs the changed trees are: once for many changes, as all of a tree is
        read. `known_jobs` are the groups that were jobs until now.
        """
        known = {key for top in self._changed for key in self._trees.pop(top, ())} | self._changed
        tops = {self._top(key) for key in known}
        self._changed.clear()
        shown: dict[JobId, Group] = {}
        roots: dict[JobId, JobId] = {}
        for top in sorted(tops):
            known |= self._trees.pop(top, set())
            found = GroupTree(self._groups, self._children, top)
            found.read()
            shown |= found.shown
            roots |= found.roots
            tree = {key for key in _below(self._children, top) if key in self._groups}
            if tree:
                self._trees[top] = tree
            known |= tree
        moved: dict[JobId, Group | None] = {}
        rerooted: dict[JobId, JobId] = {}
        for key in sorted(known):
            if key in shown or key in known_jobs:
                moved[key] = shown.get(key)
            if self.roots.pop(key, key) != roots.get(key, key):
                rerooted[key] = roots.get(key, key)
        self.roots |= roots
        return Moved(moved, rerooted)

    def _top(self, key: JobId) -> JobId:
        """Return the group above all others of the tree, which needn't exist; if they are a circle,
        the first by name.
        """
        path: dict[JobId, None] = {}
        while key not in path:
            path[key] = None
            group = self._groups.get(key)
            if group is None or not group.parent:
                return key
            key = group.parent
        circle = list(path)
        return min(circle[circle.index(key) :])


def _below(children: Mapping[JobId, set[JobId]], top: JobId) -> Iterator[JobId]:
    """Iterate over a group and all below it, each once, parents first."""
    seen, queue = {top}, [top]
    for key in queue:
        yield key
        new = sorted(children.get(key, set()) - seen)
        seen.update(new)
        queue += new


class GroupTree:
    """Reads one tree: a PodGroup may start only if the whole tree is right."""

    def __init__(
        self, groups: Mapping[JobId, Group], children: Mapping[JobId, set[JobId]], top: JobId
    ) -> None:
        self._groups, self._children, self._top = groups, children, top
        self.shown: dict[JobId, Group] = {}
        """The jobs."""
        self.roots: dict[JobId, JobId] = {}
        """The jobs of PodGroups that are none by themselves."""

    def read(self) -> None:
        """Find the jobs."""
        try:
            self._check()
        except TreeError as error:
            self._refuse(self._top, str(error))
            return
        self._read(self._top, queue="")

    def _below(self, key: JobId) -> list[JobId]:
        """Return the children of a group, sorted."""
        return sorted(self._children.get(key, ()))

    def _leaves(self, key: JobId) -> list[JobId]:
        """Return the PodGroups below a group, or the PodGroup itself."""
        every = _below(self._children, key)
        return [each for each in every if each in self._groups and not jobs.is_composite(each)]

    def _refuse(self, key: JobId, why: str) -> None:
        """Let no pod below a group start."""
        for leaf in self._leaves(key):
            group = self._groups[leaf]
            self.shown[leaf] = replace(group, defect=why, job=replace(group.job, topology=None))

    def _read(self, key: JobId, queue: str) -> None:
        """Read a group whose job is no other's. `queue` is that of the groups above, if any."""
        group = self._groups[key]
        queue = queue or group.job.queue
        if not jobs.is_composite(key):
            self.shown[key] = replace(group, job=replace(group.job, queue=queue))
        elif group.gang or group.job.topology is not None:
            try:
                self._show(key, queue)
            except TreeError as error:
                self._refuse(key, str(error))
        else:
            for child in self._below(key):
                self._read(child, queue)

    def _check(self) -> None:
        """Raise TreeError if kube-scheduler would refuse the tree (validatePodGroup)."""
        levels: dict[JobId, int] = {}
        for key in _below(self._children, self._top):
            group = self._groups.get(key)
            if group is None:
                raise TreeError(
                    f"{_named(key)}, to which it belongs, doesn't exist, or the API server doesn't "
                    f"serve {COMPOSITE_POD_GROUPS.api_version}"
                )
            if key == self._top and group.parent:
                raise TreeError(f"{_named(key)} is above itself")
            above = self._groups[group.parent] if group.parent and key != self._top else None
            levels[key] = 1 if above is None else levels[above.job.id] + 1
            if levels[key] > LEVELS_MAX:
                raise TreeError(
                    f"{_named(key)} is on level {levels[key]}; {LEVELS_MAX} are allowed"
                )
            if above is not None:
                _check_child(group, above)

    def _show(self, root: JobId, queue: str) -> None:
        """Let a composite be a job."""
        group, leaves = self._groups[root], self._leaves(root)
        found = [self._groups[leaf].job for leaf in leaves]
        parts = self._parts(root) if group.gang else self._each(root)
        topology = _topology(group.job, found)
        if topology is not None:
            parts = [replace(part, topology=_within(part.topology, group.job)) for part in parts]
        needed = sum(map(_least, parts))
        job = replace(
            group.job,
            queue=queue or next((job.queue for job in found if job.queue), ""),
            min_member=max(1, needed),
            sub_groups=tuple(parts),
            topology=topology,
            goes_whole=any(job.goes_whole for job in (group.job, *found)),
            claim_groups=tuple(each for job in found for each in job.claim_groups),
        )
        self.shown[root] = replace(group, job=job)
        self.roots |= dict.fromkeys(leaves, root)

    def _parts(self, key: JobId) -> list[SubGroup]:
        """Return what a group needs to start."""
        if not jobs.is_composite(key):
            return [_part(self._groups[key], 1)]
        group, children = self._groups[key], self._below(key)
        count = group.job.min_member
        if group.job.topology is not None and not self._is_root(key):
            raise TreeError(f"a topology of {_named(key)}, which is below another, isn't supported")
        if count > len(children):
            raise TreeError(f"{len(children)} of {count} groups of {_named(key)} exist")
        if count == len(children):
            return [part for child in children for part in self._parts(child)]
        leaves = [self._groups[child].job for child in children]
        unlike = {job.topology and job.topology.key for job in leaves}
        if any(map(jobs.is_composite, children)) or len(unlike) > 1:
            raise TreeError(
                f"{_named(key)}: minGroupCount {count} of {len(children)} groups is only supported "
                f"for PodGroups with equal topology"
            )
        sizes = {job.name: job.min_member for job in leaves}
        return [_sub_group(_named(key), sizes, minimum=count, topology=leaves[0].topology)]

    def _is_root(self, key: JobId) -> bool:
        """Whether a gang isn't part of another one."""
        parent = self._groups[key].parent
        return not parent or not self._groups[parent].gang

    def _each(self, key: JobId) -> list[SubGroup]:
        """Return the PodGroups of a composite with policy basic, none of which is needed."""
        children = self._below(key)
        if any(map(jobs.is_composite, children)):
            raise TreeError(
                f"{_named(key)}: a topology with policy basic is only supported above PodGroups"
            )
        return [_part(self._groups[child], 0) for child in children]


def _check_child(group: Group, above: Group) -> None:
    """Raise TreeError if a group contradicts the one above it."""
    name, over = _named(group.job.id), _named(above.job.id)
    if not jobs.is_composite(above.job.id):
        raise TreeError(f"{over} isn't composite")
    if group.priority != above.priority:
        raise TreeError(
            f"{name} has priority {group.priority}, {over} {above.priority}; "
            f"both must name the same PriorityClass"
        )
    if above.gang and not group.gang:
        raise TreeError(f"{name} has policy basic, {over} above it gang; both must be gangs")
    if above.job.goes_whole and not group.job.goes_whole:
        raise TreeError(f"{name} has no disruptionMode all, {over} above it has; both need it")
    if group.workload != above.workload:
        raise TreeError(
            f"{name} names Workload {group.workload or '(none)'}, {over} {above.workload}; "
            f"both must name the same"
        )


def _topology(root: jobs.Job, leaves: Sequence[jobs.Job]) -> TopologyRequest | None:
    """Return what a composite asks for, with the labels that divide its domains for PodGroups."""
    below = dict.fromkeys(each.topology.key for each in leaves if each.topology is not None)
    own = root.topology
    levels = tuple(dict.fromkeys((*(() if own is None else (own.key,)), *below)))
    if len(below) > 1:
        raise TreeError(f"PodGroups with several topologies ({', '.join(below)}) aren't supported")
    if not levels:
        return None
    if own is None:
        return TopologyRequest(field="", hard=False, key=levels[0], levels=levels)
    return replace(own, levels=levels)


def _within(topology: TopologyRequest | None, root: jobs.Job) -> TopologyRequest | None:
    """Return what a PodGroup asks for beyond its root: None if that says the same."""
    if topology is None or root.topology is None or topology.key != root.topology.key:
        return topology
    return None


def _part(group: Group, minimum: int) -> SubGroup:
    job = group.job
    sizes = {job.name: job.min_member}
    return _sub_group(_named(job.id), sizes, minimum=minimum, topology=job.topology)


def _sub_group(
    name: str, sizes: Mapping[str, int], *, minimum: int, topology: TopologyRequest | None
) -> SubGroup:
    """Return the policy of the PodGroups with these sizes, by name."""
    selector = Selector((Requirement(jobs.POD_GROUP_LABEL, Operator.IN, tuple(sizes)),))
    least, most = min(sizes.values()), max(sizes.values())
    return SubGroup(
        name=name,
        size=least,
        sizes=sizes if most > least else {},
        minimum=minimum,
        selector=selector,
        keys=(jobs.POD_GROUP_LABEL,),
        topology=topology,
    )


def _least(policy: SubGroup) -> int:
    """Return how many pods the smallest PodGroups need of which the policy needs so many."""
    assert policy.selector is not None, "a policy of PodGroups selects them by name"
    names = policy.selector.requirements[0].values
    return sum(sorted(policy.size_of((name,)) for name in names)[: policy.minimum])


def _named(key: JobId) -> str:
    kind = "CompositePodGroup" if jobs.is_composite(key) else "PodGroup"
    return f"{kind} {jobs.names_of(key)[1]}"
