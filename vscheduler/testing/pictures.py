"""Pictures: a cluster in a few lines of text → the manifests that it stands for.

    node  n1 cpu=4 memory=8Gi gpu=2 label=zone=a taint=dedicated=lab:NoSchedule
    queue gold weight=1        queue lead weight=2 capability=cpu:4
    job   lead/greedy min=1 cpu=1 priority=10   n1 n1 n1 -

    budget calm select=app=db allowed=1        quota small cpu=4 used=cpu:2,pods:1
    hypernode r1 tier=1 called=rack nodes=n1,n2   hypernode s1 tier=2 children=r1,r2

A statement starts with one of these six words and ends where the next one starts. After a job's
settings stands one word per pod, numbered from zero (`greedy-0`, …):

    n1   runs there                    +n1  is bound there, not yet running
    -    waits                         ~n1  is being deleted there
    !    waits behind a gate           -*3  three such pods
    m:-  the same with role m; -@4  asking for 4 cpu; -^9  with pod priority 9

`subgroups=2x4`: the pods of a role are a sub-group, whole with four of them; two are needed.
`topology=hard:1` is networkTopology with highestTierAllowed, `topology=soft:rack` with the name of
a tier. A job's labels and annotations are those of its pods; `namespace=` is `default` otherwise;
`class=` is their priority class, `scheduled=` for how many seconds they have had their nodes,
`nominated=` the node that its waiting pods are nominated to. A queue's groups of nodes are written
`affinity=required:a,b|preferred:c`, `anti_required` and `anti_preferred` likewise. A HyperNode's
nodes can also be written `pattern=^r1-` or `label=rack=r1`; `called` is its tier's name. A budget
without `select` is about all pods. What pods say about other pods is in pod_terms.py.

A picture of a cluster that can't be (names twice, nodes overfull, unknown queues) is refused.
"""

import datetime as dt
from typing import Any

import msgspec

from vscheduler.mirror.decode import quantities
from vscheduler.testing import pod_terms, statements
from vscheduler.testing.statements import ImpossibleError, Statement, Word

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
"""The instant of every picture; `age=` counts seconds back from the hour before it."""

BORN = NOW - dt.timedelta(hours=1)

SCHEDULER = "vscheduler"
NAMESPACE = "default"
ROLE = "volcano.sh/task-spec"
NODE_SETTINGS = {"label", "taint", "cordoned", "unready"}
QUEUE_SETTINGS = {
    *("weight", "priority", "state", "reclaimable", "parent", "age"),
    *("capability", "deserved", "guarantee", "affinity", "label", "annotation"),
}
AFFINITIES = {
    "required": ("nodeGroupAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
    "preferred": ("nodeGroupAffinity", "preferredDuringSchedulingIgnoredDuringExecution"),
    "anti_required": ("nodeGroupAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
    "anti_preferred": ("nodeGroupAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution"),
}
"""Where a queue's groups of nodes stand, by their name in pictures."""

JOB_SETTINGS = {
    *("min", "priority", "phase", "age", "roles", "minresources", "scheduler", "preemptable"),
    *("select", "prefer", "tolerate", "port", "label", "annotation", "class", "scheduled"),
    *("subgroups", "preempts", "nominated", "namespace", "topology"),
    *pod_terms.SETTINGS,
}

HYPER_NODE_SETTINGS = {"tier", "called", "nodes", "children", "pattern", "label"}

Document = dict[str, Any]


class Drawing(msgspec.Struct):
    """What the statements read so far have drawn."""

    documents: list[Document] = msgspec.field(default_factory=list)
    rooms: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    """Free amounts by node, for the check that no node is overfull."""
    queues: set[str] = msgspec.field(default_factory=set)
    jobs: set[str] = msgspec.field(default_factory=set)
    priorities: set[int] = msgspec.field(default_factory=set)


def documents(picture: str) -> list[Document]:
    """The manifests that a picture stands for; ImpossibleError when there is no such cluster."""
    drawing = Drawing()
    found = statements.read(picture)
    draw = {
        "node": _draw_node,
        "queue": _draw_queue,
        "job": _draw_job,
        "budget": _draw_budget,
        "quota": _draw_quota,
        "hypernode": _draw_hyper_node,
    }
    for statement in sorted(found, key=lambda each: statements.KEYWORDS.index(each.keyword)):
        draw[statement.keyword](drawing, statement)
    return drawing.documents


def _draw_node(drawing: Drawing, statement: Statement) -> None:
    name = statement.name
    if name in drawing.rooms:
        raise ImpossibleError(f"node {name}: drawn twice")
    amounts = {"pods": "110"} | statement.amounts(NODE_SETTINGS)
    drawing.rooms[name] = {key: quantities.parse(key, amount) for key, amount in amounts.items()}
    spec: Document = {"taints": [_taint(taint) for taint in statement.many("taint")]}
    if "cordoned" in statement.settings:
        spec["unschedulable"] = True
    ready = "False" if "unready" in statement.settings else "True"
    drawing.documents.append(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": _metadata(name, labels=statements.pairs(statement.many("label"))),
            "spec": spec,
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": ready}],
            },
        }
    )


