"""Cycles whose decisions are known in the order in which they were made.

A CycleResult lists them by name. Here the journal of each statement is read when it counts.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tests import running
from tests.properties.filters_by_hand import judging, worlds
from vscheduler.core.model import decisions, snapshot
from vscheduler.core.session import statement

Document = running.Document
State = worlds.State
UNDONE = (statement.Step.SPARED, statement.Step.REPRIEVED, statement.Step.WITHDRAWN)


def run(
    documents: Iterable[Document],
    tree: Mapping[str, Any],
    carried: snapshot.Carried = snapshot.FRESH,
) -> tuple[decisions.CycleResult, list[judging.Step]]:
    """One cycle, and what it decided, step by step."""
    with listening() as order:
        result = running.run(documents, tree, carried=carried)
    return result, steps(result, order)


@contextmanager
def listening() -> Iterator[dict[str, None]]:
    """Pods in the order in which something is decided of them that isn't taken back."""
    order: dict[str, None] = {}
    commit, hold = statement.Statement.commit, statement.Statement.hold

    def read(found: statement.Statement) -> None:
        for step, task, _ in found._operations:
            if step is statement.Step.KEPT:
                continue  # room for a pod that is still to come; who made way was evicted before
            order.pop(task.key, None)
            if step not in UNDONE:
                order[task.key] = None

    def committing(found: statement.Statement) -> None:
        read(found)
        commit(found)

    def holding(found: statement.Statement) -> None:
        read(found)
        hold(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statement.Statement, "commit", committing)
        patch.setattr(statement.Statement, "hold", holding)
        yield order


def steps(result: decisions.CycleResult, order: Iterable[str]) -> list[judging.Step]:
    """The decisions of a cycle in this order, all of them."""
    made = {each.task.key: (each.node, State.STAYS) for each in result.binds}
    made |= {each.task.key: (each.node, State.COMES) for each in result.pipelined}
    made |= {each.task.key: (each.node, State.LEAVES) for each in result.evicts}
    listed = list(order)
    assert sorted(listed) == sorted(made)
    return [judging.Step(pod=key, node=made[key][0], state=made[key][1]) for key in listed]


def after(documents: Iterable[Document], result: decisions.CycleResult) -> list[Document]:
    """The cluster once who left has gone, who was bound runs, and who was evicted is leaving."""
    staying = [each for each in documents if "deletionTimestamp" not in each["metadata"]]
    evicted = {each.task.key for each in result.evicts}
    return [_after(each, evicted) for each in running.obey(staying, result)]


def _after(document: Document, evicted: set[str]) -> Document:
    if document["kind"] != "Pod" or worlds.key_of(document) not in evicted:
        return document
    gone = {**document["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    return {**document, "metadata": gone}
