"""What a tenant's pods took of the memory is free again once they are deleted."""

import gc
import weakref

from tests import attacks
from tests.scenarios.test_work_budget import Cluster
from tests.unit.mirror import manifests

PODS = 30


def test_pods_that_are_gone_leave_no_conditions_behind() -> None:
    """Although no node has changed since, on which cycles keep what they found out about pods."""
    cluster = Cluster()
    documents = list(attacks.conditions(PODS, 3))
    for document in documents:
        cluster.show(document)
    for _ in range(3):
        cluster.decide()
    tasks = [task for job in cluster.snapshot().jobs for task in job.tasks]
    classes = [weakref.ref(task.pod_class) for task in tasks]
    assert len(classes) == PODS
    for document in documents[1:]:
        cluster.mirror.apply(manifests.removal_of(document))
    del tasks
    cluster.decide()
    gc.collect()
    assert [each for each in classes if each() is not None] == []
