from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from vscheduler.mirror import statuses
from vscheduler.mirror.statuses import ObjectReference
from vscheduler.model import jobs
from vscheduler.model.claim_decisions import ClaimKind, ClaimWait
from vscheduler.model.constraints import Operator, Requirement, Selector
from vscheduler.model.decisions import Bind, Evict, GroupStatus, Reason, ReasonCode, Shortage
from vscheduler.model.jobs import (
    Condition,
    GroupState,
    InvalidPod,
    Job,
    JobId,
    Phase,
    PodClass,
    SubGroup,
    Task,
    TaskId,
    TaskStatus,
)

NOW = 1_767_268_800.9
SINCE = "2026-01-01T12:00:00Z"
BEFORE = "2025-12-31T00:00:00Z"
SHORT = Reason(code=ReasonCode.TOO_FEW_PODS, queue="a", tasks=1, minimum=2, placed=0)
SHORT_TEXT = "1 of 2 pods exist (minMember 2); create 1 more, or lower minMember"
FULL = Reason(code=ReasonCode.QUEUE_CLOSED, queue="a")
FULL_TEXT = "queue a isn't open; open it, or name another in spec.queue"
GANG = Job(
    id=JobId("ns/g"), uid="u", namespace="ns", name="g", queue="a", created=0.0, min_member=4
)


def task(name: str) -> Task:
    """A pod of ns/g."""
    return Task(
        uid=TaskId(f"uid-{name}"),
        namespace="ns",
        name=name,
        job=JobId("ns/g"),
        pod_class=PodClass(request={}),
        status=TaskStatus.PENDING,
        created=0.0,
    )


def status(*, ready: bool = False, reason: Reason | None = None, **more: Any) -> Any:
    """What a cycle says of ns/g."""
    fields = {"phase": Phase.INQUEUE, "running": 0, "succeeded": 0, "failed": 0, **more}
    return GroupStatus(job=JobId("ns/g"), uid="u", queue="a", ready=ready, reason=reason, **fields)


def condition(kind: str, value: str, reason: str, message: str = "") -> Condition:
    """A condition that an earlier cycle wrote."""
    return Condition(
        type=kind,
        status=value,
        reason=reason,
        message=message,
        last_transition=BEFORE,
        transition_id="41",
    )


def stored(*conditions: Condition, **more: Any) -> GroupState:
    """A status as it stands in the object."""
    return GroupState(conditions=conditions, **{"phase": Phase.INQUEUE, **more})


WAITS = condition("Unschedulable", "True", "NotEnoughTasks", SHORT_TEXT)
STARTED = condition("Scheduled", "True", statuses.READY_REASON)
FOREIGN = condition("Noted", "True", "ByAnother")


def body(kind: str, value: str, reason: str, message: str = "", since: str = SINCE) -> object:
    """A condition that this cycle writes."""
    fields = {"type": kind, "status": value, "reason": reason, "message": message}
    kept = {name: text for name, text in fields.items() if text}
    return {**kept, "lastTransitionTime": since, "transitionID": "42"}


