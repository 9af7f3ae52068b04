"""What a visitor may see of a view, as the JSON that docs/page.md describes. Pure."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from vscheduler.mirror import statuses
from vscheduler.mirror.wording import phrases, plain_text
from vscheduler.model import jobs, resources
from vscheduler.model.jobs import HOLDING, JobId, PodClass, Task
from vscheduler.model.resources import ResourceSpace, Vector
from vscheduler.web import capacity
from vscheduler.web.capacity import Capacity
from vscheduler.web.cluster_view import Figure, JobRow, QueueRow, View
from vscheduler.web.history import Sample

VERSION = "v1"
"""Version of the documents; fields may be added to a version, never changed or removed."""

PAGE_MAX = 200
"""How many jobs or queues one answer has at most."""

MEMBERS_MAX = 500
"""How many pods of a job one answer has at most."""

NODES_MAX = 8
"""How many nodes of a job are named in lists."""

SHORT_MAX = 140
"""Characters of a reason in lists."""

RESOURCES_MAX = 8
"""How many resources the summary has."""

MAP_RESOURCES_MAX = 4
"""How many resources the map of nodes has."""

MAP_DRIVERS_MAX = 2
"""How many drivers of devices it has at most."""

DEVICES_OF = "devices of "
"""What the map calls the devices of a driver begins with this."""

PARTS = ("total", "ours", "others", "ending", "reserved", "closed", "free")
"""Fields of capacity.Capacity with amounts."""

Document = dict[str, Any]


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """What a visitor may see, by the permissions of the visitor's token."""

    name: str
    """User name in Kubernetes."""
    groups_in: frozenset[str] | None = frozenset()
    """Namespaces in which the visitor may list Volcano's PodGroups; None: all."""
    native_in: frozenset[str] | None = frozenset()
    """The same for Kubernetes' own."""
    pods_in: frozenset[str] | None = frozenset()
    """Namespaces in which the visitor may list pods; None: all."""
    queues: bool = False
    """Whether the visitor may list queues."""
    nodes: bool = False
    """Whether the visitor may list nodes."""
    unasked: bool = False
    """Whether there are too many namespaces to ask about each."""

    def sees(self, job: JobId) -> bool:
        """Whether the visitor may see a job, by its namespace and the API of its PodGroup."""
        inside = self.native_in if jobs.is_native(job) else self.groups_in
        if jobs.is_lone_pod(job):
            inside = self.pods_in
        return inside is None or jobs.names_of(job)[0] in inside

    @property
    def namespaces(self) -> frozenset[str] | None:
        """Namespaces with jobs that the visitor may see; None: all, of one API at least."""
        if self.groups_in is None or self.native_in is None:
            return None
        return self.groups_in | self.native_in

    @property
    def sees_places(self) -> bool:
        """Whether the visitor may know how many jobs of all namespaces wait in each queue, as the
        status of Queues tells.
        """
        return self.queues or self.groups_in is None

    def sees_pods(self, namespace: str) -> bool:
        """Whether the visitor may see names and states of pods of the namespace."""
        return self.pods_in is None or namespace in self.pods_in


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs a visitor asks for."""

    state: str = "waiting"
    """One of STATES."""
    queue: str = ""
    """This queue, and those below it."""
    namespace: str = ""
    search: str = ""
    """A part of the name of the workload, PodGroup, queue or namespace."""
    reason: str = ""
    """The code of the reason why a job waits."""
    offset: int = 0
    limit: int = 50

    def matches(self, row: JobRow, queues: Collection[str]) -> bool:
        """Whether a job is asked for, in any state and for any reason; `queues` are those asked
        for.
        """
        if self.queue and row.queue not in queues:
            return False
        if self.namespace and row.namespace != self.namespace:
            return False
        named = (row.workload, row.name, row.queue, row.namespace)
        return not self.search or any(self.search in each for each in named)


STATES = ("waiting", "running", "finished", "all")


def summary(view: View, access: Access) -> Document:
    """Return who looks, what this instance does, and how much there is."""
    counts = Counter(row.standing for row in view.job_rows if access.sees(row.key))
    return {
        "apiVersion": VERSION,
        "time": statuses.timestamp(view.time),
        "instance": {"leads": view.instance.leads, "sentence": view.instance.sentence},
        "visitor": {
            "name": plain_text.shown(access.name),
            "namespaces": None if access.namespaces is None else sorted(access.namespaces),
            "queues": access.queues,
            "nodes": access.nodes,
            "notes": notes(access),
        },
        "jobs": {name: counts[name] for name in STATES[:3]},
        "total": _amounts(view.total) if access.queues else {},
        "resources": _capacities(view) if access.queues else [],
        "versions": versions(view),
    }


def _capacities(view: View) -> list[Document]:
    """Return how much of each resource there is, the one that matters most first."""
    found = view.capacity
    if found is None:
        return []
    sums = {name: _summed(found, getattr(found, name)) for name in PARTS}
    for name, (total, held) in _device_classes(view).items():
        for part in PARTS:
            sums[part][name] = 0.0
        sums["total"][name], sums["ours"][name] = total, held
        sums["free"][name] = total - held
    names = capacity.by_concern(sums["total"], view.wanted)
    return [
        {
            "name": name,
            "wanted": amount(name, view.wanted.get(name, 0.0)),
            **{part: amount(name, sums[part][name]) for part in PARTS},
        }
        for name in names[:RESOURCES_MAX]
    ]


def _device_classes(view: View) -> Mapping[str, tuple[float, float]]:
    """Return by DeviceClass how many devices there are, and how many of them queues have.

    Nodes have no columns for devices of claims, but shares have.
    """
    found = {}
    for name, total in view.total.items():
        if name.startswith(resources.DEVICE_CLASS) and total:
            figures = (row.figures.get(name) for row in view.queue_rows if not row.inner)
            held = sum(figure.has for figure in figures if figure is not None)
            found[name] = (max(total, held), held)
    return found


def _summed(found: Capacity, amounts: Vector) -> dict[str, float]:
    return {
        name: float(each)
        for name, each in zip(found.space.names, amounts.sum(axis=0).tolist(), strict=True)
    }


def versions(view: View) -> dict[str, int]:
    """Return by section a number that changes with the section."""
    return dict(view.versions)


def notes(access: Access) -> list[str]:
    """Return what is left out, and why."""
    found = []
    if access.namespaces is not None and not access.namespaces:
        found.append("You may list PodGroups in no namespace that has jobs.")
    if access.unasked:
        found.append(
            "There are too many namespaces to ask about each; name yours when you sign in."
        )
    if not access.queues:
        found.append("Queues and places in line aren't shown: you may not list queues.")
    if not access.nodes:
        found.append("Nodes are only counted: you may not list nodes.")
    return found


def queues(view: View, access: Access, offset: int, limit: int, search: str = "") -> Document:
    """Return queues with their figures, parents before their children; `search` is a part of the
    name.
    """
    every = view.queue_rows if access.queues else ()
    shown = [row for row in every if search in row.name]
    return _page_of_queues(view, access, shown, offset, limit, _resources(every, view))


def holders(view: View, access: Access, offset: int, limit: int) -> Document:
    """Return the queues without queues below them, those first that have most of the resource that
    matters most; `holders` says how many have any of it.
    """
    every = view.queue_rows if access.queues else ()
    names = _resources(every, view)
    name = next(iter(names), resources.CPU)

    def amounts(row: QueueRow) -> tuple[float, float]:
        figure = row.figures.get(name)
        return (0.0, 0.0) if figure is None else (figure.has, figure.wants)

    leaves = sorted(
        (row for row in every if not row.inner),
        key=lambda row: (*(-each for each in amounts(row)), -row.running, -row.waiting, row.name),
    )
    made = _page_of_queues(view, access, leaves, offset, limit, names)
    return {**made, "holders": sum(amounts(row)[0] > 0 for row in leaves)}


def _page_of_queues(
    view: View,
    access: Access,
    shown: Sequence[QueueRow],
    offset: int,
    limit: int,
    names: Sequence[str],
) -> Document:
    return {
        "apiVersion": VERSION,
        "version": view.versions["queues"],
        "resources": names,
        "count": len(shown),
        "offset": offset,
        "total": _amounts(view.total) if access.queues else {},
        "queues": [_queue(each) for each in shown[offset : offset + limit]],
    }


def queue(view: View, access: Access, name: str) -> Document | None:
    """Return a queue with those right below it; None if there is none, or none to see."""
    every = view.queue_rows if access.queues else ()
    row = next((row for row in every if row.name == name), None)
    if row is None:
        return None
    above: list[str] = []
    parents = {each.name: each.parent for each in every}
    at = row.parent
    while at and at not in above:
        above.append(at)
        at = parents.get(at, "")
    below = [each for each in every if each.parent == name]
    return {
        "apiVersion": VERSION,
        "version": view.versions["queues"],
        "above": above[::-1],
        "names": _resources(every, view),
        **_queue(row),
        "below": [_queue(each) for each in below[:PAGE_MAX]],
    }


def _resources(shown: Iterable[QueueRow], view: View) -> list[str]:
    """Return the names of all resources in the figures, the one that matters most first."""
    found = {name for each in shown for name in each.figures}
    first: list[str] = []
    if view.capacity is not None:
        totals = _summed(view.capacity, view.capacity.total)
        first = [each for each in capacity.by_concern(totals, view.wanted) if each in found]
    rest = [name for name in ResourceSpace.of(found).names if name in found and name not in first]
    return [*first, *rest]


def _queue(row: QueueRow) -> Document:
    return {
        "name": row.name,
        "parent": row.parent,
        "depth": row.depth,
        "state": row.state,
        "weight": row.weight,
        "inner": row.inner,
        "share": row.share,
        "ratio": _rounded(row.ratio),
        "overShare": row.over,
        "resources": {name: _figure(name, each) for name, each in row.figures.items()},
        "jobs": {"waiting": row.waiting, "running": row.running},
        "sentence": row.sentence,
    }


def _figure(name: str, figure: Figure) -> Document:
    made: Document = {"has": amount(name, figure.has), "wants": amount(name, figure.wants)}
    if figure.reserved:
        made["reserved"] = amount(name, figure.reserved)
    if figure.deserves is not None:
        made["deserves"] = amount(name, figure.deserves)
        made["borrowed"] = amount(name, figure.borrowed)
    return made


def amount(name: str, value: float) -> Document:
    """Return an amount in cores, bytes or units, and as text."""
    number = value / 1000 if name == resources.CPU else value
    return {"value": round(number, 3), "text": phrases.figure(name, value)}


def _amounts(found: Mapping[str, float]) -> Document:
    return {name: amount(name, each) for name, each in found.items() if name != resources.PODS}


def jobs_of(view: View, access: Access, query: Query) -> Document:
    """Return a page of the jobs that are asked for and that the visitor may see."""
    below = _with_below(view, query.queue)
    seen = [row for row in view.job_rows if access.sees(row.key) and query.matches(row, below)]
    states = Counter(row.standing for row in seen)
    reasons = Counter(row.reason for row in seen if row.waits)
    found = [
        row
        for row in seen
        if query.state in {"all", row.standing} and query.reason in {"", row.reason}
    ]
    page = found[query.offset : query.offset + query.limit]
    return {
        "apiVersion": VERSION,
        "version": view.versions["jobs"],
        "count": len(found),
        "states": {name: states[name] for name in STATES[:3]},
        "reasons": [
            {"reason": reason, "jobs": count}
            for reason, count in sorted(reasons.items(), key=lambda each: (-each[1], each[0]))
        ],
        "offset": query.offset,
        "jobs": [_job(each, access) for each in page],
    }


def _with_below(view: View, name: str) -> frozenset[str]:
    """Return the queue and those below it. Rows of parents come first."""
    found = {name}
    for row in view.queue_rows:
        if row.parent in found:
            found.add(row.name)
    return frozenset(found)


def _job(row: JobRow, access: Access) -> Document:
    made: Document = {
        "workload": row.workload,
        "namespace": row.namespace,
        "podGroup": row.name,
        "queue": row.queue,
        "state": row.state,
        "pods": {"running": row.running, "minimum": row.minimum, "total": row.total},
        "created": statuses.timestamp(row.created),
        "nodes": _nodes(row, access),
        "amounts": _amounts(row.amounts),
    }
    if row.starts_at and access.sees_places:
        made["startsBy"] = statuses.timestamp(row.starts_at)
    if row.place is not None and access.sees_places:
        place = row.place
        if place.first and not access.sees(JobId(place.first)):
            place = replace(place, first="")
        made["place"] = {
            "inQueue": place.in_queue,
            "ofQueue": place.of_queue,
            "first": plain_text.shown(place.first),
            "overall": place.overall,
            "ofAll": place.of_all,
            "sentence": plain_text.shown(place.sentence),
        }
    if row.domain:
        made["domain"] = row.domain
    if row.waits:
        made["waitingSince"] = statuses.timestamp(row.since)
    if row.message:
        made |= {
            "reason": row.reason,
            "short": phrases.short(row.message, SHORT_MAX),
            "message": row.message,
        }
    return made


def _nodes(row: JobRow, access: Access) -> Document:
    made: Document = {"count": len(row.nodes), "pods": sum(pods for _, pods in row.nodes)}
    if access.nodes:
        named = row.nodes[:NODES_MAX]
        made["named"] = [{"name": plain_text.shown(name), "pods": pods} for name, pods in named]
    return made


def job(view: View, access: Access, namespace: str, name: str) -> Document | None:
    """Return a job with its pods and its history; None if there is none, or none to see."""
    key = JobId(f"{namespace}/{name}")
    if not access.sees(key):
        return None
    row = next((row for row in view.job_rows if row.key == key), None)
    if row is None:
        return None
    made = {"apiVersion": VERSION, **_job(row, access)}
    made["history"] = [
        {
            "time": statuses.timestamp(decision.time),
            "kind": str(decision.kind),
            "what": decision.text,
        }
        for decision in view.decisions
        if decision.job == key
    ]
    if access.sees_pods(namespace):
        tasks = sorted(view.by_key[key].tasks, key=lambda task: (task.index, task.name))
        made["members"] = [_member(task, access) for task in tasks[:MEMBERS_MAX]]
    return made


def _member(task: Task, access: Access) -> Document:
    node = {"node": plain_text.shown(task.node)} if task.node and access.nodes else {}
    return {"name": plain_text.shown(task.name), "status": str(task.status), **node}


def waiting(view: View, access: Access, namespace: str, name: str) -> JobRow | None:
    """Return a job that waits; None if there is none, or none to see."""
    key = JobId(f"{namespace}/{name}")
    if not access.sees(key):
        return None
    return next((row for row in view.job_rows if row.key == key and row.waits), None)


def remedies(found: Mapping[str, Any], access: Access) -> Document:
    """Return which changes would start a job, without those that concern what the visitor may not
    see; `found` is a tree of explain.wording.
    """
    every = found.get("remedies", ())
    shown = [each for each in every if _sees_change(each, access)]
    reclaim = found.get("reclaim", "") if access.queues else ""
    return {
        "apiVersion": VERSION,
        "podGroup": plain_text.shown(str(found.get("podGroup", "")).partition("/")[2]),
        "startsInCycle": found.get("startsInCycle"),
        "forAdmission": bool(found.get("forAdmission")),
        "reclaim": plain_text.shown(reclaim),
        "domains": [plain_text.shown(str(each)) for each in found.get("domains", ())],
        "likelyStart": plain_text.shown(str(found.get("likelyStart", {}).get("message", ""))),
        "remedies": [
            {
                "change": each["change"],
                "message": plain_text.shown(_message(each, access)),
                "startsInCycle": each["startsInCycle"],
                "evictions": each["evictions"],
                "minimal": each["minimal"],
            }
            for each in shown
        ],
        "notEnough": plain_text.shown(found.get("notEnough", "") if access.queues else ""),
        "hidden": len(every) - len(shown),
        "cutShort": list(found.get("cutShort", ())),
        "untried": [plain_text.shown(str(each)) for each in found.get("untried", ())],
    }


def what_if(found: Mapping[str, Any]) -> Document:
    """Return what other settings of a queue would do; `found` is a tree of explain.what_if."""
    losses = {
        name: [
            {**each, "job": plain_text.shown(each["job"]), "for": plain_text.shown(each["for"])}
            for each in found[name][:PAGE_MAX]
        ]
        for name in ("evicted", "spared")
    }
    return {
        "apiVersion": VERSION,
        "changes": [plain_text.shown(each) for each in found["changes"]],
        "deserved": found["deserved"][:PAGE_MAX],
        **losses,
        "starts": [plain_text.shown(each) for each in found["starts"][:PAGE_MAX]],
        "stops": [plain_text.shown(each) for each in found["stops"][:PAGE_MAX]],
        "settled": found["settled"],
        "lines": [plain_text.shown(each) for each in found["lines"][:PAGE_MAX]],
    }


OWN_CHANGES = frozenset(
    {
        *("FewerPods", "SmallerRequest", "Tolerate"),
        *("WithoutSelector", "WithoutNodeAffinity", "ActionArgument"),
        *("HonorTaints", "MayPreempt", "PodPriorities", "OneScheduler"),
        *("CreatePods", "MarkPods", "RemoveGates", "CreateClaims", "QuotaAmounts"),
        *(
            "DropAnnotation",
            "RunTime",
            "HigherPriority",
            "SoftTopology",
            "HigherTier",
            "WithoutConstraints",
            "EndOfPatience",
            "Restart",
        ),
    }
)
NODE_CHANGES = frozenset({"MoreNodes", "LargerNodes", "RemoveTaint", "Uncordon", "LabelNodes"})
QUEUE_CHANGES = frozenset(
    {
        *("QueueWeight", "QueueAmounts", "Reclaimable", "OpenQueues", "CreateQueue"),
        *("OtherQueue", "OtherParent", "QueueNamespace", "WithoutQueueAnnotation"),
    }
)


def _sees_change(change: Mapping[str, Any], access: Access) -> bool:
    """Whether the visitor may see all that the sentence of a change names."""
    kind = change["change"]
    if kind in OWN_CHANGES:
        return True
    if kind in NODE_CHANGES:
        return access.nodes
    if kind in QUEUE_CHANGES:
        return access.queues
    if kind == "MoreDisruptions":
        return access.sees_pods(str(change["budget"]).partition("/")[0])
    return "job" in change and access.sees(JobId(str(change["job"])))


def _message(change: Mapping[str, Any], access: Access) -> str:
    """Return the sentence of a change, without the jobs that lose pods if any is hidden."""
    named = all(access.sees(JobId(str(each["job"]))) for each in change["evicted"])
    return str(change["message" if named else "messageWithoutVictims"])


Holdings = Mapping[str, Mapping[JobId, tuple[int, Vector]]]
"""By node and job how many of its pods are there, and what they hold."""


def holdings(view: View) -> Holdings:
    """Return what the jobs of a view hold on each node."""
    found: defaultdict[str, dict[JobId, tuple[int, Vector]]] = defaultdict(dict)
    if view.capacity is None:
        return found
    placed = (
        (key, task, task.node)
        for key, each in view.by_key.items()
        for task in each.tasks
        if task.node and task.status in HOLDING
    )
    bound = ((bind.task.job, bind.task, bind.node) for bind in view.binds)
    counts: Counter[tuple[str, JobId, PodClass]] = Counter()
    for key, task, node in (*placed, *bound):
        counts[node, key, task.pod_class] += 1
    for (node, key, pod_class), count in counts.items():
        pods, held = found[node].get(key, (0, 0))
        more = count * view.capacity.space.present(pod_class.request)
        found[node][key] = (pods + count, held + more)
    return found


def nodes(view: View, access: Access, held: Holdings) -> Document:
    """Return the nodes in columns, with amounts of the resources that matter most, devices of
    drivers first, and the jobs on them that the visitor may see.
    """
    made: Document = {"apiVersion": VERSION, "version": view.versions["nodes"]}
    found = view.capacity
    if found is None or not access.nodes:
        return {**made, "resources": [], "nodes": [], "jobs": []}
    totals = _summed(found, found.total)
    devices, drivers = found.devices, found.devices.drivers[:MAP_DRIVERS_MAX]
    names = capacity.by_concern(totals, view.wanted)[: MAP_RESOURCES_MAX - len(drivers)]
    columns = [found.space.columns[name] for name in names]
    rows = {row.key: row for row in view.job_rows if row.nodes and access.sees(row.key)}
    index: dict[JobId, int] = {}

    def jobs_on(node: str) -> list[list[Any]]:
        listed = []
        for key, (pods, has) in held.get(node, {}).items():
            if key in rows:
                at = index.setdefault(key, len(index))
                own = devices.held.get(node, {}).get(key, (0,) * len(drivers))[: len(drivers)]
                listed.append([at, pods, *own, *_values(names, has[np.newaxis, columns])[0]])
        return listed

    none = (0,) * len(drivers)
    amounts = {
        part: [
            [*(devices.parts[part][row][: len(drivers)] if part in devices.parts else none), *each]
            for row, each in enumerate(_values(names, getattr(found, part)[:, columns]))
        ]
        for part in PARTS
    }
    listed = [
        {
            "name": plain_text.shown(spec.name),
            **({"domain": plain_text.shown(domain)} if domain else {}),
            **({"problem": plain_text.shown(problem)} if problem else {}),
            **{part: amounts[part][row] for part in PARTS},
            "jobs": jobs_on(spec.name),
        }
        for row, (spec, domain, problem) in enumerate(
            zip(found.specs, found.domains, found.problems, strict=True)
        )
    ]
    return {
        **made,
        "resources": [*(f"{DEVICES_OF}{driver}" for driver in drivers), *names],
        "nodes": listed,
        "jobs": [_named(rows[key]) for key in index],
    }


def _named(row: JobRow) -> Document:
    return {
        "workload": row.workload,
        "namespace": row.namespace,
        "podGroup": row.name,
        "queue": row.queue,
    }


def _values(names: Sequence[str], amounts: Vector) -> list[list[float]]:
    """Return amounts (N, R) in cores, bytes or units."""
    found: list[list[float]] = amounts.tolist()
    if resources.CPU in names:
        at = names.index(resources.CPU)
        for row in found:
            row[at] /= 1000
    return found


def decisions(view: View, access: Access, limit: int) -> Document:
    """Return recent decisions about jobs that the visitor may see, the latest first."""
    seen = [decision for decision in view.decisions if access.sees(decision.job)]
    return {
        "apiVersion": VERSION,
        "version": view.versions["decisions"],
        "decisions": [
            {
                "time": statuses.timestamp(each.time),
                "kind": str(each.kind),
                "namespace": each.job.partition("/")[0],
                "podGroup": each.job.partition("/")[2],
                "what": each.text,
            }
            for each in seen[:limit]
        ],
    }


def fairness(view: View, access: Access, wanted: Collection[str] = ()) -> Document:
    """Return the shares of queues over the last hour; of those with the largest without a wish."""
    samples = view.samples if access.queues else ()
    names = _largest(samples, wanted)
    return {
        "apiVersion": VERSION,
        "version": view.versions["fairness"],
        "times": [round(sample.time) for sample in samples],
        "now": {row.name: _rounded(row.ratio) for row in view.queue_rows if row.name in names}
        if access.queues
        else {},
        "queues": [
            {
                "name": plain_text.shown(name),
                "shares": [_rounded(sample.shares.get(name)) for sample in samples],
            }
            for name in names
        ],
        "count": len({name for sample in samples[-1:] for name in sample.shares}),
    }


LINES_MAX = 6
"""How many queues have lines in the chart of fairness: more can't be told apart."""


def _largest(samples: Sequence[Sample], wanted: Collection[str]) -> list[str]:
    """Return the wanted queues, else those farthest from what they deserve, by name."""
    last = samples[-1].shares if samples else {}
    if wanted:
        return sorted(name for name in set(wanted) if name in last)[:LINES_MAX]
    far = sorted(last, key=lambda name: (-abs(last[name] - 1.0), name))
    return sorted(far[:LINES_MAX])


def _rounded(share: float | None) -> float | None:
    """Return a share as JSON: infinite shares, of queues that deserve nothing, are null."""
    return round(share, 3) if share is not None and share < 1e9 else None
