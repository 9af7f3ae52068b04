"""Claims of a pod class: what stands in the way on every node, and what is left to allocate.

Kubernetes: kube-scheduler DynamicResources.PreFilter.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from vscheduler.core.api.contracts import FilterResult
from vscheduler.core.claims.devices import extended
from vscheduler.core.claims.devices.allocator import Demand, Rule, Shape
from vscheduler.core.claims.devices.reading import Reading, Steps, Unfinished
from vscheduler.core.claims.devices.tables import DeviceTable, Matches
from vscheduler.model import devices, nodes
from vscheduler.model.constraints import ResourceClaimUse
from vscheduler.model.devices import DeviceInventory, DeviceRequest, ResourceClaim, Wanted
from vscheduler.model.jobs import Task
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.refusals import Refusal, RefusalCode

Code = RefusalCode

ELSEWHERE = Refusal(Code.DEVICES_ELSEWHERE)
EXTENDED_ELSEWHERE = Refusal(Code.EXTENDED_CLAIM_ELSEWHERE)
UNSERVED = Refusal(Code.DEVICES_UNSERVED)

PASSING = frozenset(
    {Code.RESOURCE_CLAIM_NOT_CREATED, Code.RESOURCE_CLAIM_IN_USE, Code.RESOURCE_CLAIM_UNREAD}
)
"""Problems that go away by themselves."""


class Needs(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the claims of a pod class ask for, as the cycle begins."""

    problems: tuple[Refusal, ...] = ()
    """Why no node can take such a pod at present."""
    elsewhere: tuple[FilterResult, ...] = ()
    """Nodes (N,) that can use the devices of allocated claims."""
    claims: tuple[ResourceClaim, ...] = ()
    """All claims, in the order of the pod."""
    open: tuple[ResourceClaim, ...] = ()
    """Those that aren't allocated."""
    shapes: tuple[Shape, ...] = ()
    """What these ask for."""

    @property
    def demands(self) -> Iterator[Demand]:
        """All ways to satisfy all requests."""
        for shape in self.shapes:
            for request in shape.requests:
                yield from request


SHAPES_MAX = 10_000
"""How many different claims are kept. When full, all are dropped."""


class Reader:
    """Reads the claims of a cycle."""

    def __init__(
        self,
        devices: DeviceInventory,
        shapes: "Shapes",
        layout: NodeLayout,
        reads: Reading,
    ) -> None:
        self._devices, self._shapes, self._layout, self._reading = devices, shapes, layout, reads

    def found(self, uses: Sequence[ResourceClaimUse]) -> tuple[ResourceClaim | None, ...]:
        """Return the claims of a pod, as they are now; None where there is none."""
        claims = self._devices.claims
        return tuple([claims.get(use.claim) for use in uses])

    def needs_of(self, uses: Sequence[ResourceClaimUse]) -> Needs:
        """Return what a pod with these claims asks for."""
        if not self._devices.served:
            return Needs(problems=(UNSERVED,))
        found = self.found(uses)
        problems = [
            problem
            for use, claim in zip(uses, found, strict=True)
            if (problem := _problem(use, claim)) is not None
        ]
        claims = list({claim.key: claim for claim in found if claim is not None}.values())
        open_ = [claim for claim in claims if claim.allocation is None]
        shapes: list[Shape] = []
        for claim in open_ if not problems else ():
            shape = self._shapes.of(claim, self._reading)
            if shape is None:
                problems.append(Refusal(Code.RESOURCE_CLAIM_UNREAD, claim.name))
                break
            if isinstance(shape, Refusal):
                problems.append(shape)
            else:
                shapes.append(shape)
        return Needs(
            problems=tuple(dict.fromkeys(problems)),
            elsewhere=tuple(elsewhere(claims, self._layout, self._shapes.provided)),
            claims=tuple(claims),
            open=tuple(open_) if not problems else (),
            shapes=tuple(shapes) if not problems else (),
        )


def elsewhere(
    claims: Iterable[ResourceClaim],
    layout: NodeLayout,
    provided: Mapping[str, Mask] | None = None,
) -> Iterator[FilterResult]:
    """Yield the nodes (N,) that can use what these claims have got. `provided` as in `Shapes`;
    None: not known.
    """
    for claim in claims:
        if claim.allocation is not None and claim.allocation.nodes is not None:
            passes = nodes.matches_any(layout, claim.allocation.nodes)
            yield FilterResult(ELSEWHERE, passes)
        if claim.extended and claim.uid and provided is not None:
            passes = extended.as_made(claim, provided, layout.size)
            yield FilterResult(EXTENDED_ELSEWHERE, passes)


