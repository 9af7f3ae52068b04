"""Cycles whose decisions are known in the order in which they were made.

A CycleResult lists them by name. Here the journal of each statement is read when it counts.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tests import running
from tests.properties.filters_by_hand import judging, worlds
from vscheduler.core.session import statement
from vscheduler.core.session.statement import Statement
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import FRESH, Carried

Document = running.Document
State = worlds.State
UNDONE = (statement.Step.SPARED, statement.Step.REPRIEVED, statement.Step.WITHDRAWN)


def run(
    documents: Iterable[Document],
    tree: Mapping[str, Any],
    carried: Carried = FRESH,
) -> tuple[CycleResult, list[judging.Step]]:
    """One cycle, and what it decided, step by step."""
    with listening() as order:
        result = running.run(documents, tree, carried=carried)
    return result, steps(result, (key for key, holds in order.items() if holds))


@contextmanager
def listening() -> Iterator[dict[str, bool]]:
    """Pods in the order in which something was decided of them last, and whether that holds: a
    place may have been given up, and an eviction taken back.
    """
    order: dict[str, bool] = {}
    commit, hold = Statement.commit, Statement.hold

    def read(found: Statement) -> None:
        for step, task, _ in found._operations:
            if step is statement.Step.KEPT:
                continue  # room for a pod that is still to come; who made way was evicted before
            order.pop(task.key, None)
            order[task.key] = step not in UNDONE

    def committing(found: Statement) -> None:
        read(found)
        commit(found)

    def holding(found: Statement) -> None:
        read(found)
        hold(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Statement, "commit", committing)
        patch.setattr(Statement, "hold", holding)
        yield order


def steps(result: CycleResult, order: Iterable[str]) -> list[judging.Step]:
    """The decisions of a cycle in this order, all of them."""
    made = {bind.task.key: (bind.node, State.STAYS) for bind in result.binds}
    made |= {each.task.key: (each.node, State.COMES) for each in result.pipelined}
    made |= {evict.task.key: (evict.node, State.LEAVES) for evict in result.evicts}
    listed = list(order)
    assert sorted(listed) == sorted(made)
    return [judging.Step(pod=key, node=made[key][0], state=made[key][1]) for key in listed]


def after(documents: Iterable[Document], result: CycleResult) -> list[Document]:
    """The cluster once who left has gone, who was bound runs, and who was evicted is leaving."""
    staying = [
        document for document in documents if "deletionTimestamp" not in document["metadata"]
    ]
    evicted = {evict.task.key for evict in result.evicts}
    return [_after(each, evicted) for each in running.obey(staying, result)]


def _after(document: Document, evicted: set[str]) -> Document:
    if document["kind"] != "Pod" or worlds.key_of(document) not in evicted:
        return document
    gone = {**document["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    return {**document, "metadata": gone}
