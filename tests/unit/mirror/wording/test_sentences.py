from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.mirror.wording import test_claim_sentences as claims
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import (
    Bind,
    DomainRoom,
    Evict,
    MissingResource,
    NoPromise,
    PromisedStart,
    Reason,
    ReasonCode,
    ReservedAhead,
    ReservedFor,
    Shortage,
)
from vscheduler.model.jobs import InvalidPod, Job, JobId, PodClass, Task, TaskId, TaskStatus
from vscheduler.model.queues import ProblemCode, QueueProblem
from vscheduler.model.refusals import Refusal, RefusalCode

Code = ReasonCode
GI = 2**30


def shortage(resource: str, requested: float, allocated: float, limit: float) -> Shortage:
    """A shortage in the order in which people say it."""
    return Shortage(resource=resource, requested=requested, allocated=allocated, limit=limit)


def problem(code: str, queue: str, *subjects: str) -> QueueProblem:
    """Why a queue is set aside."""
    return QueueProblem(code=ProblemCode(code), queue=queue, subjects=subjects)


def short(resource: str) -> Refusal:
    """A node has too little of the resource."""
    return Refusal(RefusalCode.INSUFFICIENT, resource)


TAINTED = Refusal(RefusalCode.TAINT, "gpu", "true")


def rack(name: str, pods: int) -> DomainRoom:
    """A rack with room for so many pods."""
    return DomainRoom(name=name, tier=1, tier_name="example.com/rack", pods=pods, nodes=8)


FULL = replace(rack("r3", 6), refusals=((short("cpu"), 2),))

CPU_HOLE = MissingResource(resource="cpu", free=6000, node="n7")
NONE_FREE = MissingResource(resource="cpu", free=0, node="n1")
NO_ROOM = {
    "minimum": 4,
    "tasks": 4,
    "placed": 2,
    "nodes": 5,
    "request": {"cpu": 8000, "pods": 1},
    "refusals": ((short("cpu"), 3), (TAINTED, 2)),
    "holes": (CPU_HOLE,),
}
BARRED = "queue a isn't for namespace b; name another, or have vscheduler.io/namespaces list it"
LEAF = "queue a has child queues, and jobs go to leaf queues; name one of those in spec.queue"
CLAIMS = InvalidPod(
    uid=TaskId("u"),
    namespace="ns",
    name="a",
    field="spec.resourceClaims",
    message="no claims",
)
GATED = "2 of 3 pods may be placed (minMember 3); the others wait behind their scheduling gates"