def _taint(text: str) -> Document:
    mark, _, effect = text.rpartition(":")
    key, _, value = mark.partition("=")
    return {"key": key, "value": value, "effect": effect}


def _check_new(drawing: Drawing, statement: Statement, kind: str) -> None:
    drawn = {
        document["metadata"]["name"] for document in drawing.documents if document["kind"] == kind
    }
    if statement.name in drawn:
        raise ImpossibleError(f"{statement.keyword} {statement.name}: drawn twice")


def _draw_queue(drawing: Drawing, statement: Statement) -> None:
    name = statement.name
    _check_new(drawing, statement, "Queue")
    unknown = set(statement.settings) - QUEUE_SETTINGS
    if unknown:
        raise ImpossibleError(f"queue {name}: no setting {', '.join(sorted(unknown))}")
    drawing.queues.add(name)
    spec: Document = {"weight": int(statement.one("weight", "1"))}
    spec |= {key: statements.amounts_of(statement.one(key)) for key in ("capability", "deserved")}
    spec["guarantee"] = {"resource": statements.amounts_of(statement.one("guarantee"))}
    spec["reclaimable"] = statement.one("reclaimable", "yes") == "yes"
    spec["priority"] = int(statement.one("priority", "0"))
    if parent := statement.one("parent"):
        spec["parent"] = parent
    if affinity := statement.one("affinity"):
        spec["affinity"] = _node_groups(affinity)
    drawing.documents.append(
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": _metadata(
                name,
                age=statement.one("age", "0"),
                labels=statements.pairs(statement.many("label")),
                annotations=statements.pairs(statement.many("annotation")),
            ),
            "spec": spec,
            "status": {"state": statement.one("state", "Open")},
        }
    )


def _node_groups(text: str) -> Document:
    affinity: Document = {}
    for part in text.split("|"):
        name, _, groups = part.partition(":")
        side, strength = AFFINITIES[name]
        affinity.setdefault(side, {})[strength] = groups.split(",")
    return affinity


def _draw_budget(drawing: Drawing, statement: Statement) -> None:
    _check_new(drawing, statement, "PodDisruptionBudget")
    if unknown := set(statement.settings) - {"select", "allowed"}:
        names = ", ".join(sorted(unknown))
        raise ImpossibleError(f"budget {statement.name}: no setting {names}")
    drawing.documents.append(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": _metadata(statement.name, namespace=NAMESPACE),
            "spec": {"selector": {"matchLabels": statements.pairs(statement.many("select"))}},
            "status": {"disruptionsAllowed": int(statement.one("allowed", "0"))},
        }
    )


def _draw_quota(drawing: Drawing, statement: Statement) -> None:
    _check_new(drawing, statement, "ResourceQuota")
    hard = statement.amounts({"used"})
    drawing.documents.append(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": _metadata(statement.name, namespace=NAMESPACE),
            "spec": {"hard": hard},
            "status": {"hard": hard, "used": statements.amounts_of(statement.one("used"))},
        }
    )


