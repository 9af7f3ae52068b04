"""Usage and limits of queues with owned amounts, side by side or in a tree (plugin capacity).

A queue's usage counts for all ancestors as well, and so does a guarantee: other queues can't use a
guaranteed amount even while the queue has no job.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.shares import constrained_max_min, inqueue_resources
from vscheduler.core.shares.demands import Session
from vscheduler.model import resources
from vscheduler.model.decisions import LimitExcess, Shortage
from vscheduler.model.jobs import WorkingJob
from vscheduler.model.queues import ROOT, Queue, Tree
from vscheduler.model.resources import ResourceMap, ResourceSpace

Request = Sequence[tuple[int, int]]
"""A resource request as pairs of column and amount."""

ResourceRow = list[float]
"""One amount per column: whole numbers, or inf for no limit."""

Rows = NDArray[np.float64]

CLUSTER = ""
"""The name of a node above all queues, if queues form no tree."""

UNIT_NEAR = 1e-6
"""An amount this little below a whole unit counts as the whole unit: the rest is rounding."""


class QueueUsage:
    """Resources a queue has, was promised and may have, by column (Volcano: queueAttr)."""

    __slots__ = (
        *("allocated", "ceiling", "deserved", "elastic", "entitled", "guarantee", "held"),
        *("limit", "line", "name", "named", "owned", "inqueue", "real", "share", "space"),
        *("reserved", "unkept"),
    )

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.line: tuple[QueueUsage, ...] = (self,)
        """The queue and its ancestors, bottom up."""
        self.allocated = [0] * size
        self.inqueue = [0] * size
        """The part of admitted groups' minResources that the groups don't have yet."""
        self.elastic = [0] * size
        """What groups have above their minResources."""
        self.deserved: ResourceRow = []
        self.entitled = False
        """Whether the queue deserves anything but pod slots."""
        self.guarantee: ResourceRow = []
        self.reserved: ResourceRow = []
        """The guarantees of child queues."""
        self.unkept: ResourceRow = []
        """The part of spec.guarantee beyond what the cluster can keep; empty where nobody has
        checked."""
        self.named: frozenset[int] = frozenset()
        """The columns of all amounts in spec.deserved, even 0, and of other deserved amounts: only
        there can the queue have more than it deserves."""
        self.real: ResourceRow = []
        """The most that the queue can ever have (Volcano: realCapability)."""
        self.limit: ResourceRow = []
        """The most that the queue may be given. The cluster's size limits neither pod slots nor
        devices of claims."""
        self.ceiling: ResourceRow = []
        """The same limit in a cluster of unlimited size."""
        self.space: ResourceRow = []
        """The most that all queues below may hold together."""
        self.owned = [0.0] * size
        """What child queues hold, and what the queue's own jobs have."""
        self.held: ResourceRow = []
        """The same, but at least the guarantee."""
        self.share: float | None = None
        """The dominant share; None once something has changed."""

    def dominant_share(self) -> float:
        """Return the largest fraction in use of a deserved amount (Volcano: updateQueueAttrShare).

        The share of a queue that deserves nothing is 1, so queues lacking something come first.
        """
        if self.share is None:
            pairs = zip(self.allocated, self.deserved, strict=True)
            parts = [has / whole for has, whole in pairs if whole]
            self.share = max(parts) if self.entitled else 1.0
        return self.share

    def kept_beside(self, column: int, *, ceiling: bool = False) -> float:
        """Return what the limit, or the ceiling, leaves out for guarantees of siblings; 0 if a
        capability, or what the parent may have, is less.
        """
        if len(self.line) < 2:
            return 0.0
        above, limit = self.line[1], (self.ceiling if ceiling else self.limit)[column]
        most = (above.ceiling if ceiling else above.real)[column]
        rest = max(0.0, most - above.reserved[column]) + self.guarantee[column]
        if limit != rest or above.reserved[column] <= self.guarantee[column]:
            return 0.0
        return most - limit if limit < math.inf else 0.0

    def committed(self, column: int) -> int:
        """Return allocated and promised resources, less the elastic part."""
        return self.allocated[column] + self.inqueue[column] - self.elastic[column]


