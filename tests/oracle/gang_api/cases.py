"""What PodGroups of Kubernetes' own API go through, and what either scheduler does."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sandbox import binaries
from sandbox.client import Object
from sandbox.contents import NATIVE_COMPOSITES, NATIVE_POD_GROUPS
from tests.integration import devices
from tests.oracle.gang_api import stage as stages
from tests.oracle.gang_api.stage import KUBE_SCHEDULER, NAMESPACE, RACK, Stage

KUBERNETES = binaries.KUBERNETES_VERSION.removeprefix("v")
Observation = Callable[[], str]
Steps = Callable[[Stage], Iterator[Observation]]

QUIET_SECONDS = 5.0
"""How long an expected outcome has to last. kube-scheduler tries again after a second, then after
two, and at once when something changes.
"""
PATIENCE_SECONDS = 90.0
"""How long another outcome may last before it counts."""
POLL_SECONDS = 0.2
NEAR = {"topology": [{"key": RACK}]}
TEMPLATE = {"workloadName": "w", "templateName": "t"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What happens on a cluster, and what is seen after each step."""

    title: str
    steps: Steps
    kube: Sequence[str]
    """Under kube-scheduler 1.37."""
    ours: Sequence[str]
    """Under vscheduler."""

    def expected(self, scheduler: str) -> Sequence[str]:
        """What is seen under this scheduler."""
        return self.kube if scheduler == KUBE_SCHEDULER else self.ours

    def run(self, stage: Stage, *, quiet_seconds: float = QUIET_SECONDS) -> list[str]:
        """Take the steps; return what was seen after each."""
        wanted = iter(self.expected(stage.scheduler))
        return [
            _watch(observe, next(wanted, ""), quiet_seconds=quiet_seconds)
            for observe in self.steps(stage)
        ]


def table(seen: Iterable[tuple[Case, Mapping[str, Sequence[str]]]]) -> Iterator[str]:
    """Iterate over the lines of a table in Markdown: of each case, what was seen under whom."""
    yield f"| what happens | kube-scheduler {'.'.join(KUBERNETES.split('.')[:2])} | vscheduler |"
    yield "|---|---|---|"
    for case, outcomes in seen:
        kube, ours = ("; ".join(outcomes[scheduler]) for scheduler in stages.SCHEDULERS)
        yield f"| {case.title} | {kube} | {'the same' if ours == kube else ours} |"


def expected() -> Iterator[tuple[Case, Mapping[str, Sequence[str]]]]:
    """Iterate over all cases, with what is seen as a rule."""
    for case in CASES:
        yield case, {scheduler: case.expected(scheduler) for scheduler in stages.SCHEDULERS}


def _watch(observe: Observation, expected: str, *, quiet_seconds: float) -> str:
    """Return what is seen: the expected, once it has lasted, or else what it is after a while."""
    began = time.monotonic()
    since: float | None = None
    while True:
        seen, now = observe(), time.monotonic()
        if seen != expected:
            since = None
            if now > began + PATIENCE_SECONDS:
                return seen
        elif since is None:
            since = now
        elif now > since + quiet_seconds:
            return seen
        time.sleep(POLL_SECONDS)


def pods_missing(stage: Stage) -> Iterator[Observation]:
    """A pod that a gang needs comes later."""
    stage.nodes(4)
    stage.group("g", 4)
    stage.pods("g", 3)
    yield stage.outcome
    stage.pods("g", 1, first=3)
    yield stage.outcome


def pods_first(stage: Stage) -> Iterator[Observation]:
    """Pods exist before their PodGroup."""
    stage.nodes(4)
    stage.pods("g", 2)
    yield stage.outcome
    stage.group("g", 2)
    yield stage.outcome


def deleted(stage: Stage) -> Iterator[Observation]:
    """The PodGroup of waiting pods goes, in spite of its finalizer; then there is room."""
    stage.nodes(2)
    stage.group("g", 3)
    stage.pods("g", 3)
    yield stage.outcome
    path = NATIVE_POD_GROUPS.at("g", NAMESPACE)
    stage.plane.api.delete(path)
    stage.plane.api.patch(path, {"metadata": {"finalizers": None}})
    stage.nodes(1)
    yield stage.outcome
    stage.group("g", 3)
    yield stage.outcome


