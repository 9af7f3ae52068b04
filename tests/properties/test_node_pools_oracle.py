"""What queues' pods can use, found pod by pod and node by node."""

import random
from collections import defaultdict
from typing import Any

import numpy as np
from hypothesis import given, strategies

from tests import running
from tests.properties import clusters
from vscheduler.core import cycle
from vscheduler.core.session.session import Session
from vscheduler.core.shares import constrained_max_min, fair_shares
from vscheduler.core.shares.constrained_max_min import SharingProblem
from vscheduler.core.shares.fair_shares import FairShares
from vscheduler.model import resources
from vscheduler.model.jobs import HOLDING, TaskStatus
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

TREE = {
    "actions": "allocate",
    "tiers": running.tiers("priority gang | predicates proportion"),
}


def drawn(picture: str, chance: random.Random) -> list[Document]:
    """The cluster, some of its jobs another scheduler's, and a root with a capability now and then;
    of jobs whose PodGroup isn't there, the pods.
    """
    documents = pictures.documents(picture)
    groups = [
        document["metadata"]["name"] for document in documents if document["kind"] == "PodGroup"
    ]
    others = {name for name in groups if chance.random() < 0.2}
    orphans = {name for name in groups if chance.random() < 0.05}
    found: list[Document] = []
    for document in documents:
        if document["kind"] == "PodGroup" and document["metadata"]["name"] in orphans:
            continue
        job = document["metadata"].get("annotations", {}).get("scheduling.k8s.io/group-name")
        if document["kind"] == "Pod" and job in others:
            spec = {**document["spec"], "schedulerName": "other"}
            found.append({**document, "spec": spec})
        else:
            found.append(document)
    if chance.random() < 0.3:
        found += pictures.documents(f"queue root capability=cpu:{chance.randint(1, 60)}")
    return found


def by_hand(opened: Session) -> SharingProblem:
    """Every pod with its nodes, every node by itself."""
    space, table = opened.space, opened.snapshot.nodes
    limits = fair_shares.limits(space, opened.queues, opened.snapshot.used_by_other_schedulers)
    rows = table.layout.rows
    ours = np.zeros_like(table.used)
    taken = np.zeros_like(table.used)
    pinned = np.zeros_like(limits.guarantee)
    wants: defaultdict[tuple[int, bytes], Any] = defaultdict(space.zeros)
    masks: dict[bytes, Any] = {}
    for state in opened.job_states.values():
        queue = limits.names.index(state.job.queue)
        is_open = opened.queues[state.job.queue].open
        for task in state.job.tasks:
            waits = task.status is TaskStatus.PENDING and is_open
            if task.status not in HOLDING and not waits:
                continue
            mask = opened.reachable(task)
            mask &= resources.fits(opened.request(task), table.allocatable)
            row = rows.get(task.node or "", -1)
            if task.status in HOLDING and row >= 0:
                ours[row] += opened.request(task)
            if task.status in HOLDING and not (row >= 0 and mask[row]):
                pinned[queue] += opened.request(task)
                if row >= 0:
                    taken[row] += opened.request(task)
                continue
            masks[mask.tobytes()] = mask
            wants[queue, mask.tobytes()] += opened.request(task)
    others = table.used - table.releasing - ours
    supply = np.maximum(np.maximum(table.allocatable - others, ours) - taken, 0)
    supply[~table.layout.ready] = 0
    names = sorted(masks)
    demands = np.zeros((len(limits.names), len(names), space.size))
    for (queue, name), amounts in wants.items():
        demands[queue, names.index(name)] += amounts
    return SharingProblem(
        weights=np.array([float(opened.queues[name].weight) for name in limits.names]),
        demands=demands,
        reach=np.array([masks[name] for name in names], dtype=np.bool_).reshape(
            len(names), table.layout.size
        ),
        supply=supply.astype(np.float64),
        pinned=pinned,
        guarantee=limits.guarantee,
        capability=limits.capability,
        whole=limits.whole,
    )


@clusters.bounded(150)
@given(clusters.pictures(), strategies.integers(0, 2**32))
def test_a_survey_finds_what_every_pod_and_node_say(picture: str, seed: int) -> None:
    """Classes, domains and kinds of nodes lose nothing: the shares are the same."""
    documents = drawn(picture, random.Random(seed))
    for document in documents:
        if document["kind"] == "Queue":
            # What is kept for queues that don't ask for it has pictures of its own.
            document["spec"].pop("guarantee", None)
    opened = cycle.open_session(running.snapshot_of(documents), running.policy_of(TREE))
    problem = by_hand(opened)
    expected = constrained_max_min.shares(problem).deserved
    limits = fair_shares.limits(
        opened.space, opened.queues, opened.snapshot.used_by_other_schedulers
    )
    weights = [opened.queues[name].weight for name in limits.names]
    division = FairShares(opened.space, opened.pools, limits, weights)
    found = division.divide().deserved
    scale = np.maximum(1.0, opened.snapshot.nodes.allocatable.sum(axis=0))
    assert (np.abs(found - expected) <= 1e-6 * scale).all()
    assert (found.sum(axis=0) <= opened.total + 1e-6 * scale).all()
    if problem.demands.any():
        used = problem.reach[problem.demands.any(axis=(0, 2))].any(axis=0)
        there = problem.supply[used].sum(axis=0) + problem.pinned.sum(axis=0)
        assert (opened.total == there).all()
        assert sorted(opened.pools.left_out.tolist()) == np.flatnonzero(~used).tolist()
