"""What would start a job, for clusters drawn as pictures and for the demo's manifests."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from sandbox.contents import NodeShape
from sandbox.demo import demo_view
from tests import running
from vscheduler.core import actions, compat, plugins
from vscheduler.core.api.contracts import FilterResult, NodeView, Plugin
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.api.views import JobState
from vscheduler.core.config import policy
from vscheduler.explain import remedies, turns, wording
from vscheduler.explain.remedies import Explanation, NotWaitingError
from vscheduler.model.jobs import PodClass, Task
from vscheduler.model.nodes import NodeLayout
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures

ACTIONS = "enqueue, allocate, backfill, reclaim"
CUT = "fewer pods, smaller pods, weights, more nodes and forbidden evictions"
WHY = "needs 8 cpu for 4 pods; queue robotics has 24 cpu of the 25 it deserves, which leaves 1"
OVERRUN = 200_000
"""The last cycle may take a little more than is left: it ends between two jobs."""

BATCH = "scheduling.volcano.sh/v1beta1"


def explained(
    documents: Sequence[Mapping[str, Any]], job: str, *, tiers: str = running.STANDARD
) -> Explanation:
    """The explanation of a job in a cluster of these manifests."""
    chosen = running.policy_of({"actions": ACTIONS, "tiers": running.tiers(tiers)})
    return remedies.explain(run.read(documents, chosen, Options()), chosen, job)


def sentences(picture: str, **how: str) -> list[str]:
    """The remedies of job `late` in a picture."""
    found = explained(pictures.documents(picture), "default/late", **how)
    assert found.cut == ()
    assert found.starts is None
    return [wording.sentence(remedy) for remedy in found.remedies]


RUN_TIME = "annotation=vscheduler.io/max-run-time"
BACKFILL = {
    "actions": "enqueue, allocate, backfill",
    "tiers": running.tiers(running.STANDARD),
    "configurations": [{"name": "allocate", "arguments": {"allocate.backfill": "easy"}}],
}


@pytest.mark.parametrize("late", ["late", f"late {RUN_TIME}=11m"])
def test_a_shorter_run_time_lets_a_job_go_ahead(late: str) -> None:
    """It ends before the nodes are needed. A higher priority takes no node that is reserved."""
    picture = f"""
        node  n1 cpu=2   node n2 cpu=2
        queue q
        job   q/busy scheduled=600 {RUN_TIME}=20m n1 n2
        job   q/big min=4 age=50 - - - -
        job   q/{late} age=40 -
        """
    chosen = running.policy_of(BACKFILL)
    given = run.read(pictures.documents(picture), chosen, Options())
    found = remedies.explain(given, chosen, "default/late")
    assert [wording.sentence(remedy) for remedy in found.remedies] == [
        "set vscheduler.io/max-run-time: 9m or less on the PodGroup, if its pods end by then",
        "add 2 more nodes like n1 (2 cpu)",
    ]


@pytest.mark.parametrize(
    ("left", "below"), [(600, 540), (7200, 6600), (86_400, 82_800), (100, 90), (59, 0)]
)
def test_run_times_leave_time_to_set_them(left: float, below: int) -> None:
    """The time until the nodes are needed gets shorter while somebody edits."""
    assert turns.below(left) == below


def _demo() -> list[dict[str, Any]]:
    """The nodes, queues and gangs of the demo."""
    shape = NodeShape(prefix="worker", cpu=str(demo_view.WORKER_CPU))
    found = [shape.node(number) for number in range(demo_view.WORKERS)]
    found += [
        {"apiVersion": BATCH, "kind": "Queue", **demo_view.queue(tenant)}
        for tenant in demo_view.TENANTS
    ]
    for gang in (*demo_view.FITTING, *demo_view.WAITING):
        group = {"apiVersion": BATCH, "kind": "PodGroup", **gang.pod_group()}
        pods = [{"apiVersion": "v1", "kind": "Pod", **member} for member in gang.members()]
        for each in (group, *pods):
            each["metadata"]["namespace"] = gang.tenant
            found.append(each)
    return found


def test_the_gang_of_the_demo_has_four_remedies() -> None:
    """`robotics/too-much` lacks 8 cpu, and its queue may have 1, as others start before it."""
    found = explained(_demo(), "robotics/too-much")
    assert wording.lines(found) == [
        f"robotics/too-much, in queue robotics, waits: {WHY}",
        "Any one of these changes would start it:",
        "  - let its pods ask for 0.2 cpu instead of 2",
        "  - give the PodGroup a PriorityClass of value 1 instead of 0",
        "  - raise the weight of queue robotics from 1 to 2",
        "  - add 1 more node like worker-0 (15 cpu and 128Gi memory)",
    ]
    assert all(remedy.minimal is not False for remedy in found.remedies)


RECLAIMED = (
    "set reclaimable: true on queue {queue}; 2 pods of job default/{job} in queue {queue} would be "
    "evicted for it"
)

SCENES = {
    "too few nodes": (
        """
        node n1 cpu=4   queue q
        job q/busy min=1 n1 n1
        job q/late min=3 - - -
        """,
        [
            "lower minMember from 3 to 2, if the job can do with 2 pods",
            "add 1 more node like n1 (4 cpu)",
        ],
    ),
    "a taint": (
        """
        node n1 cpu=1   node n2 cpu=4 taint=dedicated=lab:NoSchedule   queue q
        job q/late min=2 - -
        """,
        [
            "let its pods tolerate dedicated=lab:NoSchedule, a taint of 1 node",
            "remove the taint dedicated=lab:NoSchedule from n2",
        ],
    ),
    "a label": (
        """
        node n1 cpu=4   queue q
        job q/late min=2 select=zone=a - -
        """,
        [
            "drop zone=a from the nodeSelector of its pods",
            "label n1 with zone=a",
        ],
    ),
    "a job of the same priority before it": (
        """
        node n1 cpu=2   queue q
        job q/first min=2 age=9 - -
        job q/late min=1 -
        """,
        [
            "give the PodGroup a PriorityClass of value 1 instead of 0",
            "add 1 more node like n1 (2 cpu)",
        ],
    ),
    "a cordon": (
        """
        node n1 cpu=1   node n2 cpu=4 cordoned   queue q
        job q/late min=2 - -
        """,
        ["uncordon n2"],
    ),
    "a tainted node that counts for spread": (
        """
        node n1 cpu=4 label=zone=a   node n2 cpu=4 label=zone=b taint=control=x:NoSchedule
        queue q   job q/late min=2 label=app=late spread=app=late@zone:1 - -
        """,
        ["set nodeTaintsPolicy: Honor in the topology spread of its pods"],
    ),
    "a capability": (
        """
        node n1 cpu=8   queue q capability=cpu:3
        job q/late min=2 cpu=2 - -
        """,
        ["raise the capability of queue q: cpu from 3 to 4"],
    ),
    "a queue that gives nothing back": (
        """
        node n1 cpu=4   queue q   queue r reclaimable=false
        job r/busy min=1 n1 n1 n1 n1
        job q/late min=2 - -
        """,
        [RECLAIMED.format(queue="r", job="busy")],
    ),
}


@pytest.mark.parametrize(("picture", "expected"), SCENES.values(), ids=SCENES)
def test_the_obvious_remedy_is_among_those_shown(picture: str, expected: list[str]) -> None:
    """What a person would say on seeing the picture."""
    found = sentences(picture)
    assert [each for each in expected if each not in found] == [], found


EVICTED = (
    "set reclaimable: true on queue r; 5 pods would be evicted for it: 1 of job default/b5 in "
    "queue r, 1 of job default/b6 in queue r, 1 of job default/b7 in queue r and 2 of 2 more jobs"
)


def test_the_jobs_that_lose_pods_are_named() -> None:
    """With their queues and how many pods; of many jobs the first are named, and all in JSON."""
    busy = "\n".join(f"job r/b{number} min=1 n1" for number in range(1, 11))
    picture = f"node n1 cpu=10 queue q queue r reclaimable=false\n{busy}\njob q/late min=5 -*5"
    found = explained(pictures.documents(picture), "default/late")
    (remedy,) = (remedy for remedy in found.remedies if remedy.victims)
    assert wording.sentence(remedy) == EVICTED
    (shown,) = (each for each in wording.tree(found)["remedies"] if each["evictions"])
    assert shown["messageWithoutVictims"] == EVICTED.partition(": 1 of")[0]
    assert shown["evictions"] == 5
    assert shown["evicted"] == [
        {"job": f"default/b{number}", "queue": "r", "pods": 1} for number in (5, 6, 7, 8, 9)
    ]


def test_pods_that_are_evicted_anyway_are_not_evicted_for_the_change() -> None:
    """Job `next` gets a pod of `busy` in any case; `late` may only use the other node."""
    documents = pictures.documents(
        """
        node n1 cpu=4   node n2 cpu=4 label=zone=a
        queue p   queue q   queue r   queue s reclaimable=false
        job r/busy min=1 n1 n1 n1 n1
        job s/kept min=1 n2 n2 n2 n2
        job p/next min=1 select=zone=b -
        job q/late min=2 select=zone=a - -
        """
    )
    node = next(document for document in documents if document["metadata"]["name"] == "n1")
    node["metadata"]["labels"]["zone"] = "b"
    found = explained(documents, "default/late")
    assert [wording.sentence(remedy) for remedy in found.remedies if remedy.victims] == [
        RECLAIMED.format(queue="s", job="kept")
    ]


def test_the_end_of_the_smallest_job_that_suffices() -> None:
    """Not the smallest one, which holds too little."""
    found = sentences(
        """
        node n1 cpu=7   queue q
        job q/tiny  min=1 cpu=1 n1
        job q/small min=1 cpu=2 n1
        job q/large min=1 cpu=4 n1
        job q/late  min=2 cpu=1 - -
        """
    )
    ends = [each for each in found if each.startswith("wait for the end")]
    assert ends == ["wait for the end of job default/small, or end it: its 1 pod holds 2 cpu"]


def test_a_job_that_starts_anyway_needs_no_remedy() -> None:
    """The cycle is told instead."""
    found = explained(
        pictures.documents("node n1 cpu=4   queue q   job q/late min=2 - -"), "default/late"
    )
    assert (found.starts, found.remedies) == (1, ())
    assert wording.lines(found) == [
        "default/late, in queue q, starts in cycle 1 if nothing changes"
    ]


def test_no_start_is_promised_behind_a_terminating_pod() -> None:
    """The pod may have a finalizer, or its node may be gone."""
    picture = "node n1 cpu=4   queue q   job q/gone min=0 ~n1@4   job q/late min=1 cpu=4 -"
    found = explained(pictures.documents(picture), "default/late")
    assert (found.starts, found.remedies) == (2, ())
    (line,) = wording.lines(found)
    start = "default/late, in queue q, can start in cycle 2 at the earliest; now: "
    assert line.startswith(start)
    assert "waits for room that pods being deleted still hold" in line


class Reserved(Plugin):
    """A plugin that isn't built in, and refuses all nodes."""

    name = "reserved"

    @depends_on(On.NOTHING)
    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> None:
        """Return None: empty nodes take any pod."""
        del pod_class, layout

    def filter_nodes(self, task: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """Refuse them."""
        del task
        return [FilterResult("node(s) were reserved", np.zeros(nodes.size, dtype=np.bool_))]


class Deadlines(Plugin):
    """A plugin that isn't built in, and refuses a job for an annotation of its PodGroup."""

    name = "deadlines"

    def job_valid(self, state: JobState) -> str | None:
        """Say which annotation."""
        late = "acme.io/deadline" in state.job.annotations
        return "acme.io/deadline is past" if late else None


def explained_beside(plugin: type[Plugin], documents: Sequence[Mapping[str, Any]]) -> Explanation:
    """The explanation of job `late` with one plugin more."""
    parsed = policy.parse(
        {"actions": ACTIONS, "tiers": running.tiers(f"{running.STANDARD} {plugin.name}")},
        (*plugins.PLUGINS, plugin),
        actions.ACTIONS,
        compat.VOLCANO,
    )
    assert parsed.policy is not None
    given = run.read(documents, parsed.policy, Options())
    return remedies.explain(given, parsed.policy, "default/late")


def test_an_annotation_that_a_plugin_names_is_tried() -> None:
    """The job would start without it."""
    documents = pictures.documents("node n1 cpu=4   queue q   job q/late min=1 -")
    _object(documents, "PodGroup", "late")["metadata"]["annotations"] = {"acme.io/deadline": "now"}
    found = explained_beside(Deadlines, documents)
    said = [wording.sentence(remedy) for remedy in found.remedies]
    assert said == ["drop the annotation acme.io/deadline of the PodGroup, or correct it"]


def test_refusals_of_other_plugins_are_named_as_not_tried() -> None:
    """Only the author of a plugin knows what would help."""
    documents = pictures.documents("node n1 cpu=4   queue q   job q/late min=2 - -")
    found = explained_beside(Reserved, documents)
    assert wording.remedy_lines(found)[-1] == (
        'Not tried: what would let nodes pass a filter of your own ("node(s) were reserved").'
    )
    assert wording.tree(found)["untried"] == ["node(s) were reserved"]


PICTURE = """
node n1 cpu=4   queue q
job q/late min=2 - -
"""

Documents = list[dict[str, Any]]


def _object(documents: Documents, kind: str, name: str) -> dict[str, Any]:
    return next(
        document
        for document in documents
        if (document["kind"], document["metadata"]["name"]) == (kind, name)
    )


def _close(documents: Documents) -> None:
    _object(documents, "Queue", "q")["status"] = {"state": "Closed"}


def _close_above(documents: Documents) -> None:
    parent = {**_object(documents, "Queue", "q"), "metadata": {"name": "org"}}
    documents.append({**parent, "status": {"state": "Closed"}})
    _object(documents, "Queue", "q")["spec"]["parent"] = "org"


def _forget_queue(documents: Documents) -> None:
    documents.remove(_object(documents, "Queue", "q"))


def _bar(documents: Documents) -> None:
    _object(documents, "Queue", "q")["metadata"]["annotations"] = {
        "vscheduler.io/namespaces": "team-a"
    }


def _name_a_claim(documents: Documents) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    for document in documents:
        if document["kind"] == "Pod":
            document["spec"]["volumes"] = [volume]


def _gate(documents: Documents) -> None:
    for document in documents:
        if document["kind"] == "Pod":
            document["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]


def _lose_a_pod(documents: Documents) -> None:
    documents.remove(_object(documents, "Pod", "late-1"))


def _ask_for_roles(documents: Documents) -> None:
    spec = _object(documents, "PodGroup", "late")["spec"]
    spec["minTaskMember"] = {"head": 1, "worker": 1}
    notes = _object(documents, "Pod", "late-0")["metadata"]["annotations"]
    notes["volcano.sh/task-spec"] = "head"


def _ask_for_sub_groups(documents: Documents) -> None:
    policy = {"name": "ring", "subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": ["ring"]}
    _object(documents, "PodGroup", "late")["spec"]["subGroupPolicy"] = [policy]


def _ask_for_more(documents: Documents) -> None:
    for document in documents:
        if document["kind"] == "Pod":
            document["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "6"


NAMED = {
    "a closed queue": (_close, ["open queue q", "name queue default instead of q in spec.queue"]),
    "a closed parent": (_close_above, ["open queue org"]),
    "no queue": (
        _forget_queue,
        ["create queue q", "name queue default instead of q in spec.queue"],
    ),
    "another namespace": (
        _bar,
        ["let vscheduler.io/namespaces of queue q list namespace default"],
    ),
    "no claim": (
        _name_a_claim,
        ["create PersistentVolumeClaim default/data (tried with a volume that every node can use)"],
    ),
    "gates": (_gate, ["remove the scheduling gates of 2 pods"]),
    "a pod too few": (
        _lose_a_pod,
        ["create 1 more pod", "lower minMember from 2 to 1, if the job can do with 1 pod"],
    ),
    "a pod without a role": (
        _ask_for_roles,
        ["set volcano.sh/task-spec to worker on 1 of its pods", "create 1 more pod of role worker"],
    ),
    "pods without a sub-group": (_ask_for_sub_groups, ["set ring to new-1 on 2 of its pods"]),
    "pods that are too large": (_ask_for_more, ["add 2 nodes like n1 with 6 cpu"]),
}


@pytest.mark.parametrize(("hinder", "expected"), NAMED.values(), ids=NAMED)
def test_each_change_that_the_reason_names_is_tried(
    hinder: Callable[[Documents], None], expected: list[str]
) -> None:
    """What helps is never denied."""
    documents = pictures.documents(PICTURE)
    hinder(documents)
    found = explained(documents, "default/late")
    assert found.starts is None
    shown = [wording.sentence(remedy) for remedy in found.remedies]
    assert [each for each in expected if each not in shown] == [], shown


def test_what_has_to_be_done_first_is_said_with_what_follows() -> None:
    """The reason asks for a queue; the gang would wait in it, too, so no single change helps."""
    documents = pictures.documents(
        """
        node n1 cpu=8   queue q
        job q/late min=3 cpu=7 - - -
        """
    )
    _forget_queue(documents)
    found = explained(documents, "default/late")
    assert found.remedies == ()
    *_, line = wording.remedy_lines(found)
    first = "It isn't enough to create queue q: after that, the nodes that it may use have room for"
    assert line.startswith(first)
    assert wording.tree(found)["notEnough"] == line.removeprefix("It isn't enough to ")[:-1]


def test_an_owner_is_to_create_the_pods_that_are_missing() -> None:
    """Not the user, who would make pods that nobody keeps."""
    documents = pictures.documents(PICTURE)
    _lose_a_pod(documents)
    _object(documents, "PodGroup", "late")["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    ]
    found = explained(documents, "default/late")
    shown = [wording.sentence(remedy) for remedy in found.remedies]
    assert shown == [
        "let job/train create 1 more pod",
        "lower minMember from 2 to 1, if the job can do with 1 pod",
    ]


def test_a_group_without_pods_is_explained_by_its_admission() -> None:
    """Its owner creates the pods once it is admitted, so this is what the trials look for."""
    documents = pictures.documents(
        """
        node n1 cpu=8   queue q capability=cpu:3
        job q/late min=2 - -
        """
    )
    group = _object(documents, "PodGroup", "late")
    group["metadata"]["annotations"] = {"scheduling.volcano.sh/scheduler-name": "vscheduler"}
    group["spec"]["minResources"] = {"cpu": "4"}
    group.pop("status", None)
    without = [
        document
        for document in documents
        if document["kind"] != "Pod" or not document["metadata"]["name"].startswith("late")
    ]
    found = explained(without, "default/late")
    assert found.for_admission
    assert [line for line in wording.remedy_lines(found) if "minMember" not in line] == [
        "Any one of these changes would have it admitted; its owner creates its pods then:",
        "  - raise the capability of queue q: cpu from 3 to 4",
    ]
    group["status"] = {"phase": "Inqueue"}
    found = explained(without, "default/late")
    assert wording.remedy_lines(found) == [
        "None of its pods exist: create 2 pods, or see why their owner doesn't."
    ]
    group["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "late", "uid": "u"}
    ]
    said = "vcjob/late creates them, unless it is suspended or waits for the job to be admitted"
    found = explained(without, "default/late")
    assert wording.remedy_lines(found) == [f"None of its pods exist: {said}."]


def test_a_gang_that_lost_a_pod_has_no_waiting_pod() -> None:
    """One pod of two has failed, and nobody replaces it."""
    documents = pictures.documents("node n1 cpu=4   queue q   job q/late min=2 n1 n1")
    _object(documents, "Pod", "late-1")["status"] = {"phase": "Failed"}
    assert [
        wording.sentence(remedy) for remedy in explained(documents, "default/late").remedies
    ] == [
        "create 1 more pod",
        "lower minMember from 2 to 1, if the job can do with 1 pod",
    ]


def test_the_only_job_with_a_name_needs_no_namespace() -> None:
    """With two of them, nobody knows which is meant."""
    one = pictures.documents("node n1 cpu=4 queue q job q/late min=1 cpu=9 -")
    assert explained(one, "late") == explained(one, "default/late")
    other = pictures.documents("queue q job q/late namespace=lab min=1 cpu=9 -")[1:]
    with pytest.raises(NotWaitingError, match="these wait: default/late and lab/late"):
        explained([*one, *other], "late")


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ("none", "'none' isn't the namespace/name of a PodGroup; these wait: default/late"),
        ("default/none", "there is no PodGroup default/none; these wait: default/late"),
        ("busy", "PodGroup default/busy doesn't wait: 1 of the 1 pods it needs have a node"),
        (
            "default/busy",
            "PodGroup default/busy doesn't wait: 1 of the 1 pods it needs have a node",
        ),
    ],
)
def test_a_job_that_does_not_wait_is_an_error(job: str, message: str) -> None:
    """It says what is wrong."""
    documents = pictures.documents(
        "node n1 cpu=4   queue q   job q/busy min=1 n1   job q/late min=1 cpu=9 -"
    )
    with pytest.raises(NotWaitingError, match=message):
        explained(documents, job)


def test_a_podgroup_that_cannot_be_used_is_not_called_missing() -> None:
    """Whoever asks for it learns why."""
    documents = pictures.documents("node n1 cpu=4   queue q   job q/late min=1 -")
    _object(documents, "PodGroup", "late")["spec"]["minResources"] = {"cpu": "much"}
    message = "PodGroup default/late can't be used \\(spec.minResources.cpu: 'much' is not"
    with pytest.raises(NotWaitingError, match=message):
        explained(documents, "default/late")


def test_a_hostile_job_stays_within_the_budget() -> None:
    """A thousand pod classes with a thousand selectors."""
    documents = pictures.documents("node n1 cpu=4   queue q   job q/late min=1000 -*1000")
    pods = [document for document in documents if document["kind"] == "Pod"]
    for number, pod in enumerate(pods):
        requests = {"cpu": f"{number + 1}m", "memory": str(number + 1)}
        pod["spec"]["containers"][0]["resources"]["requests"] = requests
        pod["spec"]["nodeSelector"] = {f"key-{number}": "value"}
    found = explained(documents, "default/late")
    assert found.spent < remedies.BUDGET + OVERRUN
    assert found.remedies == ()


def test_a_budget_that_is_too_small_is_told_of() -> None:
    """Nothing is shown that isn't verified."""
    documents = pictures.documents("node n1 cpu=4   queue q   job q/late min=5 -*5")
    chosen = running.policy_of({"actions": ACTIONS, "tiers": running.tiers(running.STANDARD)})
    given = run.read(documents, chosen, Options())
    found = remedies.explain(given, chosen, "default/late", budget=1)
    assert (found.remedies, found.reason) == ((), None)
    assert wording.lines(found) == [
        "default/late, in queue q, waits: it had no turn within the budget of this explanation",
        "No single change that was tried would start it.",
        f"Not searched to the end: {CUT}.",
    ]


def test_pods_that_never_preempt_might() -> None:
    """The reason names the policy, and the trial who would be evicted."""
    documents = pictures.documents(
        """
        node n1 cpu=2   queue q
        job q/busy min=1 priority=1 n1 n1
        job q/late min=1 priority=9 -
        """
    )
    _object(documents, "Pod", "late-0")["spec"]["preemptionPolicy"] = "Never"
    tree = {"actions": "allocate, preempt", "tiers": running.tiers("priority gang | predicates")}
    for tiers in ("priority gang | predicates", "priority gang | predicates proportion"):
        tree["tiers"] = running.tiers(tiers)
        chosen = running.policy_of(tree)
        found = remedies.explain(run.read(documents, chosen, Options()), chosen, "default/late")
        assert found.reason is not None
        said = "no pod is evicted for it, as its preemptionPolicy is Never"
        assert said in wording.lines(found)[0]
        shown = [wording.sentence(remedy) for remedy in found.remedies]
        assert (
            "set preemptionPolicy: PreemptLowerPriority on its pods; 1 pod of job default/busy in "
            "queue q would be evicted for it"
        ) in shown