class Shapes:
    """What claims ask for, read against the classes and devices of a cluster. Kept from cycle to
    cycle as long as these are the same.
    """

    def __init__(
        self,
        devices: DeviceInventory,
        table: DeviceTable,
        provided: Mapping[str, Mask],
    ) -> None:
        """`provided` are the nodes (N,) that have extended resources by a device plugin."""
        self._classes, self._selectors, self._table = devices.classes, devices.selectors, table
        self.provided = provided
        self._shapes: dict[object, Shape | Refusal] = {}
        self.unfinished = Unfinished()

    def of(self, claim: ResourceClaim, reads: Reading) -> Shape | Refusal | None:
        """Return what a claim asks for, or why it can't be had at all; None as long as it is
        unread.
        """
        if claim.unsupported:
            return Refusal(Code.RESOURCE_CLAIM_UNSUPPORTED, claim.name, claim.unsupported)
        key = (claim.requests, claim.constraints, claim.extended)
        found = self._shapes.get(key)
        if found is None:
            found = reads.read(claim.namespace, key, lambda: self._shaped(claim))
            if found is not None:
                if len(self._shapes) >= SHAPES_MAX:
                    self._shapes.clear()
                self._shapes[key] = found
        return found

    def _shaped(self, claim: ResourceClaim) -> Steps[Shape | Refusal]:
        requests = []
        named = {name: each.resource for each in claim.extended for name in each.requests}
        for request in claim.requests:
            resource = named.get(request.name, "")
            alternatives = []
            for wanted in request.alternatives:
                demand = yield from self._demand(request, wanted, resource)
                if isinstance(demand, Refusal):
                    return demand
                alternatives.append(demand)
            requests.append(tuple(alternatives))
        rules = tuple(
            Rule(constraint.attribute, frozenset(constraint.requests))
            for constraint in claim.constraints
        )
        return Shape(tuple(requests), rules)

    def _demand(
        self, request: DeviceRequest, wanted: Wanted, resource: str
    ) -> Steps[Demand | Refusal]:
        device_class = self._classes.get(wanted.device_class)
        path = request.path(wanted)
        if device_class is None:
            return Refusal(Code.DEVICE_CLASS_MISSING, wanted.device_class, path)
        provided = self.provided.get(resource)
        too_many = len(request.alternatives) == 1 and (wanted.count or 0) > devices.RESULTS_MAX
        if too_many and (provided is None or not provided.any()):
            return Refusal(Code.TOO_MANY_DEVICES, path, str(wanted.count))
        expressions = (*device_class.selectors, *wanted.selectors)
        found = yield from self._matching(expressions)
        if isinstance(found, Refusal):
            return found
        return Demand(
            path=path,
            request=request.name,
            device_class=wanted.device_class,
            expressions=expressions,
            count=wanted.count,
            admin_access=wanted.admin_access,
            tolerations=wanted.tolerations,
            matches=found.passes,
            usable=found.passes & self._table.tolerated(wanted.tolerations) & (not too_many),
            failed=found.failed,
            unsupported=(yield from self._table.unsupported(expressions, self._selectors)),
            resource=resource,
            provided=provided,
        )

    def _matching(self, expressions: tuple[str, ...]) -> Steps[Matches | Refusal]:
        """Return which devices all expressions select, or which of them can't be used."""
        if not expressions:
            return Matches(np.ones(self._table.size, dtype=np.bool_), {})
        if self._selectors is None:
            return Refusal(Code.SELECTOR_UNUSABLE, expressions[0], "no CEL is known")
        for expression in () if self._table.knows(expressions) else expressions:
            yield 0
            problem, cost = self._selectors.problem(expression)
            yield cost
            if problem is not None:
                return Refusal(Code.SELECTOR_UNUSABLE, expression, str(problem))
        return (yield from self._table.matching(expressions, self._selectors))


def use_of(task: Task, claim: str) -> ResourceClaimUse:
    """Return how a task uses one of its claims, given as `namespace/name`."""
    uses = task.pod_class.constraints.resource_claims
    return next(use for use in uses if use.claim == claim)


def lasting(problem: Refusal) -> bool:
    """Whether a problem doesn't go away by itself within moments."""
    return problem.code not in PASSING


def _problem(use: ResourceClaimUse, claim: ResourceClaim | None) -> Refusal | None:
    """Return why no node can take a pod with this claim; None if nothing is wrong with it."""
    name = use.claim.partition("/")[2]
    if not use.claim:
        return Refusal(Code.RESOURCE_CLAIM_NOT_CREATED, use.name)
    if claim is None:
        return Refusal(Code.RESOURCE_CLAIM_MISSING, name)
    if claim.deleting:
        return Refusal(Code.RESOURCE_CLAIM_DELETING, name)
    shared = use.group and claim.group == use.group
    made_for_it = claim.owner == use.owner and claim.for_extended is bool(use.resources)
    if use.owner and not (made_for_it or shared):
        return Refusal(Code.RESOURCE_CLAIM_OF_OTHER_POD, name)
    return None
