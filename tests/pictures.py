"""Pictures: a cluster in a few lines of text → the manifests that it stands for.

    node  n1 cpu=4 memory=8Gi gpu=2 label=zone=a taint=dedicated=lab:NoSchedule
    queue gold weight=1        queue lead weight=2 capability=cpu:4
    job   lead/greedy min=1 cpu=1 priority=10   n1 n1 n1 -

A statement starts with `node`, `queue` or `job` and ends where the next one starts. After a job's
settings stands one word per pod, numbered from zero (`greedy-0`, …):

    n1   runs there                    +n1  is bound there, not yet running
    -    waits                         ~n1  is being deleted there
    !    waits behind a gate           -*3  three such pods
    m:-  the same with role m; -@4  asking for 4 cpu; -^9  with pod priority 9

A picture of a cluster that can't be (names twice, nodes overfull, unknown queues) is refused.
"""

import datetime as dt
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vscheduler.mirror import quantities

KEYWORDS = ("node", "queue", "job")
NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
"""The instant of every picture; `age=` counts seconds back from the hour before it."""

BORN = NOW - dt.timedelta(hours=1)

SCHEDULER = "vscheduler"
NAMESPACE = "default"
SHORT = {"gpu": "nvidia.com/gpu"}
"""Resources with a short name in pictures."""

NODE_SETTINGS = {"label", "taint", "cordoned", "unready"}
QUEUE_SETTINGS = {
    *("weight", "priority", "state", "reclaimable", "parent", "age"),
    *("capability", "deserved", "guarantee"),
}
JOB_SETTINGS = {
    *("min", "priority", "phase", "age", "roles", "minresources", "scheduler", "preemptable"),
    *("select", "prefer", "tolerate", "port"),
}
REPEATED = {"label", "taint", "select", "prefer", "tolerate", "port"}

Document = dict[str, Any]


class ImpossibleError(ValueError):
    """The picture shows a cluster that can't exist; the message names the object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One object of a picture: its settings by name, and the words after them."""

    keyword: str
    name: str
    settings: Mapping[str, list[str]]
    pods: Sequence[str] = ()

    def one(self, setting: str, default: str = "") -> str:
        """The value of a setting that is given at most once."""
        return self.settings.get(setting, [default])[0]

    def many(self, setting: str) -> list[str]:
        """The values of a setting that may be repeated."""
        return self.settings.get(setting, [])

    def amounts(self, known: set[str]) -> dict[str, str]:
        """All settings that aren't known ones: resources."""
        return {
            SHORT.get(name, name): values[0]
            for name, values in self.settings.items()
            if name not in known
        }


WORD = re.compile(r"((?P<role>[^:]+):)?(?P<place>[^@^]+)(@(?P<cpu>[^^]+))?(\^(?P<priority>\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One pod of a job, as its word has it."""

    name: str
    role: str
    place: str
    """`-`, `!`, or a node with or without its sign."""
    request: Mapping[str, str]
    priority: str

    @classmethod
    def read(cls, name: str, word: str, request: Mapping[str, str]) -> "Word":
        """The pod `name`, which asks for what its job says where the word says nothing else."""
        found = WORD.fullmatch(word)
        if found is None:
            raise ImpossibleError(f"pod {name}: can't read {word!r}")
        return cls(
            name=name,
            role=found["role"] or "",
            place=found["place"],
            request={**request, "cpu": found["cpu"]} if found["cpu"] else request,
            priority=found["priority"] or "",
        )

    @property
    def node(self) -> str:
        """The node that it is on; empty where it waits."""
        return self.place.lstrip("-!+~")


@dataclass(slots=True)
class Drawing:
    """What the statements read so far have drawn."""

    documents: list[Document] = field(default_factory=list)
    rooms: dict[str, dict[str, int]] = field(default_factory=dict)
    """Free amounts by node, for the check that no node is overfull."""
    queues: set[str] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)
    priorities: set[int] = field(default_factory=set)


def documents(picture: str) -> list[Document]:
    """The manifests that a picture stands for; ImpossibleError when there is no such cluster."""
    drawing = Drawing()
    statements = sorted(_statements(picture), key=lambda each: KEYWORDS.index(each.keyword))
    draw = {"node": _draw_node, "queue": _draw_queue, "job": _draw_job}
    for statement in statements:
        draw[statement.keyword](drawing, statement)
    return drawing.documents


