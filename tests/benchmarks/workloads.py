"""Pods with constraints, one kind each, as in kube-scheduler's own benchmark (scheduler_perf).

All sizes follow from the number of nodes. Some pods run already when the scheduler starts; what is
measured are those that wait then.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sandbox.client import Client, Object
from tests import volume_manifests
from tests.benchmarks import loading
from tests.benchmarks.loading import Customer
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Collection

ZONE = volume_manifests.ZONE
HOST = volume_manifests.HOST
ZONES = 10
RUNNING, WAITING = 1, 2
"""Pods for each node: those that run already, and those that wait."""
TOO_LARGE: Mapping[str, str] = {"cpu": "64"}
"""Twice what a node has."""
QUARTER: Mapping[str, str] = {"cpu": "8"}
MOST: Mapping[str, str] = {"cpu": "24"}
"""Of a node: three quarters of it have to go."""
LOW, HIGH = "low", "high"
PRIORITIES: Mapping[str, int] = {LOW: 1, HIGH: 1000}
SECRETS = Collection(api_version="v1", kind="Secret", plural="secrets")
SERVICES = Collection(api_version="v1", kind="Service", plural="services")
ATTACHABLE = 39
"""Volumes of the CSI driver, for each node."""
DRIVER = "made.example.com"

Fields = Mapping[str, object]
"""Of a pod's spec; `labels` are those of its metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What waits, what is there already, and what happens meanwhile."""

    name: str
    waiting: Callable[[int], Fields]
    """The fields of the pod of this number."""
    running: Callable[[int], Fields] | None = None
    """The same of those that run; default: `waiting`'s."""
    stuck: Callable[[int], Fields] | None = None
    """Of pods that wait, too, and that nothing can be done for: a fifth of the nodes' number."""
    running_each: int = RUNNING
    waiting_each: float = WAITING
    prepare: Callable[[Client, Sequence[str], int], None] | None = None
    """Makes what pods refer to, given the names of the nodes, and the number of all pods."""
    evicts: bool = False
    """Whether running pods must go. Then nodes end them, and the scheduler may preempt."""
    churn: bool = False
    """Whether nodes, pods and services come and go meanwhile."""

    def sizes(self, nodes: int) -> tuple[int, int, int]:
        """How many pods run, wait, and are stuck."""
        stuck = max(1, nodes // 5) if self.stuck else 0
        return nodes * self.running_each, max(1, round(nodes * self.waiting_each)), stuck

    def pods(self, customer: Customer, nodes: Sequence[str]) -> Iterator[Object]:
        """Return the pods: those that run come first, one node after the other."""
        running, waiting, stuck = self.sizes(len(nodes))
        for number in range(running):
            fields = (self.running or self.waiting)(number)
            node = nodes[number // self.running_each]
            yield _pod(customer, "running", number, fields, node=node)
        for number in range(stuck):
            assert self.stuck is not None
            yield _pod(customer, "stuck", number, self.stuck(number))
        for number in range(running, running + waiting):
            yield _pod(customer, "waiting", number, self.waiting(number))


def _pod(customer: Customer, gang: str, number: int, fields: Fields, *, node: str = "") -> Object:
    """Return a pod with these fields."""
    spec = dict(fields)
    labels, requests = spec.pop("labels", {}), spec.pop("requests", loading.REQUESTS)
    assert isinstance(requests, Mapping)
    body = loading.pod(customer, gang, number, requests=requests, node=node)
    body["metadata"]["labels"] = labels
    body["spec"].update(spec)
    return body


def _plain(_number: int) -> Fields:
    return {}


def _colour(colour: str, **spec: object) -> Callable[[int], Fields]:
    """Return equal pods with a label."""
    return lambda _number: {"labels": {"color": colour}, **spec}


def _term(colour: str, key: str) -> Object:
    return {"labelSelector": {"matchLabels": {"color": colour}}, "topologyKey": key}


def _required(kind: str, colour: str, key: str) -> Callable[[int], Fields]:
    """Return pods that must be near each other, or apart."""
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [_term(colour, key)]}
    return _colour(colour, affinity={kind: rule})


def _preferred(kind: str, colour: str, key: str) -> Callable[[int], Fields]:
    """Return pods that would rather be near each other, or apart."""
    term = {"weight": 1, "podAffinityTerm": _term(colour, key)}
    rule = {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
    return _colour(colour, affinity={kind: rule})


def _spread(when: str) -> Callable[[int], Fields]:
    """Return pods that are spread over the zones."""
    rule = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }
    return _colour("blue", topologySpreadConstraints=[rule])


def _in_zones(*numbers: int) -> Callable[[int], Fields]:
    """Return pods for the nodes of some zones."""
    terms = volume_manifests.on_labels(ZONE, *(zone(number) for number in numbers))
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return lambda _number: {"affinity": {"nodeAffinity": rule}}


def zone(number: int) -> str:
    """Return the value of the zones' label."""
    return f"zone-{number % ZONES}"


def _with_secret(number: int) -> Fields:
    name = f"secret-{number}"
    volume = {"name": "secret", "secret": {"secretName": name}}
    return {"volumes": [volume]}


def _secrets(api: Client, _nodes: Sequence[str], pods: int) -> None:
    names = [f"secret-{number}" for number in range(pods)]
    path = SECRETS.within(loading.NAMESPACE)
    api.create_all(path, [{"metadata": {"name": name}, "data": {}} for name in names])


def _with_claim(number: int) -> Fields:
    claim = {"claimName": f"claim-{number}"}
    return {"volumes": [{"name": "data", "persistentVolumeClaim": claim}]}


def _volumes(api: Client, nodes: Sequence[str], pods: int) -> None:
    """A volume with a claim for each pod, bound to each other, of a driver with a limit a node."""
    claims, volumes = [], []
    for number in range(pods):
        source = volume_manifests.csi(f"handle-{number}", DRIVER)
        claim, volume = volume_manifests.bound(
            volume_manifests.claim(f"claim-{number}", ""),
            volume_manifests.volume(f"volume-{number}", "", source=source),
        )
        del volume["spec"]["claimRef"]["uid"]
        claims.append(claim)
        volumes.append(volume)
    limits = [volume_manifests.csi_node(name, {DRIVER: ATTACHABLE}) for name in nodes]
    api.create_all(paths.CSI_NODES.everywhere, limits)
    api.create_all(paths.VOLUMES.everywhere, volumes)
    api.create_all(paths.CLAIMS.within(loading.NAMESPACE), claims)


def _priorities(api: Client, _nodes: Sequence[str], _pods: int) -> None:
    classes = [{"metadata": {"name": name}, "value": value} for name, value in PRIORITIES.items()]
    api.create_all(paths.PRIORITY_CLASSES.everywhere, classes)


def _gated(_number: int) -> Fields:
    return {"schedulingGates": [{"name": "example.com/wait"}]}


NEAR, APART = "podAffinity", "podAntiAffinity"
KINDS: Sequence[Callable[[int], Fields]] = (
    _required(NEAR, "blue", ZONE),
    _required(APART, "green", HOST),
    _preferred(NEAR, "red", HOST),
    _preferred(APART, "yellow", HOST),
    _spread("ScheduleAnyway"),
)
"""What runs beside plain pods that wait."""

ALL = (
    Workload(name="plain pods", waiting=_plain),
    Workload(name="node affinity", waiting=_in_zones(0, 1, 2, 3, 4)),
    Workload(name="pod affinity", waiting=_required(NEAR, "blue", ZONE)),
    Workload(
        name="pod anti-affinity",
        waiting=_required(APART, "green", HOST),
        running=_plain,
        waiting_each=0.9,
    ),
    Workload(name="preferred pod affinity", waiting=_preferred(NEAR, "red", HOST)),
    Workload(name="preferred pod anti-affinity", waiting=_preferred(APART, "yellow", HOST)),
    Workload(name="topology spread", waiting=_spread("DoNotSchedule")),
    Workload(name="preferred topology spread", waiting=_spread("ScheduleAnyway")),
    Workload(
        name="plain pods beside all kinds",
        waiting=_plain,
        running=lambda number: KINDS[number % len(KINDS)](number),
        running_each=len(KINDS),
    ),
    Workload(
        name="plain pods beside pods without room",
        waiting=_plain,
        stuck=lambda _number: {"requests": TOO_LARGE},
    ),
    Workload(name="plain pods beside gated pods", waiting=_plain, stuck=_gated),
    Workload(name="plain pods, and churn", waiting=_plain, churn=True),
    Workload(name="secrets", waiting=_with_secret, prepare=_secrets),
    Workload(name="CSI volumes", waiting=_with_claim, prepare=_volumes),
    Workload(
        name="preemption",
        waiting=lambda _number: {"requests": MOST, "priorityClassName": HIGH},
        running=lambda _number: {"requests": QUARTER, "priorityClassName": LOW},
        running_each=4,
        waiting_each=0.5,
        prepare=_priorities,
        evicts=True,
    ),
)
"""Each of them has a row in docs/benchmarks.md."""