def lowered(stage: Stage) -> Iterator[Observation]:
    """The minimum becomes what fits."""
    stage.nodes(3)
    stage.group("g", 5)
    stage.pods("g", 5)
    yield stage.outcome
    stage.lower("g", 3)
    yield stage.outcome


def more_than_minimum(stage: Stage) -> Iterator[Observation]:
    """Just the minimum fits; then there is room for one more pod."""
    stage.nodes(4)
    stage.group("g", 4)
    stage.pods("g", 6)
    yield stage.outcome
    stage.nodes(1)
    yield stage.outcome


def two_schedulers(stage: Stage) -> Iterator[Observation]:
    """One of the pods names another scheduler."""
    stage.nodes(4)
    stage.group("g", 3)
    stage.pods("g", 2)
    stage.pods("g", 1, first=2, schedulerName="another")
    yield stage.outcome


def other_priority(stage: Stage) -> Iterator[Observation]:
    """The pods have a PriorityClass that the PodGroup hasn't."""
    stage.nodes(4)
    stage.priority_class("high", 1000)
    stage.group("g", 2)
    stage.pods("g", 2, priorityClassName="high")
    yield stage.outcome


def failed_after_completed(stage: Stage) -> Iterator[Observation]:
    """Two indexes of a Job succeed, then the third fails."""
    stage.nodes(3)
    group = stage.job("train", 3)
    outcome = partial(stage.outcome, group)
    yield outcome
    for index, phase in enumerate(("Succeeded", "Succeeded", "Failed")):
        stage.end_index(index, phase)
    yield outcome


def evicted(stage: Stage, *, minimum: int, mode: str) -> Iterator[Observation]:
    """A pod of a higher priority needs the room of one of three pods."""
    stage.nodes(3)
    stage.priority_class("high", 1000)
    stage.group("g", minimum, disruptionMode={mode: {}})
    stage.pods("g", 3)
    yield stage.outcome
    stage.pods("", 1, priorityClassName="high")

    def both() -> str:
        alone = "runs" if stage.nodes_of("") else "waits"
        return f"{stage.outcome()}; the pod {alone}"

    yield both


def empty_label(stage: Stage) -> Iterator[Observation]:
    """A rack without a name is no domain."""
    stage.nodes(2, 2, racks=("", ""))
    stage.group("g", 2, schedulingConstraints=NEAR)
    stage.pods("g", 2)
    yield stage.outcome


def two_domains(stage: Stage) -> Iterator[Observation]:
    """Two pods run in different racks, although their PodGroup asks for one; a third waits."""
    stage.nodes(2, 2, racks=("a", "b"))
    stage.group("g", 2, schedulingConstraints=NEAR)
    stage.pods("g", 1, nodeName="node-0")
    stage.pods("g", 1, first=1, nodeName="node-1")
    stage.pods("g", 1, first=2)
    yield stage.outcome


def some_groups(stage: Stage) -> Iterator[Observation]:
    """Of three PodGroups, two are needed, and two have room."""
    stage.nodes(4)
    policy = {"gang": {"minGroupCount": 2}}
    spec: Object = {"workloadRef": TEMPLATE, "schedulingPolicy": policy}
    path = NATIVE_COMPOSITES.within(NAMESPACE)
    stage.plane.api.create(path, {"metadata": {"name": "tree"}, "spec": spec})
    for name in "abc":
        stage.group(name, 2, workloadRef=TEMPLATE, parentCompositePodGroupName="tree")
        stage.pods(name, 2)
    yield lambda: ", ".join(sorted(stage.outcome(name) for name in "abc"))


def shared_claim(stage: Stage) -> Iterator[Observation]:
    """Three pods share the claim of their PodGroup."""
    stage.nodes(4, 4)
    devices.publish(stage.plane.api, ("node-0", "node-1"), 1)
    devices.a_template(stage.plane.api, "one", devices.asked(1))
    entry = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    stage.group("g", 3, resourceClaims=entry)
    stage.pods("g", 3, resourceClaims=entry)

    def outcome() -> str:
        claims = stage.plane.api.list(devices.CLAIMS)
        users = [
            user["resource"]
            for each in claims
            for user in each.get("status", {}).get("reservedFor", ())
        ]
        places = f"nodes: {len(stage.nodes_of('g'))}; claims: {len(claims)}"
        return f"{stage.outcome()}; {places}, for {', '.join(users) or 'nobody'}"

    yield outcome