def _statements(picture: str) -> Iterator[Statement]:
    words = [word for line in picture.splitlines() for word in line.partition("#")[0].split()]
    starts = [at for at, word in enumerate(words) if word in KEYWORDS]
    if words and starts[:1] != [0]:
        raise ImpossibleError(f"a picture starts with {', '.join(KEYWORDS)}, not {words[0]!r}")
    for start, end in itertools.pairwise([*starts, len(words)]):
        keyword, *rest = words[start:end]
        if not rest:
            raise ImpossibleError(f"{keyword} without a name")
        yield _statement(keyword, rest[0], rest[1:])


def _statement(keyword: str, name: str, rest: Sequence[str]) -> Statement:
    flags = {"cordoned", "unready"} if keyword == "node" else set()
    settings: dict[str, list[str]] = {}
    pods: list[str] = []
    for word in rest:
        setting, equals, value = word.partition("=")
        if equals or setting in flags:
            if setting in settings and setting not in REPEATED:
                raise ImpossibleError(f"{keyword} {name}: {setting} is set twice")
            settings.setdefault(setting, []).append(value)
        elif keyword == "job":
            pod, _, times = word.partition("*")
            pods += [pod] * int(times or 1)
        else:
            raise ImpossibleError(f"{keyword} {name}: {word!r} is no setting")
    return Statement(keyword=keyword, name=name, settings=settings, pods=pods)


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
            "metadata": _metadata(name, labels=_pairs(statement.many("label"))),
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


def _draw_queue(drawing: Drawing, statement: Statement) -> None:
    name = statement.name
    drawn = {each["metadata"]["name"] for each in drawing.documents if each["kind"] == "Queue"}
    if name in drawn:
        raise ImpossibleError(f"queue {name}: drawn twice")
    unknown = set(statement.settings) - QUEUE_SETTINGS
    if unknown:
        raise ImpossibleError(f"queue {name}: no setting {', '.join(sorted(unknown))}")
    drawing.queues.add(name)
    spec: Document = {"weight": int(statement.one("weight", "1"))}
    spec |= {key: _listed(statement.one(key)) for key in ("capability", "deserved")}
    spec["guarantee"] = {"resource": _listed(statement.one("guarantee"))}
    spec["reclaimable"] = statement.one("reclaimable", "yes") == "yes"
    spec["priority"] = int(statement.one("priority", "0"))
    if parent := statement.one("parent"):
        spec["parent"] = parent
    drawing.documents.append(
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": _metadata(name, age=statement.one("age", "0")),
            "spec": spec,
            "status": {"state": statement.one("state", "Open")},
        }
    )


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
    if roles := _listed(statement.one("roles")):
        spec["minTaskMember"] = {role: int(count) for role, count in roles.items()}
    if least := _listed(statement.one("minresources")):
        spec["minResources"] = least
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
        "metadata": _metadata(name, namespace=NAMESPACE, age=statement.one("age", "0")),
        "spec": spec,
        "status": {"phase": statement.one("phase", "Inqueue")},
    }


def _pod(statement: Statement, word: Word) -> Document:
    group, _, index = word.name.rpartition("-")
    metadata = _metadata(word.name, namespace=NAMESPACE, age=statement.one("age", "0"))
    # The last tie-break among a job's pods is the UID, compared as text: 2 is to come before 10.
    metadata["uid"] = f"{group}-{int(index):05}"
    metadata["annotations"] = {"scheduling.k8s.io/group-name": group}
    if word.role:
        metadata["annotations"]["volcano.sh/task-spec"] = word.role
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
        "status": {"phase": phase},
    }


def _pod_spec(statement: Statement, word: Word) -> Document:
    requests = {resource: amount for resource, amount in word.request.items() if amount}
    ports = [{"containerPort": 1, "hostPort": int(port)} for port in statement.many("port")]
    spec: Document = {
        "schedulerName": statement.one("scheduler", SCHEDULER),
        "containers": [{"name": "main", "resources": {"requests": requests}, "ports": ports}],
        "nodeSelector": _pairs(statement.many("select")),
        "tolerations": [_toleration(text) for text in statement.many("tolerate")],
    }
    if preferences := [_preference(text) for text in statement.many("prefer")]:
        terms = {"preferredDuringSchedulingIgnoredDuringExecution": preferences}
        spec["affinity"] = {"nodeAffinity": terms}
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


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def _listed(text: str) -> dict[str, str]:
    """`cpu:2,gpu:1` → {"cpu": "2", "nvidia.com/gpu": "1"}."""
    pairs = (item.partition(":") for item in text.split(",") if item)
    return {SHORT.get(key, key): value for key, _, value in pairs}
