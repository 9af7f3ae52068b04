"""Claims of a pod class: what stands in the way on every node, and what is left to allocate.

Kubernetes: kube-scheduler DynamicResources.PreFilter.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from vscheduler.core.api import contracts
from vscheduler.core.model import constraints, devices, nodes, refusals
from vscheduler.core.placement.devices import allocator, extended, tables
from vscheduler.core.placement.volumes import tables as volume_tables

Code = refusals.RefusalCode

ELSEWHERE = refusals.Refusal(Code.DEVICES_ELSEWHERE)
UNSERVED = refusals.Refusal(Code.DEVICES_UNSERVED)

PASSING = frozenset({Code.RESOURCE_CLAIM_NOT_CREATED, Code.RESOURCE_CLAIM_IN_USE})
"""Problems that go away by themselves."""


class Needs(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the claims of a pod class ask for, as the cycle begins."""

    problems: tuple[refusals.Refusal, ...] = ()
    """Why no node can take such a pod at present."""
    elsewhere: tuple[contracts.FilterResult, ...] = ()
    """Nodes (N,) that can use the devices of allocated claims."""
    claims: tuple[devices.ResourceClaim, ...] = ()
    """All claims, in the order of the pod."""
    open: tuple[devices.ResourceClaim, ...] = ()
    """Those that aren't allocated."""
    shapes: tuple[allocator.Shape, ...] = ()
    """What these ask for."""

    @property
    def demands(self) -> Iterator[allocator.Demand]:
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
        known: devices.Devices,
        shapes: "Shapes",
        layout: nodes.NodeLayout,
        spend: Callable[[str, int], None],
    ) -> None:
        self._known, self._shapes, self._layout, self._spend = known, shapes, layout, spend

    def found(
        self, uses: Sequence[constraints.ResourceClaimUse]
    ) -> tuple[devices.ResourceClaim | None, ...]:
        """Return the claims of a pod, as they are now; None where there is none."""
        claims = self._known.claims
        return tuple([claims.get(use.claim) for use in uses])

    def needs_of(self, uses: Sequence[constraints.ResourceClaimUse]) -> Needs:
        """Return what a pod with these claims asks for."""
        if not self._known.served:
            return Needs(problems=(UNSERVED,))
        found = self.found(uses)
        problems = [
            problem
            for use, claim in zip(uses, found, strict=True)
            if (problem := _problem(use, claim)) is not None
        ]
        claims = list({claim.key: claim for claim in found if claim is not None}.values())
        open_ = [claim for claim in claims if claim.allocation is None]
        shapes: list[allocator.Shape] = []
        for claim in open_ if not problems else ():
            shape = self._shapes.of(claim, self._spend)
            if isinstance(shape, refusals.Refusal):
                problems.append(shape)
            else:
                shapes.append(shape)
        return Needs(
            problems=tuple(dict.fromkeys(problems)),
            elsewhere=tuple(self._elsewhere(claims)),
            claims=tuple(claims),
            open=tuple(open_) if not problems else (),
            shapes=tuple(shapes) if not problems else (),
        )

    def _elsewhere(
        self, claims: Sequence[devices.ResourceClaim]
    ) -> Iterator[contracts.FilterResult]:
        provided = self._shapes.provided
        for claim in claims:
            if claim.allocation is not None and claim.allocation.nodes is not None:
                passes = volume_tables.any_of(claim.allocation.nodes, self._layout)
                yield contracts.FilterResult(ELSEWHERE, passes)
            if claim.extended and claim.uid and provided is not None:
                passes = extended.as_made(claim, provided, self._layout.size)
                yield contracts.FilterResult(ELSEWHERE, passes)