class ExceededLimit(msgspec.Struct, frozen=True):
    """A limit that a request would exceed."""

    usage: QueueUsage
    column: int
    requested: int
    limit: float
    kept: float
    """What the limit leaves out for the guarantees of other queues."""
    below: QueueUsage | None = None
    """The child of the queue to which the request goes, if only unused guarantees are kept."""


class QueueSpec(msgspec.Struct):
    """The amounts in a Queue object, by column."""

    capability: Rows
    guarantee: Rows
    deserved: Rows
    named: frozenset[int]
    """The columns in spec.deserved, including amounts of 0."""


class QueueUsageTree:
    """The usage of all queues in one cycle. Without a tree, all queues are children of one node.

    The sum of all siblings' usage, guarantees included, must stay within the parent's limit.
    """

    bounds_trees: ClassVar[bool] = True
    """Whether the size of the cluster limits queues in a tree."""

    def __init__(self, session: Session, tree: Tree | None) -> None:
        self._session = session
        paths = dict.fromkeys(session.queues, (CLUSTER,)) if tree is None else tree.paths
        self._top = CLUSTER if tree is None else ROOT
        self._inner = self._inner_queues(tree)
        """Queues that take no jobs, so that nothing is reserved for a job there."""
        self.usages: dict[str, QueueUsage] = {}
        for name in sorted({*paths, self._top}, key=lambda name: len(paths.get(name, ()))):
            usage = self.usages[name] = QueueUsage(name, session.space.size)
            if name != self._top:
                usage.line = (usage, *self.usages[paths[name][-1]].line)
        self._set_limits(bounded=tree is None or self.bounds_trees, clamped=tree is None)
        self._count()

    def take(self, usage: QueueUsage, request: Request, sign: int = 1) -> None:
        """Add a request to the queue's usage, or subtract the request if `sign` is -1."""
        for each in usage.line:
            for column, amount in request:
                each.allocated[column] += sign * amount
            each.share = None
        # A guarantee is held even while unused. Usage within a guarantee therefore changes nothing
        # for the queues above.
        for column, amount in request:
            rise = float(sign * amount)
            for each in usage.line:
                each.owned[column] += rise
                held = max(each.owned[column], each.guarantee[column])
                rise, each.held[column] = held - each.held[column], held
                if not rise:
                    break

    def add_inqueue(self, usage: QueueUsage, amounts: Mapping[str, int]) -> None:
        """Count amounts promised to an admitted group of the queue."""
        columns = self._session.space.columns
        for name, amount in amounts.items():
            if name in columns:
                for each in usage.line:
                    each.inqueue[columns[name]] += amount

    def exceeded(self, usage: QueueUsage, request: Request) -> Iterator[ExceededLimit]:
        """Yield the limits of the queue and its ancestors that the request would exceed."""
        for each in usage.line:
            allocated, limit = each.allocated, each.limit
            for column, amount in request:
                if allocated[column] + amount > limit[column]:
                    kept = each.kept_beside(column)
                    yield ExceededLimit(each, column, amount, limit[column], kept)
        yield from self._encroached(usage, request)

    def exceeded_by_admission(
        self, usage: QueueUsage, amounts: ResourceMap, *, ceiling: bool = False
    ) -> tuple[QueueUsage, tuple[Shortage, ...]] | None:
        """Return the topmost queue unable to promise these amounts, with the shortages, or None.

        No queue can have more than its ancestors, so the search runs from root down to this queue.
        With `ceiling`, the limits are those of a cluster of unlimited size.
        """
        names = sorted(name for name, amount in amounts.items() if amount)
        for each in reversed(usage.line):
            short = []
            for name in names:
                has, limit = self._committed(each, name, ceiling=ceiling)
                if has + amounts[name] > limit:
                    column = self._session.space.columns.get(name)
                    kept = 0.0 if column is None else each.kept_beside(column, ceiling=ceiling)
                    most = self._committed(each, name, ceiling=True)[1]
                    short.append(
                        Shortage(
                            resource=name,
                            requested=amounts[name],
                            allocated=has,
                            limit=limit,
                            kept=kept,
                            keepers=self.guaranteed_beside(each, name) if kept else (),
                            elastic=0.0 if column is None else each.elastic[column],
                            whole=not kept and limit < most,
                        )
                    )
            if short:
                return each, tuple(short)
        return None

    def shortages(self, usage: QueueUsage, request: Request) -> tuple[Shortage, ...]:
        """Return the limits of one queue that the request would exceed, by resource.

        Of several queues with limits of their own, the topmost: queues below can't have more in any
        case. Otherwise the lowest below which guarantees are kept for others.
        """
        exceeded = list(self.exceeded(usage, request))
        own = [each for each in exceeded if each.below is None]
        top = max(own, key=lambda each: usage.line.index(each.usage), default=None)
        first = top or next(iter(exceeded), None)
        names = self._session.space.names
        found = {
            names[each.column]: Shortage(
                resource=names[each.column],
                requested=each.requested,
                allocated=each.usage.allocated[each.column],
                limit=each.limit,
                owner=each.usage.name or ROOT,
                kept=each.kept,
                keepers=self._keepers(usage, each) if each.kept else (),
                whole=not each.kept and each.limit < each.usage.ceiling[each.column],
            )
            for each in exceeded
            if first is not None and (each.usage, each.below) == (first.usage, first.below)
        }
        return tuple(found[name] for name in sorted(found))

    def _keepers(self, usage: QueueUsage, each: ExceededLimit) -> tuple[str, ...]:
        if each.below is None:
            return self.guaranteed_beside(each.usage, self._session.space.names[each.column])
        return self.unused_below(each.usage, usage, each.column)

    def guaranteed_beside(self, usage: QueueUsage, resource: str) -> tuple[str, ...]:
        """Return the siblings with a guarantee of the resource."""
        column, above = self._session.space.columns[resource], usage.line[1]
        return tuple(
            sorted(
                each.name
                for each in self.usages.values()
                if each is not usage and each.line[1:2] == (above,) and each.guarantee[column]
            )
        )

    def unused_below(self, above: QueueUsage, usage: QueueUsage, column: int) -> tuple[str, ...]:
        """Return the queues below `above`, but not above `usage`, with an unused guarantee."""
        return tuple(
            sorted(
                each.name
                for each in self.usages.values()
                if above in each.line[1:]
                and each not in usage.line
                and each.held[column] > each.owned[column]
            )
        )

    def excesses(self, usage: QueueUsage, amounts: ResourceMap) -> tuple[LimitExcess, ...]:
        """Return what the queue and its ancestors would have above their limits."""
        found = []
        for name, amount in sorted(amounts.items()):
            column = self._session.space.columns.get(name)
            for each in usage.line if amount else ():
                has, limit = self._committed(each, name, ceiling=False)
                if has + amount <= limit:
                    continue
                promised, elastic = 0, 0
                if column is not None:
                    promised, elastic = each.inqueue[column], each.elastic[column]
                found.append(
                    LimitExcess(
                        queue=each.name,
                        resource=name,
                        amount=has + amount + elastic - limit,
                        promised=promised,
                    )
                )
        return tuple(found)

    def _committed(self, usage: QueueUsage, name: str, *, ceiling: bool) -> tuple[int, float]:
        """Return what the queue has committed of a resource, and the limit.

        No node has a resource without a column.
        """
        column = self._session.space.columns.get(name)
        if column is not None:
            limits = usage.ceiling if ceiling else usage.limit
            return usage.committed(column), limits[column]
        queue = self._session.queues.get(usage.name)
        named = queue.capability.get(name) if queue else None
        return 0, (np.inf if named is None else named) if ceiling else 0.0

    def _encroached(self, usage: QueueUsage, request: Request) -> Iterator[ExceededLimit]:
        """Yield guarantees of other queues that the request would use up.

        A cluster that is merely full yields nothing: nodes refuse the pod, with better reasons.
        """
        for column, amount in request:
            rise = float(amount)
            for below, above in itertools.pairwise(usage.line):
                # Usage within a queue's guarantee is already counted at all ancestors, so only the
                # rise above it goes up.
                held = max(below.owned[column] + rise, below.guarantee[column])
                rise = held - below.held[column]
                if not rise:
                    break
                owned = above.owned[column] + rise
                used = above.allocated[column] + amount
                if owned > above.space[column] and owned > used:
                    kept = owned - used
                    left = above.space[column] - kept
                    yield ExceededLimit(above, column, amount, left, kept, below)

    def _set_limits(self, *, bounded: bool, clamped: bool) -> None:
        """Compute all limits (Volcano: buildQueueAttrs; for a tree, checkHierarchicalQueue).

        The size of the cluster is a limit if `bounded`, and limits deserved amounts if `clamped`.
        """
        space = self._session.space
        specs = {name: self._spec(name) for name in self.usages}
        self._count_other_schedulers(specs)
        self._cut_guarantees(specs)
        below = [usage for usage in self.usages.values() if usage.name != self._top]
        kept = {name: np.zeros(space.size) for name in self.usages}
        for usage in below:
            kept[usage.line[1].name] += specs[usage.name].guarantee
        top = specs[self._top]
        total = self._session.total.astype(np.float64)
        ceiling = self._real_capabilities(self._unlimited(), specs, kept)
        real = self._real_capabilities(total, specs, kept) if bounded else ceiling
        for usage in below:
            spec = specs[usage.name]
            if clamped:
                spec.deserved = np.minimum(spec.deserved, real[usage.name])
            spec.deserved = np.maximum(spec.deserved, spec.guarantee)
        # Root's guarantee and deserved amount are sums of its children's, whatever its spec says.
        top.guarantee = kept[self._top]
        top.deserved = sum(
            (specs[usage.name].deserved for usage in below if len(usage.line) == 2),
            start=np.zeros(space.size),
        )
        for name, usage in self.usages.items():
            usage.reserved = kept[name].tolist()
            usage.ceiling = ceiling[name].tolist()
            self._fill(usage, specs[name], real[name])
        for usage in reversed(below):
            above = usage.line[1]
            above.owned = [sum(pair) for pair in zip(above.owned, usage.held, strict=True)]
            above.held = [max(pair) for pair in zip(above.owned, above.guarantee, strict=True)]
        if bounded:  # nobody is refused for a full cluster: the nodes do that, and say more
            self.usages[self._top].limit = top.capability.tolist()

    def _inner_queues(self, tree: Tree | None) -> Mapping[str, object]:
        """Return the queues that have children, by name."""
        return {} if tree is None else tree.children

    def _spec(self, name: str) -> QueueSpec:
        """Return the amounts in the Queue's spec."""
        known = self._session.queues
        queue = known.get(ROOT if name == self._top else name)
        return spec_of(self._session.space, queue, clipped=True)

    def _unlimited(self) -> Rows:
        """Return the amounts in a cluster of unlimited size, (R,)."""
        return np.full(self._session.space.size, np.inf)

    def _cut_guarantees(self, specs: Mapping[str, QueueSpec]) -> None:
        """Reduce guarantees to the part that counts, from root down.

        Children's guarantees fit into the parent's, which is at least what the children may keep
        together.
        """
        below: dict[str, list[str]] = {}
        bounds = {self._top: self._session.total.astype(np.float64)}
        for name, usage in self.usages.items():
            above = usage.line[1].name if name != self._top else name
            bounds[name] = np.minimum(bounds[above], specs[name].capability)
            if name != self._top:
                below.setdefault(above, []).append(name)
        wanted = {name: spec.guarantee for name, spec in specs.items()}
        for above in reversed(below):
            children = self._kept_guarantees(bounds[above], [wanted[name] for name in below[above]])
            wanted.update(zip(below[above], children, strict=True))
            wanted[above] = np.maximum(wanted[above], children.sum(axis=0))
        wanted[self._top] = np.minimum(wanted[self._top], bounds[self._top])
        for above, names in below.items():
            children = np.array([wanted[name] for name in names])
            ones = np.ones(len(names))
            fitted = constrained_max_min.fitted_guarantees(wanted[above], ones, children)
            wanted.update(zip(names, fitted, strict=True))
        for name, spec in specs.items():
            if name != self._top:
                # In whole units: sums of fractions can't be undone exactly.
                kept = np.minimum(spec.guarantee, np.floor(wanted[name] + UNIT_NEAR))
                self.usages[name].unkept = (spec.guarantee - kept).tolist()
                spec.guarantee = kept

    @staticmethod
    def _kept_guarantees(total: Rows, guarantees: Sequence[Rows]) -> Rows:
        """Return how much of each sibling's guarantee counts; weights mean nothing here."""
        return constrained_max_min.kept_guarantees(
            total, np.ones(len(guarantees)), np.array(guarantees)
        )

    def _count_other_schedulers(self, specs: Mapping[str, QueueSpec]) -> None:
        """Deduct resources of a queue's pods under other schedulers from the capability."""
        space = self._session.space
        for queue, amounts in self._session.snapshot.used_by_other_schedulers.items():
            if queue in self.usages:
                for usage in self.usages[queue].line:
                    spec = specs[usage.name]
                    spec.capability = np.maximum(spec.capability - space.vector(amounts), 0.0)

    def _real_capabilities(
        self, whole: Rows, specs: Mapping[str, QueueSpec], kept: Mapping[str, Rows]
    ) -> dict[str, Rows]:
        """Return the most that each queue can have beside the guarantees of other queues."""
        real = {self._top: np.minimum(whole, specs[self._top].capability)}
        for name, usage in self.usages.items():
            if name != self._top:
                above = usage.line[1].name
                spare = np.maximum(real[above] - kept[above], 0.0)
                real[name] = np.minimum(spare + specs[name].guarantee, specs[name].capability)
        return real

    def _fill(self, usage: QueueUsage, spec: QueueSpec, real: Rows) -> None:
        """Set the limits of one queue."""
        pods = self._session.space.columns[resources.PODS]
        usage.guarantee = spec.guarantee.tolist()
        usage.held = list(usage.guarantee)
        usage.deserved = spec.deserved.tolist()
        usage.entitled = any(usage.deserved[:pods] + usage.deserved[pods + 1 :])
        usage.real, usage.space, usage.limit = real.tolist(), real.tolist(), real.tolist()
        usage.limit[pods] = float(spec.capability[pods])
        for name, column in self._session.space.columns.items():
            # With all devices in use, a pod may still go to a node that has a device plugin.
            if name.startswith(resources.DEVICE_CLASS):
                usage.limit[column] = usage.ceiling[column]
        usage.named = spec.named | {
            column for column, amount in enumerate(usage.deserved) if amount
        }

    def _count(self) -> None:
        """Count resources held by jobs, and resources promised to admitted groups."""
        asked = self._session.demands
        for queue in sorted(asked.queues):
            held = [(column, amount) for column, amount in enumerate(asked.held[queue]) if amount]
            self.take(self.usages[queue], held)
            for each in self.usages[queue].line:
                for column, amount in enumerate(asked.elastic[queue]):
                    each.elastic[column] += amount
        inner = self._inner
        for state in self._session.promised_jobs:
            if inqueue_resources.holds(state) and state.job.queue not in inner:
                usage = self.usages[state.job.queue]
                self.add_inqueue(usage, self._held_for(usage, state))

    def _held_for(self, usage: QueueUsage, state: WorkingJob) -> ResourceMap:
        """Return the resources reserved for a group, within the queue's real capability.

        Admission can't have promised more, whatever the group's status says.
        """
        amounts = inqueue_resources.outstanding(state)
        columns = self._session.space.columns
        left = {
            name: max(0, int(usage.real[columns[name]]) - usage.committed(columns[name]))
            for name in amounts.keys() & columns.keys()
            if usage.real[columns[name]] < np.inf
        }
        return inqueue_resources.within(amounts, left)


def spec_of(space: ResourceSpace, queue: Queue | None, *, clipped: bool) -> QueueSpec:
    """Return the amounts in a Queue's spec; `clipped` limits the guarantee to the capability.

    Resources without a column are on no node.
    """
    if queue is None:
        nothing = np.zeros(space.size)
        return QueueSpec(np.full(space.size, np.inf), nothing, nothing, frozenset())
    capability = queue.ceiling(space)
    guarantee = space.present(queue.guarantee).astype(np.float64)
    return QueueSpec(
        capability=capability,
        guarantee=np.minimum(guarantee, capability) if clipped else guarantee,
        deserved=space.present(queue.deserved).astype(np.float64),
        named=frozenset(space.columns[name] for name in queue.deserved if name in space.columns),
    )
