"""What this scheduler says of the same pods: through the mirror into a session, or a cycle."""

import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tests import running
from tests.oracle import manifests
from tests.oracle.judging import Verdict
from vscheduler.core import cycle
from vscheduler.core.placement.placement import Placement
from vscheduler.mirror.decode import events
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.jobs import TaskStatus
from vscheduler.model.snapshot import FRESH, Snapshot
from vscheduler.testing import pictures

Document = manifests.Document

POLICY = running.policy_of(
    {"actions": "allocate, backfill", "tiers": running.tiers(running.STANDARD)}
)
GROUP = "scheduling.k8s.io/group-name"


def verdicts(documents: Iterable[Document]) -> dict[str, Verdict]:
    """Which nodes would take each pod of the oracle's at once, as things stand."""
    listed = [_adopted(document) for document in documents]
    groups = [
        manifests.group(each["metadata"]["namespace"], each["metadata"]["name"])
        for each in listed
        if each["kind"] == "Pod" and each["spec"].get("schedulerName") == pictures.SCHEDULER
    ]
    session = cycle.open_session(taken([*listed, *groups]), POLICY)
    found = {
        manifests.key(each): frozenset[str]()
        for each in listed
        if each["kind"] == "Pod" and "nodeName" not in each["spec"]
    }
    names, placing = session.layout.names, session.placement
    assert isinstance(placing, Placement)
    for gang in session.job_states.values():
        for task in gang.job.tasks:
            if task.status is TaskStatus.PENDING:
                scores = placing._plan(task).idle
                rows = np.flatnonzero(scores > -np.inf).tolist()
                found[task.key] = frozenset(names[row] for row in rows)
    return found


def taken(documents: Iterable[Document]) -> Snapshot:
    """The snapshot of a mirror that was shown all this, whatever it refuses of it."""
    mirror = Mirror(Options(scheduler_names=(pictures.SCHEDULER,)))
    for document in (manifests.QUEUE, *documents):
        kind = events.kind_of(document)
        assert kind is not None, document["kind"]
        mirror.apply(events.convert(kind, document))
    return mirror.snapshot(time.time(), FRESH)


def placed(documents: Iterable[Document], groups: Sequence[Document]) -> Mapping[str, str]:
    """The nodes that pods of groups are bound to in one cycle, by `namespace/name`."""
    result = cycle.run_cycle(taken([*documents, *groups]), POLICY, None)
    assert result.faults == ()
    return {bind.task.key: bind.node for bind in result.binds}


def _adopted(document: Document) -> Document:
    """A pod that the oracle was asked about as one of ours, in a group of its own."""
    if document["kind"] != "Pod" or document["spec"].get("schedulerName") != manifests.ORACLE:
        return document
    metadata = document["metadata"]
    annotations = {**metadata.get("annotations", {}), GROUP: metadata["name"]}
    spec = {**document["spec"], "schedulerName": pictures.SCHEDULER}
    return {**document, "metadata": {**metadata, "annotations": annotations}, "spec": spec}