SCHEDULED_BODY = body("Scheduled", "True", statuses.READY_REASON)
CASES: dict[str, tuple[GroupState, Any, Any, Any]] = {
    "a new group that was only seen": (stored(), status(), None, None),
    "a group without a phase": (
        stored(phase=Phase.PENDING, blank=True),
        status(phase=Phase.PENDING),
        {"phase": "Pending"},
        None,
    ),
    "a group without a phase that was let in": (
        stored(phase=Phase.PENDING, blank=True),
        status(),
        {"phase": "Inqueue"},
        None,
    ),
    "phase and counts": (
        stored(running=2),
        status(phase=Phase.RUNNING, running=3, failed=1),
        {"phase": "Running", "running": 3, "failed": 1},
        None,
    ),
    "a group that lacks pods": (
        stored(),
        status(reason=SHORT),
        {"conditions": [body("Unschedulable", "True", "NotEnoughTasks", SHORT_TEXT)]},
        ("Warning", "Unschedulable", SHORT_TEXT),
    ),
    "the same once more": (stored(WAITS), status(reason=SHORT), None, None),
    "another reason": (
        stored(WAITS),
        status(reason=FULL),
        {"conditions": [body("Unschedulable", "True", "QueueClosed", FULL_TEXT)]},
        ("Warning", "Unschedulable", FULL_TEXT),
    ),
    "other numbers keep the time and are no event": (
        stored(condition("Unschedulable", "True", "NotEnoughTasks", "0 of 2")),
        status(reason=SHORT),
        {"conditions": [body("Unschedulable", "True", "NotEnoughTasks", SHORT_TEXT, since=BEFORE)]},
        None,
    ),
    "a group that starts": (
        stored(WAITS),
        status(ready=True),
        {"conditions": [body("Unschedulable", "False", "Scheduled"), SCHEDULED_BODY]},
        ("Normal", "Scheduled", "pod group is ready"),
    ),
    "a group that starts at once": (
        stored(),
        status(ready=True),
        {"conditions": [SCHEDULED_BODY]},
        ("Normal", "Scheduled", "pod group is ready"),
    ),
    "a group that runs, and could have more pods": (
        stored(STARTED),
        status(ready=True, reason=FULL),
        None,
        None,
    ),
    "a group that lost pods": (
        stored(STARTED),
        status(reason=SHORT),
        {
            "conditions": [
                body("Scheduled", "False", "NotEnoughTasks"),
                body("Unschedulable", "True", "NotEnoughTasks", SHORT_TEXT),
            ]
        },
        ("Warning", "Unschedulable", SHORT_TEXT),
    ),
    "conditions of others stay": (
        stored(FOREIGN),
        status(ready=True),
        {"conditions": [statuses.condition(FOREIGN), SCHEDULED_BODY]},
        ("Normal", "Scheduled", "pod group is ready"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_groups_status_is_written_when_it_says_something_new(case: str) -> None:
    """Only changed fields, and an event when a condition turned."""
    before, seen, patch, notice = CASES[case]
    wanted = statuses.group_state(seen, before, now=NOW, transition="42")
    assert statuses.group_patch(before, wanted) == patch
    event = statuses.group_notice(seen, before, wanted, pods=2)
    assert (event and (event.type, event.reason, event.message)) == notice
    # Of a group of one pod, that pod's own event says that it starts.
    starts = notice is not None and notice[1] == "Scheduled"
    alone = statuses.group_notice(seen, before, wanted, pods=1)
    assert alone == (None if starts else event)


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_written_twice(case: str) -> None:
    """What was sent, compared with the same wish later, leaves nothing to send."""
    before, seen, _, _ = CASES[case]
    sent = statuses.group_state(seen, before, now=NOW, transition="42")
    again = statuses.group_state(seen, sent, now=NOW + 60, transition="43")
    assert again == sent
    assert statuses.group_patch(sent, again) is None
    assert statuses.group_notice(seen, sent, again, pods=2) is None


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (ReasonCode.QUEUE_MISSING, "QueueNotFound"),
        (ReasonCode.QUEUE_CLOSED, "QueueClosed"),
        (ReasonCode.POD_REJECTED, "PodRejected"),
        (ReasonCode.TOO_FEW_PODS, "NotEnoughTasks"),
        (ReasonCode.TOO_FEW_OF_ROLE, "NotEnoughPodsOfTask"),
        (ReasonCode.TOO_FEW_OF_SUB_GROUP, "NotEnoughPodsOfSubGroup"),
        (ReasonCode.NO_ROOM, "NotEnoughResources"),
        (ReasonCode.QUEUE_OVER_SHARE, "QueueOverShare"),
        (ReasonCode.WAITS_FOR_VOLUMES, "WaitsForVolumes"),
    ],
)
def test_conditions_have_the_reason_that_everything_else_shows(
    code: ReasonCode, reason: str
) -> None:
    """Volcano's word where it has one; more exact ones where Volcano lacks resources."""
    seen = status(reason=Reason(code=code, queue="a"))
    wanted = statuses.group_state(seen, stored(), now=NOW, transition="1")
    assert [condition.reason for condition in wanted.conditions] == [reason]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ReasonCode.QUEUE_FULL, "Normal"),
        (ReasonCode.QUOTA_FULL, "Normal"),
        (ReasonCode.CLUSTER_FULL, "Normal"),
        (ReasonCode.NO_ROOM, "Warning"),
        (ReasonCode.QUEUE_CLOSED, "Warning"),
    ],
)
def test_a_group_that_waits_to_be_let_in_is_nothing_to_warn_of(code: ReasonCode, kind: str) -> None:
    """Volcano's events of the same kinds."""
    short = Shortage(resource="cpu", requested=1000, allocated=0, limit=0)
    seen = status(reason=Reason(code=code, queue="a", shortages=(short,)))
    wanted = statuses.group_state(seen, stored(), now=NOW, transition="1")
    notice = statuses.group_notice(seen, stored(), wanted, pods=2)
    assert notice is not None
    assert (notice.type, notice.reason) == (kind, "Unschedulable")