def _draw_hyper_node(drawing: Drawing, statement: Statement) -> None:
    _check_new(drawing, statement, "HyperNode")
    if unknown := set(statement.settings) - HYPER_NODE_SETTINGS:
        names = ", ".join(sorted(unknown))
        raise ImpossibleError(f"hypernode {statement.name}: no setting {names}")
    members = [
        _member(kind, {"exactMatch": {"name": name}})
        for setting, kind in (("nodes", "Node"), ("children", "HyperNode"))
        for name in filter(None, statement.one(setting).split(","))
    ]
    if pattern := statement.one("pattern"):
        members.append(_member("Node", {"regexMatch": {"pattern": pattern}}))
    if labels := statements.pairs(statement.many("label")):
        members.append(_member("Node", {"labelMatch": {"matchLabels": labels}}))
    spec = {"tier": int(statement.one("tier", "1")), "tierName": statement.one("called")}
    drawing.documents.append(
        {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": _metadata(statement.name),
            "spec": {**spec, "members": members},
        }
    )


def _member(kind: str, selector: Document) -> Document:
    return {"type": kind, "selector": selector}


def _draw_job(drawing: Drawing, statement: Statement) -> None:
    queue, _, name = statement.name.partition("/")
    if not name:
        raise ImpossibleError(f"job {statement.name}: is written queue/name")
    if name in drawing.jobs:
        raise ImpossibleError(f"job {name}: drawn twice")
    if queue not in drawing.queues and not queue.startswith("missing"):
        raise ImpossibleError(f"job {name}: no queue {queue} (call it missing… to mean it)")
    drawing.jobs.add(name)
    drawing.documents.append(_pod_group(drawing, statement, queue, name))
    request = {"cpu": "1"} | statement.amounts(JOB_SETTINGS)
    for index, text in enumerate(statement.pods):
        word = Word.read(f"{name}-{index}", text, request)
        if word.node:
            _take_room(drawing, word)
        drawing.documents.append(_pod(statement, word))


def _pod_group(drawing: Drawing, statement: Statement, queue: str, name: str) -> Document:
    spec: Document = {"queue": queue, "minMember": int(statement.one("min", "1"))}
    if roles := statements.amounts_of(statement.one("roles")):
        spec["minTaskMember"] = {role: int(count) for role, count in roles.items()}
    if least := statements.amounts_of(statement.one("minresources")):
        spec["minResources"] = least
    if sub_groups := statement.one("subgroups"):
        count, _, size = sub_groups.partition("x")
        sizes = {"minSubGroups": int(count), "subGroupSize": int(size)}
        spec["subGroupPolicy"] = [{"name": "role", "matchLabelKeys": [ROLE], **sizes}]
    if topology := statement.one("topology"):
        mode, _, tier = topology.partition(":")
        bound = {"highestTierAllowed": int(tier)} if tier.isdecimal() else {"highestTierName": tier}
        spec["networkTopology"] = {"mode": mode, **(bound if tier else {})}
    if priority := statement.one("priority"):
        spec["priorityClassName"] = f"priority-{priority}"
        if int(priority) not in drawing.priorities:
            drawing.priorities.add(int(priority))
            drawing.documents.append(
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": f"priority-{priority}"},
                    "value": int(priority),
                }
            )
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": _metadata(name, namespace=_namespace(statement), age=statement.one("age", "0")),
        "spec": spec,
        "status": {"phase": statement.one("phase", "Inqueue")},
    }


def _namespace(statement: Statement) -> str:
    return statement.one("namespace", NAMESPACE)


