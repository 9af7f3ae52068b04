"""Accounts: what queues hold and may hold, each one with those above it.

The arithmetic behind plugin capacity. What a queue uses counts for all its ancestors, and so does
what is kept for it: a guarantee is out of others' reach even while its queue has no job.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.fair_share import constrained_max_min, demands, inqueue_resources
from vscheduler.core.model import decisions, queues, resources

Request = Sequence[tuple[int, int]]
"""What is asked for: columns and amounts."""

Amounts = list[float]
"""One amount per column; whole numbers, but where there is no limit."""

Rows = NDArray[np.float64]

CLUSTER = ""
"""Stands above all queues where they make up no tree."""

UNIT_NEAR = 1e-6
"""So little is missing to a whole unit by rounding alone."""


class QueueUsage:
    """What one queue has, was promised and may have, one amount per column."""

    __slots__ = (
        *("allocated", "ceiling", "deserved", "elastic", "entitled", "guarantee", "held"),
        *("limit", "line", "name", "named", "owned", "promised", "real", "share", "space"),
        "unkept",
    )

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.line: tuple[QueueUsage, ...] = (self,)
        """Itself and those above it, bottom up."""
        self.allocated = [0] * size
        self.promised = [0] * size
        """Of the minResources of admitted groups, what they don't have yet."""
        self.elastic = [0] * size
        """What groups have above their minResources."""
        self.deserved: Amounts = []
        self.entitled = False
        """Whether it deserves anything but pod slots."""
        self.guarantee: Amounts = []
        self.unkept: Amounts = []
        """What of its spec.guarantee doesn't count, as guarantees are more than there is; empty
        where nobody has looked."""
        self.named: frozenset[int] = frozenset()
        """The columns in which it counts whether it has more than it deserves."""
        self.real: Amounts = []
        """The most that it can ever have."""
        self.limit: Amounts = []
        """The most that it may be given; pod slots don't count but where a capability says so."""
        self.ceiling: Amounts = []
        """The same for a cluster without end."""
        self.space: Amounts = []
        """The most that all below it may hold together."""
        self.owned = [0.0] * size
        """What queues right below it hold, and jobs of its own have."""
        self.held: Amounts = []
        """The same, and at least its guarantee."""
        self.share: float | None = None
        """Until something changes."""

    def dominant_share(self) -> float:
        """The largest part of a deserved amount that is in use; 1 where nothing is deserved, so
        that such queues come after those that lack something (Volcano: updateQueueAttrShare).
        """
        if self.share is None:
            pairs = zip(self.allocated, self.deserved, strict=True)
            parts = [has / whole for has, whole in pairs if whole]
            self.share = max(parts) if self.entitled else 1.0
        return self.share

    def committed(self, column: int) -> int:
        """What it has and has promised, less what its groups can do without."""
        return self.allocated[column] + self.promised[column] - self.elastic[column]


@dataclass(frozen=True, slots=True)
class ExceededLimit:
    """A limit that a request would exceed."""

    account: QueueUsage
    column: int
    requested: int
    limit: float


@dataclass(slots=True)
class _Spec:
    """What a Queue object says, in columns."""

    capability: Rows
    guarantee: Rows
    deserved: Rows
    named: frozenset[int]
    """The columns that spec.deserved names, if only as nothing."""