def test_unplaced_pods_are_told_why() -> None:
    """The pod's condition and its event carry the group's sentence."""
    seen = status(reason=SHORT, unplaced=(task("g-0"),))
    ((pod, words),) = statuses.pod_words(seen)
    assert pod is seen.unplaced[0]
    assert statuses.pod_patch(words._replace(reason="Unschedulable"), now=NOW) == {
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": SHORT_TEXT,
                "lastTransitionTime": SINCE,
            }
        ]
    }
    notice = statuses.waiting_notice(pod, words)
    assert (notice.kind, notice.namespace, notice.name, notice.uid) == (
        *("Pod", "ns", "g-0"),
        "uid-g-0",
    )
    assert (notice.type, notice.reason) == ("Warning", "FailedScheduling")


def test_a_pod_that_waits_for_volumes_is_told_so_though_it_has_a_node() -> None:
    """No warning, as nothing is wrong yet; a warning of a refusal, or once the time is up."""
    wait = ClaimWait(
        kind=ClaimKind.VOLUMES, ready=0, claims=1, claim="ns/data", source="csi", node="n1"
    )
    waits = Reason(code=ReasonCode.WAITS_FOR_VOLUMES, queue="a", claims=wait)
    seen = status(reason=waits, without_claims=(task("g-0"),), claims=wait)
    ((pod, words),) = statuses.pod_words(seen)
    text = "the claim isn't bound; waiting for claim data (csi) on n1 since 00:00:00"
    assert words == ("WaitsForVolumes", "WaitsForVolumes", text)
    notice = statuses.waiting_notice(pod, words)
    assert (notice.type, notice.reason, notice.message) == ("Normal", "WaitsForVolumes", text)
    assert about(seen) == ("Normal", "Unschedulable", text)
    refused = msgspec.structs.replace(wait, refusal="no")
    ((pod, words),) = statuses.pod_words(status(without_claims=(task("g-0"),), claims=refused))
    text = "the claim isn't bound; the API server refuses to have claim data (csi) bound: no"
    assert words == (text, "WaitsForVolumes", text)
    assert statuses.waiting_notice(pod, words).type == "Warning"
    late = msgspec.structs.replace(waits, claims=msgspec.structs.replace(wait, pause=60))
    seen = status(reason=late, unplaced=(task("g-0"),))
    ((pod, words),) = statuses.pod_words(seen)
    assert words.reason == "WaitsForVolumes"
    notice = statuses.waiting_notice(pod, words)
    assert (notice.type, notice.reason) == ("Warning", "FailedScheduling")
    assert about(seen)[0] == "Warning"


def about(seen: GroupStatus) -> tuple[str, str, str]:
    """The event of a group that was unknown before."""
    wanted = statuses.group_state(seen, stored(), now=NOW, transition="1")
    notice = statuses.group_notice(seen, stored(), wanted, pods=2)
    assert notice is not None
    return notice.type, notice.reason, notice.message