def _pod(statement: Statement, word: Word) -> Document:
    group, _, index = word.name.rpartition("-")
    metadata = _metadata(word.name, namespace=_namespace(statement), age=statement.one("age", "0"))
    # The last tie-break among a job's pods is the UID, compared as text: 2 is to come before 10.
    metadata["uid"] = f"{group}-{int(index):05}"
    metadata["labels"] = statements.pairs(statement.many("label"))
    metadata["annotations"] = {
        "scheduling.k8s.io/group-name": group,
        **statements.pairs(statement.many("annotation")),
    }
    if word.role:
        metadata["annotations"][ROLE] = metadata["labels"][ROLE] = word.role
    if preemptable := statement.one("preemptable"):
        metadata["annotations"]["volcano.sh/preemptable"] = preemptable
    if word.place.startswith("~"):
        metadata["deletionTimestamp"] = _written(NOW)
    phase = "Pending" if word.place[0] in "-!+" else "Running"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": _pod_spec(statement, word),
        "status": {"phase": phase} | _scheduled(statement, word) | _nominated(statement, word),
    }


def _scheduled(statement: Statement, word: Word) -> Document:
    seconds = statement.one("scheduled")
    if not (seconds and word.node):
        return {}
    since = _written(BORN - dt.timedelta(seconds=int(seconds)))
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": since}
    return {"conditions": [condition]}


def _nominated(statement: Statement, word: Word) -> Document:
    node = statement.one("nominated")
    return {"nominatedNodeName": node} if node and not word.node else {}


def _pod_spec(statement: Statement, word: Word) -> Document:
    requests = {resource: amount for resource, amount in word.request.items() if amount}
    ports = [{"containerPort": 1, "hostPort": int(port)} for port in statement.many("port")]
    spec: Document = {
        "schedulerName": statement.one("scheduler", SCHEDULER),
        "containers": [{"name": "main", "resources": {"requests": requests}, "ports": ports}],
        "nodeSelector": statements.pairs(statement.many("select")),
        "tolerations": [_toleration(text) for text in statement.many("tolerate")],
        "affinity": pod_terms.affinity(statement),
        "topologySpreadConstraints": pod_terms.spreads(statement),
    }
    if preferences := [_preference(text) for text in statement.many("prefer")]:
        terms = {"preferredDuringSchedulingIgnoredDuringExecution": preferences}
        spec["affinity"]["nodeAffinity"] = terms
    if name := statement.one("class"):
        spec["priorityClassName"] = name
    if policy := statement.one("preempts"):
        spec["preemptionPolicy"] = policy
    if word.priority:
        spec["priority"] = int(word.priority)
    if word.place == "!":
        spec["schedulingGates"] = [{"name": "example.com/gate"}]
    if word.node:
        spec["nodeName"] = word.node
    return spec


def _preference(text: str) -> Document:
    """`zone=a:50`: nodes with that label score 50 more."""
    label, _, weight = text.rpartition(":")
    key, _, value = label.partition("=")
    expression = {"key": key, "operator": "In", "values": [value]}
    return {"weight": int(weight), "preference": {"matchExpressions": [expression]}}


def _toleration(text: str) -> Document:
    mark, _, effect = text.partition(":")
    key, equals, value = mark.partition("=")
    toleration: Document = {"key": key, "operator": "Equal" if equals else "Exists"}
    if equals:
        toleration["value"] = value
    return toleration | ({"effect": effect} if effect else {})


def _take_room(drawing: Drawing, word: Word) -> None:
    room = drawing.rooms.get(word.node)
    if room is None:
        raise ImpossibleError(f"pod {word.name}: there is no node {word.node!r}")
    for name, amount in {"pods": "1", **word.request}.items():
        left = room.get(name, 0) - quantities.parse(name, amount)
        if left < 0:
            raise ImpossibleError(
                f"node {word.node}: no room for pod {word.name}, {name} is {-left} short"
            )
        room[name] = left


def _metadata(name: str, *, namespace: str = "", age: str = "0", **rest: Any) -> Document:
    created = _written(BORN - dt.timedelta(seconds=int(age)))
    metadata = {"name": name, "uid": name, "creationTimestamp": created, **rest}
    return metadata | ({"namespace": namespace} if namespace else {})


def _written(instant: dt.datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")