class QueueUsageTree:
    """The accounts of all queues in one cycle.

    Without a tree, all queues stand side by side. Volcano keeps a guarantee only in so far as each
    queue's limit leaves those of its siblings out: together, they may still use it up. Here what
    all siblings hold, guarantees included, has to stay within what is there for them.
    """

    def __init__(self, session: demands.Session, tree: queues.Tree | None) -> None:
        self._session = session
        self._volcano = session.as_volcano
        paths = dict.fromkeys(session.queues, (CLUSTER,)) if tree is None else tree.paths
        self._top = CLUSTER if tree is None else queues.ROOT
        self._inner = {} if tree is None or self._volcano else tree.children
        """Queues that are not for jobs, so that nothing is kept for one there."""
        self.accounts: dict[str, QueueUsage] = {}
        for name in sorted({*paths, self._top}, key=lambda name: len(paths.get(name, ()))):
            account = self.accounts[name] = QueueUsage(name, session.space.size)
            if name != self._top:
                account.line = (account, *self.accounts[paths[name][-1]].line)
        self._set_limits(bounded=tree is None or not self._volcano, clamped=tree is None)
        self._count()

    def take(self, account: QueueUsage, request: Request, sign: int = 1) -> None:
        """The queue got this much more, or less where sign is -1."""
        account.share = None
        for each in account.line:
            for column, amount in request:
                each.allocated[column] += sign * amount
            if not self._volcano:  # where it keeps the shares of inner queues for the whole cycle
                each.share = None
        for column, amount in request:
            rise = float(sign * amount)
            for each in account.line:
                each.owned[column] += rise
                held = max(each.owned[column], each.guarantee[column])
                rise, each.held[column] = held - each.held[column], held
                if not rise:
                    break

    def promise(self, account: QueueUsage, amounts: Mapping[str, int]) -> None:
        """A group of the queue was admitted with this much to come."""
        columns = self._session.space.columns
        for name, amount in amounts.items():
            if name in columns:
                for each in account.line:
                    each.promised[columns[name]] += amount

    def exceeded(self, account: QueueUsage, request: Request) -> Iterator[ExceededLimit]:
        """The limits of this queue and of those above it that the request doesn't keep to."""
        for each in account.line:
            allocated, limit = each.allocated, each.limit
            for column, amount in request:
                if allocated[column] + amount > limit[column]:
                    yield ExceededLimit(each, column, amount, limit[column])
        if not self._volcano:
            yield from self._encroached(account, request)

    def unpromisable(
        self, account: QueueUsage, amounts: resources.ResourceMap, *, ceiling: bool = False
    ) -> tuple[QueueUsage, tuple[decisions.Shortage, ...]] | None:
        """The first queue, from root down to this one, that can't promise these amounts, and the
        numbers: what a queue can have, those below it can't have more of.

        ceiling: could it, if the cluster were large enough?
        """
        names = sorted(name for name, amount in amounts.items() if amount)
        for each in reversed(account.line):
            short = []
            for name in names:
                has, limit = self._standing(each, name, ceiling=ceiling)
                if has + amounts[name] > limit:
                    short.append(
                        decisions.Shortage(
                            resource=name, requested=amounts[name], allocated=has, limit=limit
                        )
                    )
            if short:
                return each, tuple(short)
        return None

    def _standing(self, account: QueueUsage, name: str, *, ceiling: bool) -> tuple[int, float]:
        """What the queue has promised of a resource and may promise; one without a column is
        nowhere to be had yet.
        """
        column = self._session.space.columns.get(name)
        if column is not None:
            limits = account.ceiling if ceiling else account.limit
            return account.committed(column), limits[column]
        queue = self._session.queues.get(account.name)
        named = queue.capability.get(name) if queue else None
        return 0, (np.inf if named is None else named) if ceiling else 0.0

    def _encroached(self, account: QueueUsage, request: Request) -> Iterator[ExceededLimit]:
        """Guarantees of others that the request would use up.

        Where nothing is kept for others, the room on nodes is limit enough, and says more.
        """
        for column, amount in request:
            rise = float(amount)
            for below, above in itertools.pairwise(account.line):
                held = max(below.owned[column] + rise, below.guarantee[column])
                rise = held - below.held[column]
                if not rise:
                    break
                owned = above.owned[column] + rise
                used = above.allocated[column] + amount
                if owned > above.space[column] and owned > used:
                    others = above.owned[column] - below.held[column]
                    left = max(0.0, above.space[column] - others)
                    yield ExceededLimit(below, column, amount, left)

    def _set_limits(self, *, bounded: bool, clamped: bool) -> None:
        """bounded: what there is in the cluster is a limit; clamped: to what is deserved, too.

        Volcano: buildQueueAttrs; of a tree, checkHierarchicalQueue, which bounds nothing.
        """
        space, known = self._session.space, self._session.queues
        # The capability of root limits all queues together, in a tree or side by side.
        crown = self._top if self._volcano else queues.ROOT
        specs = {
            name: _spec(
                space, known.get(crown if name == self._top else name), clipped=not self._volcano
            )
            for name in self.accounts
        }
        if not self._volcano:
            self._count_elsewhere(specs)
        below = [account for account in self.accounts.values() if account.name != self._top]
        if not self._volcano:
            self._cut_guarantees(specs)
        kept = {name: np.zeros(space.size) for name in self.accounts}
        for account in below:
            kept[account.line[1].name] += specs[account.name].guarantee
        top = specs[self._top]
        total = self._session.total.astype(np.float64)
        listed = (total > 0) | (np.arange(space.size) < len(resources.FIRST))
        endless = np.where(listed | (not self._volcano), np.inf, 0.0)
        ceiling = self._real(endless, specs, kept)
        real = self._real(total, specs, kept) if bounded else ceiling
        for account in below:
            spec = specs[account.name]
            if clamped:
                spec.deserved = np.minimum(spec.deserved, real[account.name])
            spec.deserved = np.maximum(spec.deserved, spec.guarantee)
        # Root is guaranteed and deserves what its children are and do, whatever it says itself.
        top.guarantee = kept[self._top]
        top.deserved = sum(
            (specs[account.name].deserved for account in below if len(account.line) == 2),
            start=np.zeros(space.size),
        )
        for name, account in self.accounts.items():
            self._fill(account, specs[name], real[name])
            account.ceiling = ceiling[name].tolist()
        for account in reversed(below):
            above = account.line[1]
            above.owned = [sum(pair) for pair in zip(above.owned, account.held, strict=True)]
            above.held = [max(pair) for pair in zip(above.owned, above.guarantee, strict=True)]
        if bounded:  # nobody is refused for a full cluster: the nodes do that, and say more
            self.accounts[self._top].limit = top.capability.tolist()

    def _cut_guarantees(self, specs: Mapping[str, "_Spec"]) -> None:
        """Leave of guarantees what counts, from root down: what is promised below a queue stays
        within what that one is promised, for its own guarantee or for those below it.
        """
        below: dict[str, list[str]] = {}
        bounds = {self._top: self._session.total.astype(np.float64)}
        for name, account in self.accounts.items():
            above = account.line[1].name if name != self._top else name
            bounds[name] = np.minimum(bounds[above], specs[name].capability)
            if name != self._top:
                below.setdefault(above, []).append(name)
        wanted = {name: spec.guarantee for name, spec in specs.items()}
        for above in reversed(below):
            kids = self._kept(bounds[above], [wanted[name] for name in below[above]])
            wanted.update(zip(below[above], kids, strict=True))
            wanted[above] = np.maximum(wanted[above], kids.sum(axis=0))
        wanted[self._top] = np.minimum(wanted[self._top], bounds[self._top])
        for above, names in below.items():
            kids = np.array([wanted[name] for name in names])
            ones = np.ones(len(names))
            wanted.update(
                zip(
                    names,
                    constrained_max_min.fitted_guarantees(wanted[above], ones, kids),
                    strict=True,
                )
            )
        for name, spec in specs.items():
            if name != self._top:
                # In whole units: sums of fractions can't be undone exactly.
                kept = np.minimum(spec.guarantee, np.floor(wanted[name] + UNIT_NEAR))
                self.accounts[name].unkept = (spec.guarantee - kept).tolist()
                spec.guarantee = kept

    @staticmethod
    def _kept(total: Rows, promised: Sequence[Rows]) -> Rows:
        """Of queues side by side; their weights mean nothing here."""
        return constrained_max_min.kept_guarantees(
            total, np.ones(len(promised)), np.array(promised)
        )

    def _count_elsewhere(self, specs: Mapping[str, "_Spec"]) -> None:
        """What pods of a queue hold under other schedulers counts against its capability."""
        space = self._session.space
        for queue, amounts in self._session.snapshot.elsewhere.items():
            if queue in self.accounts:
                for account in self.accounts[queue].line:
                    spec = specs[account.name]
                    spec.capability = np.maximum(spec.capability - space.vector(amounts), 0.0)

    def _real(
        self, whole: Rows, specs: Mapping[str, _Spec], kept: Mapping[str, Rows]
    ) -> dict[str, Rows]:
        """The most that queues can have of a cluster: what is kept for others is out of reach."""
        real = {self._top: np.minimum(whole, specs[self._top].capability)}
        for name, account in self.accounts.items():
            if name != self._top:
                above = account.line[1].name
                spare = np.maximum(real[above] - kept[above], 0.0)
                real[name] = np.minimum(spare + specs[name].guarantee, specs[name].capability)
        return real

    def _fill(self, account: QueueUsage, spec: _Spec, real: Rows) -> None:
        pods = self._session.space.columns[resources.PODS]
        account.guarantee = spec.guarantee.tolist()
        account.held = list(account.guarantee)
        account.deserved = spec.deserved.tolist()
        account.entitled = any(account.deserved[:pods] + account.deserved[pods + 1 :])
        account.real, account.space, account.limit = real.tolist(), real.tolist(), real.tolist()
        account.limit[pods] = np.inf if self._volcano else float(spec.capability[pods])
        named = set(spec.named)
        if self._volcano:  # there, a deserved cpu or memory of nothing says nothing
            columns = self._session.space.columns
            named -= {columns[resources.CPU], columns[resources.MEMORY]}
        account.named = frozenset(
            named | {column for column, amount in enumerate(account.deserved) if amount}
        )

    def _count(self) -> None:
        """What queues have, and what jobs were promised."""
        asked = self._session.demands
        for queue in sorted(asked.queues):
            held = [(column, amount) for column, amount in enumerate(asked.held[queue]) if amount]
            self.take(self.accounts[queue], held)
            for each in self.accounts[queue].line:
                for column, amount in enumerate(asked.elastic[queue]):
                    each.elastic[column] += amount
        inner = self._inner
        for gang in self._session.gangs.values():
            if inqueue_resources.holds(gang) and gang.job.queue not in inner:
                account = self.accounts[gang.job.queue]
                promised = inqueue_resources.outstanding(gang)
                if not self._volcano:
                    promised = self._possible(account, promised)
                self.promise(account, promised)

    def _possible(
        self, account: QueueUsage, amounts: resources.ResourceMap
    ) -> resources.ResourceMap:
        """As much of a promise as the queue may have: more can't have been promised to it, whatever
        somebody wrote into the status of a group, and would be kept from its relations.
        """
        columns = self._session.space.columns
        left = {
            name: max(0, int(account.real[columns[name]]) - account.committed(columns[name]))
            for name in amounts.keys() & columns.keys()
            if account.real[columns[name]] < np.inf
        }
        return inqueue_resources.within(amounts, left)


def _spec(space: resources.ResourceSpace, queue: queues.Queue | None, *, clipped: bool) -> _Spec:
    """clipped: a guarantee above the capability promises no more than that.

    What has no column is nowhere to be had.
    """
    if queue is None:
        nothing = np.zeros(space.size)
        return _Spec(np.full(space.size, np.inf), nothing, nothing, frozenset())
    capability = queue.ceiling(space)
    guarantee = space.present(queue.guarantee).astype(np.float64)
    return _Spec(
        capability=capability,
        guarantee=np.minimum(guarantee, capability) if clipped else guarantee,
        deserved=space.present(queue.deserved).astype(np.float64),
        named=frozenset(space.columns[name] for name in queue.deserved if name in space.columns),
    )