def test_a_pod_that_cant_be_used_is_told_why_and_the_others_what_they_wait_for() -> None:
    """Its field and what is wrong there, in its own words, and that no node would help; to one with
    gates the API server has said already what it waits for.
    """
    bad = InvalidPod(
        uid=TaskId("u"),
        namespace="ns",
        name="bad",
        field="spec.resourceClaims",
        message="no claims",
    )
    waits = Reason(code=ReasonCode.POD_REJECTED, queue="a", tasks=2, rejected=1, rejection=bad)
    gated = msgspec.structs.replace(bad, name="gated", gated=True)
    seen = status(reason=waits, unplaced=(task("g-0"),), rejections=(bad, gated))
    said = {pod.name: words for pod, words in statuses.pod_words(seen)}
    flaw = "spec.resourceClaims: no claims"
    assert {name: (words.reason, words.message) for name, words in said.items()} == {
        "g-0": ("PodRejected", f"1 of 2 pods can't be used: pod ns/bad: {flaw}"),
        "bad": ("SchedulerError", f"the pod can't be used: {flaw}"),
    }
    notice = statuses.waiting_notice(bad, said["bad"])
    assert (notice.kind, notice.namespace, notice.name, notice.uid) == ("Pod", "ns", "bad", "u")


HELPED = ("ClusterFull", "QueueOverShare", "NoNodes", "NeverFits", "NotEnoughResources")
DOMAINS = "NotEnoughResourcesInDomain"


@pytest.mark.parametrize("code", ReasonCode)
def test_pods_are_called_unschedulable_only_where_a_node_could_help(
    code: ReasonCode,
) -> None:
    """Autoscalers read that word: other pods carry the reason itself."""
    waits = Reason(code=code, queue="q")
    helped = code in {*HELPED, DOMAINS, "WaitsForRelease"}
    assert statuses.pod_reason(waits) == ("Unschedulable" if helped else code)


def test_a_queue_at_its_capability_is_not_helped_by_nodes_and_one_at_its_share_is() -> None:
    """Shares grow with the cluster."""
    short = Shortage(resource="cpu", requested=1, allocated=2, limit=2)
    for owner, word in (("", "Unschedulable"), ("q", "QueueOverShare")):
        waits = Reason(
            code=ReasonCode.QUEUE_OVER_SHARE,
            queue="q",
            shortages=(msgspec.structs.replace(short, owner=owner),),
        )
        assert statuses.pod_reason(waits) == word


def test_pods_that_found_a_node_or_have_no_reason_are_told_nothing() -> None:
    """There is nothing to explain."""
    assert not [*statuses.pod_words(status(reason=SHORT))]
    assert not [*statuses.pod_words(status(unplaced=(task("g-0"),)))]


def test_binds_and_evictions_are_recorded_on_the_pod() -> None:
    """Volcano's reasons: Scheduled and Evict."""
    bound = statuses.bound_notice(Bind(task=task("p"), node="n1"))
    gone = statuses.evicted_notice(
        Evict(task=task("p"), node="n1", action="preempt", beneficiary=None), GANG
    )
    assert (bound.type, bound.reason) == ("Normal", "Scheduled")
    assert (gone.type, gone.reason, gone.message) == (
        *("Warning", "Evict"),
        "evicted from n1 by preempt",
    )


def test_a_groups_event_names_the_group() -> None:
    """Kind, namespace, name and UID."""
    seen = status(ready=True)
    wanted = statuses.group_state(seen, stored(), now=NOW, transition="42")
    notice = statuses.group_notice(seen, stored(), wanted, pods=2)
    assert notice is not None
    assert (notice.kind, notice.namespace, notice.name, notice.uid) == (
        *("PodGroup", "ns"),
        *("g", "u"),
    )


def test_a_lease_tells_of_another_configuration() -> None:
    """Whose it is, and which ones."""
    lease = ObjectReference(kind="Lease", namespace="volcano-system", name="a", uid="u")
    notice = statuses.configuration_notice(lease, "me_1", "aaa", "bbb")
    assert (notice.type, notice.reason) == ("Warning", "ConfigurationChanged")
    assert notice.message == "me_1 decides by configuration bbb; the leader before had aaa"


@pytest.mark.parametrize(
    ("leads", "message"), [(True, "me_1 became leader"), (False, "me_1 stopped leading")]
)
def test_leases_tell_who_leads_as_client_go_does(leads: bool, message: str) -> None:
    """Tools that read elections of Kubernetes' own components read ours, too."""
    lease = ObjectReference(kind="Lease", namespace="volcano-system", name="a", uid="u")
    notice = statuses.lease_notice(lease, "me_1", leads=leads)
    assert (notice.type, notice.reason, notice.message) == ("Normal", "LeaderElection", message)
    assert (notice.kind, notice.namespace, notice.name, notice.uid) == (
        *("Lease", "volcano-system"),
        *("a", "u"),
    )