class Shapes:
    """What claims ask for, read against the classes and devices of a cluster. Kept from cycle to
    cycle as long as these are the same.
    """

    def __init__(
        self,
        known: devices.Devices,
        table: tables.DeviceTable,
        provided: Mapping[str, nodes.Mask] | None = None,
    ) -> None:
        """`provided` are the nodes (N,) that have extended resources by a device plugin. None: not
        known.
        """
        self._classes, self._selectors, self._table = known.classes, known.selectors, table
        self.provided = provided
        self._known: dict[object, allocator.Shape | refusals.Refusal] = {}

    def of(
        self, claim: devices.ResourceClaim, spend: Callable[[str, int], None]
    ) -> allocator.Shape | refusals.Refusal:
        """Return what a claim asks for, or why it can't be had at all."""
        if claim.unsupported:
            return refusals.Refusal(Code.RESOURCE_CLAIM_UNSUPPORTED, claim.name, claim.unsupported)
        key = (claim.requests, claim.constraints, claim.extended)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= SHAPES_MAX:
                self._known.clear()
            found = self._known[key] = self._shaped(claim, spend)
        return found

    def _shaped(
        self, claim: devices.ResourceClaim, spend: Callable[[str, int], None]
    ) -> allocator.Shape | refusals.Refusal:
        requests = []
        named = {name: each.resource for each in claim.extended for name in each.requests}
        for request in claim.requests:
            resource = named.get(request.name, "")
            alternatives = [
                self._demand(request, wanted, resource, spend) for wanted in request.alternatives
            ]
            for each in alternatives:
                if isinstance(each, refusals.Refusal):
                    return each
            requests.append(tuple(d for d in alternatives if isinstance(d, allocator.Demand)))
        rules = tuple(
            allocator.Rule(each.attribute, frozenset(each.requests)) for each in claim.constraints
        )
        return allocator.Shape(tuple(requests), rules)

    def _demand(
        self,
        request: devices.DeviceRequest,
        wanted: devices.Wanted,
        resource: str,
        spend: Callable[[str, int], None],
    ) -> allocator.Demand | refusals.Refusal:
        device_class = self._classes.get(wanted.device_class)
        path = request.path(wanted)
        if device_class is None:
            return refusals.Refusal(Code.DEVICE_CLASS_MISSING, wanted.device_class, path)
        provided = (self.provided or {}).get(resource)
        too_many = len(request.alternatives) == 1 and (wanted.count or 0) > devices.RESULTS_MAX
        if too_many and (provided is None or not provided.any()):
            return refusals.Refusal(Code.TOO_MANY_DEVICES, path, str(wanted.count))
        expressions = (*device_class.selectors, *wanted.selectors)
        if expressions and self._selectors is None:
            return refusals.Refusal(Code.SELECTOR_UNUSABLE, expressions[0], "no CEL is known")
        for expression in expressions:
            assert self._selectors is not None
            problem, cost = self._selectors.problem(expression)
            spend("devices", cost)
            if problem is not None:
                return refusals.Refusal(Code.SELECTOR_UNUSABLE, expression, str(problem))
        if expressions:
            assert self._selectors is not None
            found = self._table.matching(expressions, self._selectors, spend)
        else:
            found = tables.Matches(np.ones(self._table.size, dtype=np.bool_), {})
        return allocator.Demand(
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
            resource=resource,
            provided=provided,
        )


def lasting(problem: refusals.Refusal) -> bool:
    """Whether a problem doesn't go away by itself within moments."""
    return problem.code not in PASSING


def _problem(
    use: constraints.ResourceClaimUse, claim: devices.ResourceClaim | None
) -> refusals.Refusal | None:
    """Return why no node can take a pod with this claim; None if nothing is wrong with it."""
    name = use.claim.partition("/")[2]
    if not use.claim:
        return refusals.Refusal(Code.RESOURCE_CLAIM_NOT_CREATED, use.name)
    if claim is None:
        return refusals.Refusal(Code.RESOURCE_CLAIM_MISSING, name)
    if claim.deleting:
        return refusals.Refusal(Code.RESOURCE_CLAIM_DELETING, name)
    if use.owner and (claim.owner != use.owner or claim.for_extended is not bool(use.resources)):
        return refusals.Refusal(Code.RESOURCE_CLAIM_OF_OTHER_POD, name)
    return None