SENTENCES: list[tuple[Code, dict[str, Any], str]] = [
    (Code.QUEUE_MISSING, {}, "queue a doesn't exist; create it, or name another in spec.queue"),
    (Code.QUEUE_CLOSED, {}, "queue a isn't open; open it, or name another in spec.queue"),
    (
        Code.PLUGIN_FAILED,
        {"subject": "p"},
        "plugin p failed on this job; the scheduler's log, or simulate's stderr, says why",
    ),
    (Code.PLUGIN_REFUSED, {"plugin": "p", "subject": "it is Sunday"}, "plugin p: it is Sunday"),
    (
        Code.PLUGIN_REFUSED,
        {"plugin": "p"},
        "plugin p: refuses the job, and gives no reason",
    ),
    (
        Code.TOO_FEW_PODS,
        {"tasks": 3, "minimum": 8},
        "3 of 8 pods exist (minMember 8); create 5 more, or lower minMember",
    ),
    (
        Code.TOO_FEW_PODS,
        {"tasks": 0, "minimum": 1},
        "0 of 1 pod exist (minMember 1); create 1 more, or lower minMember",
    ),
    (
        Code.TOO_FEW_OF_ROLE,
        {"tasks": 1, "minimum": 2, "role": "worker"},
        "1 of 2 pods of role worker exist (minTaskMember worker: 2); create 1 more",
    ),
    (
        Code.TOO_FEW_SUB_GROUPS,
        {"tasks": 1, "minimum": 2, "subject": "replicas"},
        (
            "1 of 2 sub-groups of policy replicas have all their pods (minSubGroups 2); "
            "create the others"
        ),
    ),
    (
        Code.TOO_FEW_SUB_GROUPS,
        {"tasks": 0, "minimum": 1},
        (
            "0 of 1 sub-group of policy (no name) have all their pods (minSubGroups 1); "
            "create the others"
        ),
    ),
    (
        Code.BAD_SETTING,
        {"subject": "annotation volcano.sh/sla-waiting-time: 'soon' is no duration"},
        "annotation volcano.sh/sla-waiting-time: 'soon' is no duration; correct it on the PodGroup",
    ),
    (
        Code.TOPOLOGY_UNKNOWN,
        {"subject": "spec.networkTopology.highestTierName: no tier is called row"},
        (
            "spec.networkTopology.highestTierName: no tier is called row; "
            "correct it, or set mode: soft to start anywhere"
        ),
    ),
    (
        Code.POD_REJECTED,
        {"tasks": 2, "rejected": 1, "rejection": CLAIMS},
        "1 of 2 pods can't be used: pod ns/a: spec.resourceClaims: no claims",
    ),
    (
        Code.POD_REJECTED,
        {"tasks": 5, "rejected": 3, "rejection": replace(CLAIMS, field="")},
        "3 of 5 pods can't be used, such as pod ns/a: no claims",
    ),
    (Code.POD_REJECTED, {"tasks": 2, "rejected": 2}, "2 of 2 pods can't be used"),
    (Code.QUEUE_BARRED, {"subject": "b"}, BARRED),
    (Code.BIND_REFUSED, {"rejected": 3}, "the API server refused to bind 3 pods"),
    (Code.NOT_LEAF, {}, LEAF),
    (
        Code.SET_ASIDE,
        {"problem": problem("ParentMissing", "b", "c")},
        (
            "queue a is set aside: parent c of queue b doesn't exist; "
            "create it, or correct spec.parent"
        ),
    ),
    (Code.SET_ASIDE, {}, "queue a is set aside until the tree of queues is put right"),
    (
        Code.CLUSTER_FULL,
        {"subject": "b", "shortages": (shortage("cpu", 4000, 24000, 25000),)},
        (
            "not admitted: the cluster is too small for queue b, which uses or has reserved "
            "24 cpu of the 25 it may have; this job asks for 4 cpu (minResources)"
        ),
    ),
    (
        Code.QUEUE_OVER_SHARE,
        {"shortages": (replace(shortage("cpu", 1000, 4000, 4000), owner="b"),)},
        "queue b has 4 cpu of the 4 it may have; this pod needs 1",
    ),
    (
        Code.QUEUE_FULL,
        {"shortages": (shortage("cpu", 4000, 24000, 25000),)},
        (
            "not admitted: queue a uses or has reserved 24 cpu of the 25 it may have; "
            "this job asks for 4 cpu (minResources)"
        ),
    ),
    (
        Code.QUOTA_FULL,
        {"subject": "lab", "shortages": (shortage("cpu", 4000, 24000, 25000),)},
        (
            "not admitted: ResourceQuota lab counts, with what is reserved, 24 cpu of the 25 "
            "it allows; this job asks for 4 cpu (minResources)"
        ),
    ),
    (
        Code.CLUSTER_FULL,
        {"shortages": (shortage("cpu", 4000, 24000, 25000),)},
        (
            "not admitted: of the 25 cpu that the cluster can reserve beside what runs, "
            "1 cpu is left; this job asks for 4 cpu (minResources)"
        ),
    ),
    (
        Code.CLUSTER_FULL,
        {"shortages": (shortage("cpu", 4000, 17700, 15000), shortage("example.com/a", 1, 0, 0))},
        (
            "not admitted: of the 15 cpu and no example.com/a that the cluster can reserve beside "
            "what runs, no cpu and no example.com/a are left; this job asks for 4 cpu and "
            "1 example.com/a (minResources)"
        ),
    ),
    (
        Code.CLUSTER_FULL,
        {"shortages": (shortage("cpu", 4000, 0, 0),)},
        (
            "not admitted: beside what runs the cluster has no cpu left to reserve; "
            "this job asks for 4 cpu (minResources)"
        ),
    ),
    (
        Code.CLUSTER_FULL,
        {"subject": "b", "shortages": (shortage("cpu", 4000, 24000, 25000),)},
        (
            "not admitted: the cluster is too small for queue b, which uses or has reserved "
            "24 cpu of the 25 it may have; this job asks for 4 cpu (minResources)"
        ),
    ),
    (
        Code.NEVER_FITS,
        {
            "request": {"cpu": 64000, "memory": GI},
            "holes": (MissingResource(resource="cpu", free=48000, node="n7"),),
        },
        (
            "a pod of 64 cpu and 1Gi memory is larger than any node it may use, the most is "
            "48 cpu on n7; ask for less, or add a larger node"
        ),
    ),
    (
        Code.NEVER_FITS,
        {
            "request": {"cpu": 1000, "nvidia.com/gpu": 1},
            "holes": (MissingResource(resource="nvidia.com/gpu", free=0, node="n7"),),
        },
        (
            "a pod of 1 cpu and 1 nvidia.com/gpu may use no node that has nvidia.com/gpu; "
            "ask for less, or add nodes"
        ),
    ),
    (
        Code.NEVER_FITS,
        {"request": {"cpu": 500}, "minimum": 20, "capacity": 16},
        (
            "the nodes that it may use have room for at most 16 of 20 pods of 0.5 cpu, "
            "even when empty; ask for less, or add nodes"
        ),
    ),
    (
        Code.NEVER_FITS,
        {"role": "worker", "minimum": 4, "capacity": 1},
        (
            "the nodes that it may use have room for at most 1 of 4 pods of role worker, "
            "even when empty; ask for less, or add nodes"
        ),
    ),
    (
        Code.NEVER_FITS,
        {"shortages": (shortage("cpu", 30500, 0, 24000), shortage("nvidia.com/gpu", 8, 0, 0))},
        (
            "all nodes that it may use have 24 cpu and no nvidia.com/gpu, and it needs 30.5 cpu "
            "and 8 nvidia.com/gpu at least; ask for less, or add nodes"
        ),
    ),
    (
        Code.QUEUE_OVER_SHARE,
        {
            "request": {"cpu": 2000, "memory": GI},
            "shortages": (shortage("cpu", 2000, 24000, 25000),),
        },
        "queue a has 24 cpu of the 25 it deserves; this pod needs 2",
    ),
    (
        Code.QUEUE_OVER_SHARE,
        {
            "request": {"cpu": 2000, "nvidia.com/gpu": 1},
            "shortages": (
                shortage("cpu", 2000, 24000, 25333.4),
                shortage("nvidia.com/gpu", 1, 2, 2.5),
            ),
        },
        (
            "queue a has 24 cpu of the 25.333 it deserves and 2 nvidia.com/gpu of the 2.50; "
            "this pod needs 2 cpu and 1 nvidia.com/gpu"
        ),
    ),
    (
        Code.QUEUE_OVER_SHARE,
        {
            "request": {"cpu": 3000},
            "shortages": (shortage("cpu", 3000, 8000, 8000),),
            "minimum": 2,
            "placed": 1,
        },
        (
            "needs 2 pods; with 1 of them queue a has 8 cpu of the 8 it deserves; "
            "the next one needs 3"
        ),
    ),
    (
        Code.QUEUE_OVER_SHARE,
        {"request": {"cpu": 500, "pods": 1}},
        "queue a has had its share; this pod needs 0.5 cpu",
    ),
    (
        Code.NO_NODES,
        {},
        "there is no node that this scheduler may use; add one, or look at its --node-selector",
    ),
    (
        Code.NO_DOMAIN,
        {"lacking": 8, "domains": (FULL, rack("r1", 5), rack("r2", 4))},
        (
            "8 pods must start in one rack; the best, r3, has room for 6 "
            "(of its 8 nodes: 2 Insufficient cpu); then r1 for 5 and r2 for 4"
        ),
    ),
    (
        Code.NO_DOMAIN,
        {"lacking": 8, "domains": (rack("r3", 7),), "wider_at": 600.0},
        "8 pods wait until 00:10:00 for one rack; the best, r3, has room for 7 on its 8 nodes",
    ),
    (
        Code.NO_DOMAIN,
        {"lacking": 2, "domains": (replace(rack("r3", 1), tier_name="", nodes=1),)},
        "2 pods must start in one domain of tier 1; the best, r3, has room for 1 on its node",
    ),
    (
        Code.NEVER_FITS,
        {"lacking": 8, "domains": (rack("r3", 6),)},
        (
            "8 pods must start in one rack; the largest, r3, could hold 6 if it were empty; "
            "allow a higher tier, ask for less, or add nodes"
        ),
    ),
    (
        Code.NO_DOMAIN,
        {
            "lacking": 1,
            "placed": 7,
            "domains": (replace(FULL, pods=0),),
            "elsewhere": rack("r5", 8),
        },
        "r3 is full for 1 of 8 pods (of its 8 nodes: 2 Insufficient cpu); r5 would hold all 8",
    ),
    (
        Code.NO_DOMAIN,
        {"lacking": 3, "placed": 5, "domains": (replace(FULL, pods=2),)},
        "r3 has room for 2 of 3 more pods (of its 8 nodes: 2 Insufficient cpu)",
    ),
    (
        Code.NO_DOMAIN,
        {"lacking": 2},
        "2 pods must start near each other, and no domain of the network has so low a tier",
    ),
    (
        Code.NO_DOMAIN,
        {"lacking": 1, "placed": 2},
        "1 more pod must join those that run, which aren't in one domain of the network",
    ),
    (
        Code.NO_ROOM,
        NO_ROOM,
        (
            "needs 4 pods of 8 cpu; 2 of 4 fit; the largest hole is 6 cpu on n7; "
            "0/5 nodes are available: 3 Insufficient cpu, "
            "2 node(s) had untolerated taint {gpu: true}"
        ),
    ),
    (
        Code.NO_ROOM,
        NO_ROOM | {"placed": 1, "role": "worker", "holes": ()},
        (
            "needs 4 pods; 1 of 4 fits; a pod of role worker needs 8 cpu; 0/5 nodes are available: "
            "3 Insufficient cpu, 2 node(s) had untolerated taint {gpu: true}"
        ),
    ),
    (
        Code.NO_ROOM,
        {
            "minimum": 1,
            "tasks": 1,
            "nodes": 1,
            "request": {"cpu": 1500, "memory": 3 * GI // 2, "nvidia.com/gpu": 2, "pods": 1},
            "refusals": ((short("memory"), 1), (short("nvidia.com/gpu"), 1)),
            "holes": (
                CPU_HOLE,
                MissingResource(resource="memory", free=GI, node="n1"),
                MissingResource(resource="nvidia.com/gpu", free=0, node="n1"),
            ),
        },
        (
            "needs 1.5 cpu, 1536Mi memory and 2 nvidia.com/gpu; no node has nvidia.com/gpu left; "
            "the largest hole is 1Gi memory on n1; 0/1 node is available: 1 Insufficient memory, "
            "1 Insufficient nvidia.com/gpu"
        ),
    ),
    (
        Code.NO_ROOM,
        NO_ROOM | {"holes": (NONE_FREE,)},
        (
            "needs 4 pods of 8 cpu; 2 of 4 fit; no node that it may use now has cpu left for the "
            "next pod; 0/5 nodes are available: 3 Insufficient cpu, "
            "2 node(s) had untolerated taint {gpu: true}"
        ),
    ),
    (
        Code.NO_ROOM,
        NO_ROOM
        | {"placed": 0, "nodes": 3, "refusals": ((short("cpu"), 3),)}
        | {"request": {"cpu": 8000, "memory": GI}}
        | {"holes": (NONE_FREE, MissingResource(resource="memory", free=0, node="n2"))},
        (
            "needs 4 pods of 8 cpu and 1Gi memory; 0 of 4 fit; no node has cpu or memory left; "
            "0/3 nodes are available: 3 Insufficient cpu"
        ),
    ),
    (
        Code.NO_ROOM,
        NO_ROOM
        | {"reserved": ReservedFor(job=JobId("lab/big@scheduling.k8s.io"), others=0, nodes=1)},
        (
            "needs 4 pods of 8 cpu; 0/5 nodes are available beside what is reserved: "
            "3 Insufficient cpu, 2 node(s) had untolerated taint {gpu: true}; "
            "room on 1 node is reserved for lab/big"
        ),
    ),
    (
        Code.NO_ROOM,
        NO_ROOM
        | {"reserved": ReservedFor(job=JobId("lab/big"), others=1, nodes=3)}
        | {"promised": PromisedStart(unknown=NoPromise.RUN_TIMES)},
        (
            "needs 4 pods of 8 cpu; 0/5 nodes are available beside what is reserved: "
            "3 Insufficient cpu, 2 node(s) had untolerated taint {gpu: true}; "
            "room on 3 nodes is reserved for lab/big and 1 more job; "
            "no start is promised: pods that run have no max-run-time"
        ),
    ),
    (
        Code.NO_ROOM,
        {"minimum": 2, "tasks": 5, "placed": 3, "nodes": 2, "request": {"pods": 1}},
        "3 of 5 pods have room; the next one needs no resources",
    ),
    (
        Code.NO_ROOM,
        {"minimum": 1, "tasks": 5, "placed": 3, "nodes": 2, "role": "ps", "request": {"cpu": 1}},
        "3 of 5 pods have room; a pod of role ps needs 0.001 cpu",
    ),
    (
        Code.WAITS_FOR_RELEASE,
        {"minimum": 4, "placed": 4},
        "waits for room that pods being deleted still hold; 4 of the 4 pods it needs have a place",
    ),
    (
        Code.WAITS_FOR_RELEASE,
        {"minimum": 2, "placed": 3, "tasks": 5},
        "waits for room that pods being deleted still hold; 3 of its 5 pods have a place",
    ),
    (Code.WAITS_FOR_VOLUMES, {"claims": claims.WAIT}, claims.TEXT),
    (Code.WAITS_FOR_DEVICES, {"claims": claims.DEVICES}, claims.DEVICES_TEXT),
    (Code.GATED, {"minimum": 3, "tasks": 2}, GATED),
    (
        Code.GATED,
        {"minimum": 3, "tasks": 2, "sub_group": {}},
        (
            "2 of 3 pods of the sub-group of policy (no name) may be placed (subGroupSize 3); "
            "the others wait behind their scheduling gates"
        ),
    ),
    (Code.POD_GROUP_ERROR, {"subject": "there is no PodGroup g"}, "there is no PodGroup g"),
    (
        Code.TOO_FEW_OF_SUB_GROUP,
        {"minimum": 4, "tasks": 1, "subject": "racks", "sub_group": {"rack": "7", "row": "b"}},
        (
            "1 of 4 pods of the sub-group with rack=7 and row=b of policy racks exist "
            "(subGroupSize 4); create 3 more"
        ),
    ),
]


@pytest.mark.parametrize(("code", "numbers", "sentence"), SENTENCES)
def test_each_reason_is_a_sentence_with_its_numbers(
    code: Code, numbers: dict[str, Any], sentence: str
) -> None:
    """Numbers in Kubernetes' spelling, singular and plural right."""
    assert sentences.sentence(Reason(code=code, queue="a", **numbers)) == sentence


def test_every_reason_has_its_sentence() -> None:
    """The table above leaves no code out."""
    assert {code for code, _, _ in SENTENCES} == set(Code)


def test_events_say_what_happened_to_a_pod() -> None:
    """Where it went, and for whom it had to go."""
    task = Task(
        uid=TaskId("u"),
        namespace="ns",
        name="p",
        job=JobId("ns/j"),
        pod_class=PodClass(request={"cpu": 2000, "pods": 1}),
        status=TaskStatus.PENDING,
        created=0.0,
    )
    evict = Evict(task=task, node="n1", action="reclaim", beneficiary=JobId("ns/needy"))
    bind = Bind(task=task, node="n1")
    assert sentences.assigned(bind) == "Successfully assigned ns/p to n1"
    gang = Job(id=task.job, uid="u", namespace="ns", name="j", queue="q", created=0.0, min_member=4)
    said = "evicted from n1 by reclaim so that ns/needy can start"
    assert sentences.evicted(evict, gang) == said
    whole = replace(evict, whole=True)
    assert sentences.evicted(whole, gang) == (
        f"{said}; its whole gang goes, and needs 4 pods, this one of 2 cpu, to run again"
    )
    half = replace(whole, action="gang", beneficiary=None)
    assert sentences.evicted(half, gang) == (
        "evicted from n1 by gang.bindTimeout, as the rest of its gang could not be bound in time; "
        "its whole gang goes, and needs 4 pods, this one of 2 cpu, to run again"
    )
    assert sentences.lost([evict]) == "1 pod evicted by reclaim so that ns/needy can start"
    lone = replace(evict, beneficiary=JobId("ns/needy@pod"))
    assert sentences.lost([lone]) == sentences.lost([evict])
    assert sentences.lost([replace(evict, beneficiary=None)] * 2) == "2 pods evicted by reclaim"


def test_a_promised_start_is_found_in_its_sentence() -> None:
    """Of the job's own, and not of one for which it waits."""
    reason = Reason(code=ReasonCode.NEVER_FITS, queue="a")
    own = replace(reason, promised=PromisedStart(at=60.0))
    assert sentences.promised_start(sentences.sentence(own)) == "1970-01-01 00:01:00 UTC"
    ahead = ReservedAhead(job=JobId("lab/a"), at=60.0, limit=60.0)
    other = replace(reason, promised=PromisedStart(ahead=ahead))
    assert sentences.promised_start(sentences.sentence(other)) == ""
