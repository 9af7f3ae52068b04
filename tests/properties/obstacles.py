"""What keeps a job from starting for a reason of its own, put into manifests; and what a user would
do about it.
"""

import copy
from collections.abc import Callable, Iterator, Mapping

from tests.properties import edited_manifests
from tests.properties.edited_manifests import Cluster, Document
from tests.properties.worlds import manifests
from vscheduler.explain.changes import (
    Change,
    CreateClaims,
    CreateQueue,
    DropAnnotation,
    OpenQueues,
    OtherParent,
    OtherQueue,
    QueueNamespace,
    QuotaAmounts,
    RemoveGates,
)

SLA = "sla-waiting-time"
MANY = 10**9

Obstacle = Callable[[Cluster, str], None]


def _group(cluster: Cluster, job: str) -> Document:
    return next(
        document
        for document in cluster.documents
        if document["kind"] == "PodGroup" and "/".join(manifests.key_of(document)[1:]) == job
    )


def _queue(cluster: Cluster, job: str) -> Document | None:
    name = _group(cluster, job)["spec"]["queue"]
    return _named(cluster, name)


def _named(cluster: Cluster, name: str) -> Document | None:
    return next(
        (
            document
            for document in cluster.documents
            if (document["kind"], document["metadata"]["name"]) == ("Queue", name)
        ),
        None,
    )


def _pods(cluster: Cluster, job: str) -> Iterator[Document]:
    """The waiting pods of a job."""
    name = job.partition("/")[2]
    for document in cluster.documents:
        if document["kind"] != "Pod" or document["spec"].get("nodeName"):
            continue
        if document["metadata"]["annotations"].get(manifests.GROUP) == name:
            yield document


def _plugin(cluster: Cluster, name: str) -> None:
    cluster.configuration["tiers"][-1]["plugins"].append({"name": name})


def closed(cluster: Cluster, job: str) -> None:
    """The queue is closed."""
    queue = _queue(cluster, job)
    if queue is not None:
        queue["status"] = {"state": "Closed"}


def closed_above(cluster: Cluster, job: str) -> None:
    """The parent of the queue is closed."""
    queue = _queue(cluster, job)
    parent = None if queue is None else _named(cluster, queue["spec"].get("parent", ""))
    if parent is not None:
        parent["status"] = {"state": "Closed"}


def no_queue(cluster: Cluster, job: str) -> None:
    """There is no such queue."""
    _group(cluster, job)["spec"]["queue"] = "missing"


def no_parent(cluster: Cluster, job: str) -> None:
    """The queue is below a queue that doesn't exist."""
    queue = _queue(cluster, job)
    if queue is not None:
        queue["spec"]["parent"] = "missing"


def barred(cluster: Cluster, job: str) -> None:
    """The queue is for another namespace."""
    queue = _queue(cluster, job)
    if queue is not None:
        queue["metadata"]["annotations"] = {edited_manifests.NAMESPACES: "other"}


def no_claim(cluster: Cluster, job: str) -> None:
    """Each pod names a claim that doesn't exist."""
    for pod in _pods(cluster, job):
        pod["spec"]["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": "nope"}}]


def gates(cluster: Cluster, job: str) -> None:
    """Each pod has a scheduling gate."""
    for pod in _pods(cluster, job):
        pod["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]


def misspelt_role(cluster: Cluster, job: str) -> None:
    """A pod of a role names another one."""
    for pod in _pods(cluster, job):
        if pod["metadata"]["annotations"].get(manifests.ROLE):
            pod["metadata"]["annotations"][manifests.ROLE] = "mispelt"
            return


def missing_pod(cluster: Cluster, job: str) -> None:
    """One pod isn't there."""
    pods = list(_pods(cluster, job))
    if len(pods) > 1:
        cluster.documents.remove(pods[-1])


def bad_annotation(cluster: Cluster, job: str) -> None:
    """A waiting time can't be read."""
    _plugin(cluster, "sla")
    _group(cluster, job)["metadata"].setdefault("annotations", {})[SLA] = "soon"


def quota(cluster: Cluster, job: str) -> None:
    """A ResourceQuota is less than the job asks for."""
    _plugin(cluster, "resourcequota")
    group = _group(cluster, job)
    group["status"] = {"phase": "Pending"}
    spec = group["spec"]
    spec["minResources"] = spec.get("minResources") or {"cpu": "1"}
    cluster.documents.append(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "limit", "namespace": manifests.NAMESPACE},
            "spec": {"hard": {"cpu": "1m"}},
        }
    )


def no_pods(cluster: Cluster, job: str) -> None:
    """It has no pods yet, as its owner waits for its admission."""
    name = job.partition("/")[2]
    group = _group(cluster, job)
    notes = group["metadata"].setdefault("annotations", {})
    notes["scheduling.volcano.sh/scheduler-name"] = manifests.SCHEDULER
    group["status"] = {"phase": "Pending"}
    group["spec"].setdefault("minResources", {"cpu": "1"})
    cluster.documents[:] = [
        document
        for document in cluster.documents
        if document["kind"] != "Pod"
        or document["metadata"]["annotations"].get(manifests.GROUP) != name
    ]
    closed(cluster, job)


OBSTACLES: Mapping[str, Obstacle] = {
    each.__name__: each
    for each in (
        *(closed, closed_above, no_queue, no_parent, barred, no_claim, gates, misspelt_role),
        *(missing_pod, bad_annotation, quota, no_pods),
    )
}


def with_obstacle(before: Cluster, job: str, obstacle: Obstacle) -> Cluster:
    """The cluster with an obstacle in the way of a job."""
    after = Cluster(
        documents=copy.deepcopy(before.documents), configuration=copy.deepcopy(before.configuration)
    )
    obstacle(after, job)
    return after


def helping(cluster: Cluster, job: str, name: str) -> list[Change]:
    """What a user would do about the obstacle of this name, one thing or another."""
    queue = str(_group(cluster, job)["spec"]["queue"])
    namespace = job.partition("/")[0]
    found = _queue(cluster, job)
    parent = found["spec"].get("parent", "") if found else ""
    leaves = _leaves(cluster) - {queue}
    others: list[Change] = [OtherQueue(before=queue, after=leave) for leave in sorted(leaves)]
    quota_name, amounts = f"{namespace}/limit", (("cpu", MANY),)
    made: dict[str, list[Change]] = {
        "no_queue": [CreateQueue(queue=queue), *others],
        "no_parent": [
            CreateQueue(queue="missing"),
            OtherParent(queue=queue, before="missing", after="root"),
        ],
        "no_claim": [CreateClaims(claims=(f"{namespace}/nope",))],
        "gates": [RemoveGates(pods=1)],
        "bad_annotation": [DropAnnotation(key=SLA)],
        "quota": [QuotaAmounts(quota=quota_name, before=amounts, after=amounts, steps=amounts)],
    }
    if found:
        made["closed"] = [OpenQueues(queues=(queue,)), *others]
        made["barred"] = [QueueNamespace(queue=queue, namespace=namespace), *others]
    if parent:
        made["closed_above"] = [OpenQueues(queues=(parent,))]
    return made.get(name, [])


def _leaves(cluster: Cluster) -> set[str]:
    """The queues without children."""
    queues = [document for document in cluster.documents if document["kind"] == "Queue"]
    inner = {queue["spec"].get("parent", "") for queue in queues}
    return {queue["metadata"]["name"] for queue in queues} - inner - {"root"}