def part(*names: str, size: int) -> SubGroup:
    """PodGroups of a tree that need so many pods each."""
    selector = Selector((Requirement(jobs.POD_GROUP_LABEL, Operator.IN, names),))
    return SubGroup(name="", size=size, minimum=1, selector=selector, keys=(jobs.POD_GROUP_LABEL,))


TREE = jobs.composite_id("ns", "tree")


def told_to_parts(
    tree: Phase, *parts: SubGroup, pods: Mapping[str, str], was: Phase, starts: str = ""
) -> dict[str, tuple[Phase, bool, bool]]:
    """Phase, whether it is ready, and whether it waits for a reason, by PodGroup of a tree in this
    phase. Of each PodGroup the statuses of pods by their first letters, and one pod of `starts` is
    bound now.
    """
    by_letter = {str(each)[0]: each for each in (*jobs.WAITING, *jobs.FINISHED, TaskStatus.RUNNING)}
    tasks = tuple(
        replace(
            task(f"{name}-{number}"),
            job=TREE,
            labels={jobs.POD_GROUP_LABEL: name},
            status=by_letter[letter],
        )
        for name, letters in pods.items()
        for number, letter in enumerate(letters)
    )
    gang = replace(GANG, id=TREE, sub_groups=parts, tasks=tasks)
    said = replace(status(ready=True, phase=tree, reason=FULL), job=TREE)
    bound = [each for each in tasks if each.labels[jobs.POD_GROUP_LABEL] == starts]
    found = statuses.of_parts(
        said, gang, [Bind(task=each, node="n1") for each in bound], lambda _: was
    )
    return {
        each.job.partition("/")[2].partition("@")[0]: (
            each.phase,
            each.ready,
            each.reason is not None,
        )
        for each in found
    }


def test_groups_of_a_tree_start_with_what_they_need() -> None:
    """Of three, a runs, b starts now, and c, which the tree doesn't need, waits."""
    parts = part("a", "b", "c", size=1)
    pods = {"a": "R", "b": "P", "c": "P"}
    assert told_to_parts(Phase.RUNNING, parts, pods=pods, was=Phase.PENDING, starts="b") == {
        "a": (Phase.RUNNING, True, False),
        "b": (Phase.RUNNING, True, False),
        "c": (Phase.INQUEUE, False, True),
    }
    assert list(statuses.of_parts(status(), GANG, (), lambda _: Phase.PENDING)) == []


PHASES = {
    "all of its pods run": (Phase.RUNNING, "RR", Phase.RUNNING, Phase.RUNNING),
    "it waits with the tree": (Phase.PENDING, "PP", Phase.PENDING, Phase.PENDING),
    "it has lost a pod": (Phase.RUNNING, "RP", Phase.RUNNING, Phase.UNKNOWN),
    "it has lost a pod, and the tree too many": (Phase.UNKNOWN, "R", Phase.RUNNING, Phase.UNKNOWN),
    "it has lost all of its pods": (Phase.RUNNING, "PP", Phase.RUNNING, Phase.INQUEUE),
    "some of its pods have ended": (Phase.RUNNING, "SR", Phase.RUNNING, Phase.RUNNING),
    "its pods have ended": (Phase.RUNNING, "SS", Phase.RUNNING, Phase.COMPLETED),
    "its pods have ended and are gone": (*(Phase.RUNNING, "", Phase.COMPLETED, Phase.COMPLETED),),
    "the pods of the tree are gone": (Phase.COMPLETED, "", Phase.RUNNING, Phase.COMPLETED),
    "it begins anew": (Phase.RUNNING, "PP", Phase.COMPLETED, Phase.INQUEUE),
}


@pytest.mark.parametrize("case", PHASES)
def test_a_group_of_a_tree_has_the_phase_of_a_group_by_itself(case: str) -> None:
    """As a PodGroup that is a job; only one that waits for pods has a reason."""
    tree, letters, was, wanted = PHASES[case]
    found = told_to_parts(tree, part("a", size=2), pods={"a": letters}, was=was)
    waits = wanted not in (Phase.RUNNING, Phase.COMPLETED)
    assert (found["a"][0], found["a"][2]) == (wanted, waits)
