"""Manifests through the mirror into cycles: what scenarios, properties and conformance share."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from vscheduler.core import cycle
from vscheduler.core.session.session import Session
from vscheduler.mirror.decode import events
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs_by_id import NO_JOBS
from vscheduler.model.snapshot import FRESH, Carried, Snapshot, without_memos
from vscheduler.testing import configuration, pictures

Document = pictures.Document
Tree = Mapping[str, Any]


tiers = configuration.tiers
policy_of = configuration.policy_of

STANDARD = "priority gang | drf predicates proportion nodeorder binpack"
TREE = {"actions": "allocate", "tiers": tiers(STANDARD)}
"""A configuration with all that allocate can be told."""


EMPTY = CycleResult(
    binds=(),
    pipelined=(),
    evicts=(),
    changeable=(),
    queues=(),
    total={},
    carried=FRESH,
)
"""A cycle in which nothing happened."""


def snapshot_of(
    documents: Iterable[Document],
    carried: Carried = FRESH,
    *,
    claim_unowned: bool = False,
    node_selector: tuple[tuple[str, str], ...] = (),
    now: float = pictures.NOW.timestamp(),
) -> Snapshot:
    """The snapshot that a mirror takes after it was shown these manifests in this order.

    As bytes, as a daemon reads them: that costs a fifth of what reading them as objects does.
    """
    options = Options(
        scheduler_names=(pictures.SCHEDULER,),
        claim_unowned=claim_unowned,
        node_selector=node_selector,
    )
    mirror = Mirror(options)
    for document in documents:
        kind = events.kind_of(document)
        assert kind is not None, document["kind"]
        mirror.apply(events.decode(kind, msgspec.json.encode(document)))
    assert not mirror.rejections
    return mirror.snapshot(now, carried)


def run(
    documents: Iterable[Document],
    tree: Mapping[str, Any],
    *,
    budget: int | None = None,
    carried: Carried = FRESH,
) -> CycleResult:
    """One cycle on these manifests."""
    return decide(snapshot_of(documents, carried), tree, budget)


def run_claimed(
    documents: Iterable[Document],
    tree: Mapping[str, Any],
    carried: Carried = FRESH,
) -> CycleResult:
    """One cycle for which groups without pods count as well."""
    return decide(snapshot_of(documents, carried, claim_unowned=True), tree)


def run_at(
    documents: Iterable[Document],
    tree: Mapping[str, Any],
    now: float,
    carried: Carried = FRESH,
) -> CycleResult:
    """One cycle on these manifests at another instant than that of pictures."""
    return decide(snapshot_of(documents, carried, now=now), tree)


def decide(taken: Snapshot, tree: Mapping[str, Any], budget: int | None = None) -> CycleResult:
    """One cycle on a snapshot, by the only door there is."""
    result = cycle.run_cycle(taken, policy_of(tree), budget)
    assert result.faults == ()
    return result


def seen(mirror: Mirror, now: float) -> str:
    """What cycles see of the cluster in a Mirror, as text."""
    taken = mirror.snapshot(now)
    return repr((taken.jobs, taken.queues, taken.budgets, taken.nodes.used.tolist()))


def digest(result: CycleResult) -> str:
    """All of a result as text: equal for equal results, task classes by what they hold. Which
    jobs were left out as unchanged is no part of it.
    """
    assert is_within(result.changeable, result.groups)
    carried = dataclasses.replace(forgetful(result.carried), seen=None)
    return repr(msgspec.structs.replace(whole(result), carried=carried))


def whole(result: CycleResult) -> CycleResult:
    """The result with a status for each job, whichever were left out as unchanged."""
    return msgspec.structs.replace(result, changeable=result.groups, others=NO_JOBS)


def is_within(some: Iterable[object], every: Iterable[object]) -> bool:
    """Whether every one of `some` is there, in the same order."""
    rest = iter(every)
    return all(any(one is each for each in rest) for one in some)


def forgetful(carried: Carried) -> Carried:
    """The same without memos, which change no decision."""
    return without_memos(carried)


def open_session(documents: Iterable[Document], tree: Mapping[str, Any]) -> Session:
    """A session in which nothing is decided yet."""
    return cycle.open_session(snapshot_of(documents), policy_of(tree))


def obey(documents: Sequence[Document], result: CycleResult) -> list[Document]:
    """The manifests after the binds: bound pods run, phases are written, all else stays."""
    nodes = {bind.task.key: bind.node for bind in result.binds}
    phases: dict[str, str] = {status.job: str(status.phase) for status in result.groups}
    return [_obeyed(document, nodes, phases) for document in documents]


def _obeyed(document: Document, nodes: Mapping[str, str], phases: Mapping[str, str]) -> Document:
    key = f"{document['metadata'].get('namespace', '')}/{document['metadata']['name']}"
    if document["kind"] == "Pod" and key in nodes:
        spec = {**document["spec"], "nodeName": nodes[key]}
        return {**document, "spec": spec, "status": {"phase": "Running"}}
    if document["kind"] == "PodGroup" and key in phases:
        return {**document, "status": {"phase": phases[key]}}
    return document
