"""DeviceState: the filter for claims in the present state of a cycle, and what the cycle allocates.

Kubernetes: kube-scheduler's DynamicResources. Results for nodes are masks over all of them. Claims
of all pods that are placed on a node in this cycle are allocated together (`Allocator`), until a
job commits to its choice.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.contracts import FilterResult, NodeView
from vscheduler.core.claims.devices import claims, supply, tables
from vscheduler.core.claims.devices.allocator import Demand, Shape
from vscheduler.core.claims.devices.choices import DeviceChoices
from vscheduler.core.claims.devices.claims import Needs
from vscheduler.core.claims.devices.demands import DeviceDemands
from vscheduler.core.claims.devices.extended import ExtendedResources
from vscheduler.core.claims.devices.needs import PodNeeds
from vscheduler.core.claims.devices.reading import Budget
from vscheduler.core.claims.devices.supply import DeviceSupply
from vscheduler.core.claims.devices.tables import DeviceTable, Flags, Ints
from vscheduler.model import computed, devices, resources
from vscheduler.model.claim_decisions import ClaimAllocation
from vscheduler.model.jobs import PodClass, Task
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.refusals import Refusal, RefusalCode
from vscheduler.model.resources import ResourceSpace, Vector
from vscheduler.model.snapshot import Snapshot

Code = RefusalCode

UNFIT = Refusal(Code.DEVICES_UNFIT)

SEARCH_COST = 30
"""The same for a search for devices on one node."""


class DeviceState:
    """The answers of a cycle about claims for devices; see node_views.Devices."""

    def __init__(self, snapshot: Snapshot, budget: Budget, *, wanted: bool) -> None:
        """`wanted` says whether a plugin has claims allocated: otherwise nobody gets devices."""
        self._devices, self._layout = snapshot.devices, snapshot.nodes.layout
        self._budget, self._spend = budget, budget.spend
        self._jobs, self._nodes = snapshot.jobs, snapshot.nodes
        self._extended = ExtendedResources(snapshot)
        in_use = self._devices.served and self._devices is not devices.NO_DEVICES
        self._allocates = wanted and in_use

    @property
    def allocates(self) -> bool:
        """Whether claims are allocated before pods are bound."""
        return self._allocates

    @computed.once
    def table(self) -> DeviceTable:
        """All devices that can be allocated."""
        return tables.table_of(self._devices, self._layout)

    @computed.once
    def _needs(self) -> PodNeeds:
        provided = self._extended.provided
        return PodNeeds(self._devices, self.table, self._nodes, provided, self._budget)

    @property
    def are_unread(self) -> bool:
        """Whether later cycles go on with reading claims."""
        return "_needs" in self.__dict__ and self._needs.reading.is_unfinished

    @computed.once
    def _choices(self) -> DeviceChoices:
        allocated = tables.allocated(self._devices, self.table)
        return DeviceChoices(self._devices, self.table, allocated, self._jobs, self._spend)

    @computed.once
    def _supply(self) -> DeviceSupply:
        return DeviceSupply(self._devices, self.table, self._layout, self._spend)

    @computed.once
    def demands(self) -> DeviceDemands:
        """What a search for a whole gang asks."""
        return DeviceDemands(self._needs, self.table, self._choices, self._supply.count)

    def first_like(self, pod_class: PodClass) -> PodClass:
        """Return a class of pods that could use the same nodes; see needs.PodKind."""
        kind = self._needs.kind_of(pod_class) if self._allocates else None
        return pod_class if kind is None else kind.first

    def only_rows(self, pod_class: PodClass) -> Ints | None:
        """Return the rows of the nodes that can use what the claims have got, if these are few."""
        return self._needs.only_rows(pod_class) if self._allocates else None

    def class_key(self, pod_class: PodClass) -> Hashable:
        """Return what pods have in common that the cycle answers the same at this point."""
        return self.demands.class_key(pod_class) if self._allocates else pod_class

    def supply(self, space: ResourceSpace) -> Vector | None:
        """Return how many devices of each class nodes have; see supply.DeviceSupply. None if nobody
        gets any.
        """
        named = tuple(name for name in space.names if name.startswith(resources.DEVICE_CLASS))
        if not (named and self._allocates):
            return None
        return self._supply.by_class(space, named)

    def with_extended_resources(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with devices in place of the extended resources that stand for them,
        on nodes without these resources.
        """
        if not self._extended.provided:
            return snapshot
        return self._extended.with_devices(snapshot, self._supply.of_class)

    def claims_on(self, task: Task, node: str) -> Iterator[str]:
        """Iterate over the claims that the task needs on this node: others stand for extended
        resources that the node has by a device plugin.
        """
        row = self._layout.rows[node]
        for use in task.pod_class.constraints.resource_claims:
            if not (use.resources and self._extended.provides_all(use.resources, row)):
                yield use.claim

    # What a Statement asks for.

    def assume(self, task: Task, row: int) -> None:
        """Give the task's claims what is chosen for them on this node."""
        if self._allocates:
            self._spend("devices", SEARCH_COST)
            self._choices.assume(task, self.needs_of(task.pod_class), row)

    def forget(self, task: Task) -> None:
        """Undo `assume` exactly."""
        if self._allocates:
            self._choices.forget(task)

    def leave(self, task: Task, step: int) -> None:
        """Count the task as one that leaves its devices (step 1), or stays after all (step -1)."""
        if self._allocates:
            self._choices.leave(task, step)

    def unallocated(self, task: Task) -> tuple[ClaimAllocation, ...]:
        """Return what the placed task's claims lack before it may start, in the pod's order: the
        devices chosen with its placement. Each reserves a claim for this task.
        """
        if not (self._allocates and task.pod_class.constraints.resource_claims):
            return ()
        return tuple(self._choices.lacking(task, self.needs_of(task.pod_class)))

    def lacks_choice(self, task: Task) -> bool:
        """Whether a claim isn't allocated, although no free devices were chosen for the task."""
        if not (self._allocates and task.pod_class.constraints.resource_claims):
            return False
        needs = self.needs_of(task.pod_class)
        return bool(needs.problems) or not self._choices.are_free(needs)

    # The filter.

    def usable(self, pod_class: PodClass, layout: NodeLayout) -> Mask | None:
        """Return the nodes (N,) that allocated claims allow, and that have enough devices for the
        others, in use or not; None: all.
        """
        needs = self.needs_of(pod_class)
        if layout is not self._layout:  # nodes that are gone, too; no device is known there
            masks = [each.passes for each in self._needs.elsewhere(pod_class, layout)]
            return np.logical_and.reduce(masks) if masks else None
        if any(claims.lasting(problem) for problem in needs.problems):
            return np.zeros(layout.size, dtype=np.bool_)
        masks = [each.passes for each in needs.elsewhere]
        masks += [enough for enough, _ in self._supply.short(needs.shapes)]
        return np.logical_and.reduce(masks) if masks else None

    def filter(self, pod_class: PodClass, view: NodeView) -> Iterator[FilterResult]:
        """Yield the answers of DynamicResources for these nodes."""
        needs = self.needs_of(pod_class)
        for problem in needs.problems:
            nowhere = np.zeros(view.size, dtype=np.bool_)
            yield FilterResult(problem, nowhere, temporary=not claims.lasting(problem))
        if needs.problems:
            return
        for result in needs.elsewhere:
            yield FilterResult(result.refusal, view.of(result.passes))
        yield from self._static(needs, view)
        yield from self._reservable(needs, view)
        yield from self._counting(pod_class, needs, view)
        if needs.shapes:
            yield from self._allocatable(needs, view)

    def ignored(self, pod_class: PodClass, view: NodeView) -> Iterator[FilterResult]:
        """Yield a refusal of all nodes if no plugin looks at claims: no pod with claims may start
        without its devices. Nodes that have what claims stand for by a device plugin are left.
        """
        if not self._allocates:
            uses = pod_class.constraints.resource_claims
            passes = np.full(self._layout.size, all(use.resources for use in uses))
            for name in (name for use in uses for name in use.resources):
                passes &= self._extended.provided.get(name, False)
            yield FilterResult(claims.UNSERVED, view.of(passes))

    def _static(self, needs: Needs, view: NodeView) -> Iterator[FilterResult]:
        """Yield refusals of nodes without enough devices for a request, in use or not."""
        for enough, request in self._supply.short(needs.shapes):
            passes = view.of(enough)
            if not passes.all():  # the figures of a refusal take a look at all devices
                failed = next(iter(request[0].failed.values()), "")
                if failed and not request[0].usable.any():
                    expression, _, error = failed.partition(": ")
                    refusal = Refusal(Code.SELECTOR_FAILED, expression, error)
                else:
                    refusal = self._refusal(Code.NO_SUCH_DEVICES, request[0])
                yield FilterResult(refusal, passes)

    def _refusal(self, code: RefusalCode, demand: Demand) -> Refusal:
        """Return a refusal with figures of all nodes."""
        every, used = demand.matches, demand.matches & self._choices.in_use
        figures = [str(every.sum()), str(used.sum())]
        if demand.unsupported:
            others = demand.unsupported.items()
            figures.append(", ".join(f"{count} {field}" for field, count in others))
        return Refusal(code, demand.device_class, "/".join(figures))

    def _reservable(self, needs: Needs, view: NodeView) -> Iterator[FilterResult]:
        """Yield refusals of claims that as many pods use as may, or that a pod placed in this cycle
        holds to its node.
        """
        for claim in needs.claims:
            if not self._choices.has_place(claim):
                nowhere = np.zeros(view.size, dtype=np.bool_)
                refusal = Refusal(Code.RESOURCE_CLAIM_IN_USE, claim.name)
                yield FilterResult(refusal, nowhere, temporary=True)
            mask = self._choices.held_to(claim, self._layout)
            if mask is not None:
                later = view.of(mask)
                now = np.zeros_like(later) if self._choices.waits(claim) else later
                yield FilterResult(claims.ELSEWHERE, now, later, temporary=True)

    def _counting(
        self, pod_class: PodClass, needs: Needs, view: NodeView
    ) -> Iterator[FilterResult]:
        """Yield a refusal of a pod whose shared claims have no devices yet, and count for another
        pod of the job: the queue may not have them.
        """
        left = [claim for claim in needs.open if not self._choices.is_chosen(claim)]
        shared = next((claim for claim in left if not claim.owner), None)
        if shared is None:
            return
        asked = sum((Counter(claim.counted) for claim in left), Counter[str]())
        if asked - Counter(pod_class.devices):
            nowhere = np.zeros(view.size, dtype=np.bool_)
            refusal = Refusal(Code.RESOURCE_CLAIM_SHARED, shared.name)
            yield FilterResult(refusal, nowhere, temporary=True)

    def _allocatable(self, needs: Needs, view: NodeView) -> Iterator[FilterResult]:
        """Yield the nodes that have devices for the claims, now and after pods have left."""
        rows = np.arange(self._layout.size) if view.rows is None else view.rows
        first = next(iter(needs.shapes[0].requests), ())
        now, enough = self._passing(needs, rows, later=False)
        later, _ = (
            self._passing(needs, rows, later=True) if self._choices.leaving else (now, enough)
        )
        few_now, few_later = now | enough, later | enough
        if first and not (few_now.all() and few_later.all()):
            refusal = self._refusal(Code.DEVICES_IN_USE, first[0])
            yield FilterResult(refusal, few_now, few_later, curable=True)
        yield FilterResult(UNFIT, now | ~enough, later | ~enough, curable=True)

    def _passing(self, needs: Needs, rows: NDArray[np.int64], *, later: bool) -> tuple[Mask, Mask]:
        """Return which of these rows have devices for all claims, and which have enough for each
        request alone.
        """
        shapes = self._choices.unfinished(needs)
        free = self._choices.free(later=later)
        enough = np.ones(rows.size, dtype=np.bool_)
        for shape in shapes:
            for request in shape.requests:
                any_of = np.zeros(rows.size, dtype=np.bool_)
                for demand in request:
                    if demand.admin_access:
                        there = self._supply.most(demand)
                    else:
                        self._spend("devices", supply.COUNT_COST)
                        there = self._choices.counts(demand, later=later)
                    any_of |= there[rows] >= (demand.count or 1)
                    if demand.provided is not None:
                        any_of |= demand.provided[rows]
                enough &= any_of
        passes = enough.copy()
        if shapes and not self._decides_alone(shapes, free, rows, passes):
            for at in np.flatnonzero(enough).tolist():
                passes[at] = self._fits(shapes, int(rows[at]), later=later)
        if shapes and self._choices.open_rows:
            undecided = np.zeros(self._layout.size, dtype=np.bool_)
            undecided[list(self._choices.open_rows)] = True
            for at in np.flatnonzero(~passes & undecided[rows]).tolist():
                self._spend("devices", SEARCH_COST)
                passes[at] = self._choices.allocate_on(shapes, int(rows[at])) is not None
        return passes, enough

    def _decides_alone(
        self,
        shapes: Sequence[Shape],
        free: Flags,
        rows: NDArray[np.int64],
        passes: Mask,
    ) -> bool:
        """Restrict rows by the sum of all requests if nothing else decides; return whether."""
        if not all(shape.is_plain for shape in shapes):
            return False
        demands = [request[0] for shape in shapes for request in shape.requests]
        if len(demands) <= 1:
            return True
        if any(demand.usable is not demands[0].usable for demand in demands[1:]):
            return False
        total = np.zeros(self._layout.size, dtype=np.int64)
        for demand in demands:
            total += (demand.count or 0) * (1 if demand.provided is None else ~demand.provided)
        passes &= (self._supply.count(demands[0].usable & free) >= total)[rows]
        return True

    def _fits(self, shapes: Sequence[Shape], row: int, *, later: bool) -> bool:
        """Whether a node has devices for the claims beside what is chosen already."""
        self._spend("devices", SEARCH_COST)
        shapes = [shape.at(row) for shape in shapes]
        free = self._choices.free(later=later)
        positions = self.table.on(row)
        if any(
            demand.count is None and self.table.unready[row]
            for shape in shapes
            for request in shape.requests
            for demand in request
        ):
            return False
        return self._choices.allocate(shapes, positions, free) is not None

    # What answers depend on, beside the arrays of nodes.

    def fingerprint(self, pod_class: PodClass) -> Hashable:
        """Return what the answers for all nodes depend on."""
        needs = self.needs_of(pod_class)
        return tuple(self._choices.state_of(claim) for claim in needs.claims), (
            self._choices.shared_state() if needs.shapes else None
        )

    def row_fingerprint(
        self, pod_class: PodClass, rows: NDArray[np.int64]
    ) -> Sequence[Hashable] | None:
        """Return what the answers for each node depend on; None if nothing changes them."""
        if not self.needs_of(pod_class).shapes:
            return None
        return [self._choices.state_on(row) for row in rows.tolist()]

    def needs_of(self, pod_class: PodClass) -> Needs:
        """Return what the claims of a pod class ask for."""
        return self._needs.of(pod_class)