CASES = (
    Case(
        title="3 pods of minCount 4; a fourth comes",
        steps=pods_missing,
        kube=("0 of 3 (no condition)", "4 of 4 (Scheduled)"),
        ours=("0 of 3 (Unschedulable)", "4 of 4 (Scheduled)"),
    ),
    Case(
        title="pods; their PodGroup comes",
        steps=pods_first,
        kube=("0 of 2 (no PodGroup)", "2 of 2 (Scheduled)"),
        ours=("0 of 2 (no PodGroup)", "2 of 2 (Scheduled)"),
    ),
    Case(
        title="a waiting PodGroup is deleted; there is room; it comes again",
        steps=deleted,
        kube=(
            "0 of 3 (Unschedulable)",
            "0 of 3 (no PodGroup)",
            "3 of 3 (Scheduled)",
        ),
        ours=(
            "0 of 3 (Unschedulable)",
            "0 of 3 (no PodGroup)",
            "3 of 3 (Scheduled)",
        ),
    ),
    Case(
        title="minCount 5, and 3 fit; it is lowered to 3",
        steps=lowered,
        kube=("0 of 5 (Unschedulable)", "3 of 5 (Scheduled)"),
        ours=("0 of 5 (Unschedulable)", "3 of 5 (Scheduled)"),
    ),
    Case(
        title="6 pods of minCount 4, and 4 fit; there is room for a fifth",
        steps=more_than_minimum,
        kube=("4 of 6 (Scheduled)", "5 of 6 (Scheduled)"),
        ours=("4 of 6 (Scheduled)", "5 of 6 (Scheduled)"),
    ),
    Case(
        title="one of 3 pods names another scheduler",
        steps=two_schedulers,
        kube=("0 of 3 (no condition)",),
        ours=("0 of 3 (PodGroupError)",),
    ),
    Case(
        title="pods with another priority than the PodGroup",
        steps=other_priority,
        kube=("0 of 2 (SchedulerError)",),
        ours=("0 of 2 (PodGroupError)",),
    ),
    Case(
        title="a Job of 3; two indexes succeed, and the third fails",
        steps=failed_after_completed,
        kube=("3 of 3 (Scheduled)", "0 of 1 (Scheduled)"),
        ours=("3 of 3 (Scheduled)", "1 of 1 (Scheduled)"),
    ),
    Case(
        title="a gang of 3 with mode all; a pod of higher priority comes",
        steps=partial(evicted, minimum=3, mode="all"),
        kube=("3 of 3 (Scheduled)", "0 of 0 (Scheduled); the pod runs"),
        ours=("3 of 3 (Scheduled)", "0 of 0 (Scheduled); the pod runs"),
    ),
    Case(
        title="the same with mode single and minCount 2",
        steps=partial(evicted, minimum=2, mode="single"),
        kube=("3 of 3 (Scheduled)", "2 of 2 (Scheduled); the pod runs"),
        ours=("3 of 3 (Scheduled)", "2 of 2 (Scheduled); the pod runs"),
    ),
    Case(
        title="the same with mode single and minCount 3",
        steps=partial(evicted, minimum=3, mode="single"),
        kube=("3 of 3 (Scheduled)", "2 of 2 (Scheduled); the pod runs"),
        ours=("3 of 3 (Scheduled)", "0 of 0 (Scheduled); the pod runs"),
    ),
    Case(
        title="all in one rack, and the label of the nodes is empty",
        steps=empty_label,
        kube=("2 of 2 (Scheduled)",),
        ours=("0 of 2 (Unschedulable)",),
    ),
    Case(
        title="all in one rack, and 2 of 3 pods run in two",
        steps=two_domains,
        kube=("2 of 3 (SchedulerError)",),
        ours=("2 of 3 (Scheduled)",),
    ),
    Case(
        title="minGroupCount 2 of 3 PodGroups, and 2 fit",
        steps=some_groups,
        kube=("0 of 2 (Unschedulable), 2 of 2 (Scheduled), 2 of 2 (Scheduled)",),
        ours=("0 of 2 (Unschedulable), 2 of 2 (Scheduled), 2 of 2 (Scheduled)",),
    ),
    Case(
        title="3 pods share a claim of their PodGroup",
        steps=shared_claim,
        kube=("3 of 3 (Scheduled); nodes: 1; claims: 1, for podgroups",),
        ours=("3 of 3 (Scheduled); nodes: 1; claims: 1, for podgroups",),
    ),
)
