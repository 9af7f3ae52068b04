"""What PodGroups of Kubernetes' own API are told."""

from typing import Any

import pytest

from vscheduler.mirror import statuses
from vscheduler.model import jobs
from vscheduler.model.decisions import GroupStatus, Reason, ReasonCode
from vscheduler.model.jobs import Condition, GroupState, Phase

NOW = 1_767_268_800.9
SINCE = "2026-01-01T12:00:00Z"
FULL = Reason(code=ReasonCode.QUEUE_CLOSED, queue="a")
FULL_TEXT = "queue a isn't open; open it, or name another in spec.queue"
ERROR = Reason(code=ReasonCode.POD_GROUP_ERROR, queue="a", subject="they contradict it")


def status(phase: Phase, reason: Reason | None = None, **more: Any) -> GroupStatus:
    """What a cycle says of a PodGroup."""
    counts = {"running": 0, "succeeded": 0, "failed": 0}
    job = jobs.native_id("ns", "g")
    fields: dict[str, Any] = {"ready": False, **counts, **more}
    return GroupStatus(job=job, uid="u", queue="a", phase=phase, reason=reason, **fields)


def body(kind: str, value: str, reason: str, message: str = "") -> dict[str, Any]:
    """A condition as it is sent."""
    return {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message,
        "lastTransitionTime": SINCE,
        "observedGeneration": 3,
    }


def stored(*conditions: tuple[str, str, str]) -> GroupState:
    """A stored status."""
    made = (
        Condition(type=kind, status=value, reason=why, last_transition=SINCE)
        for kind, value, why in conditions
    )
    return GroupState(generation=3, conditions=tuple(made))


PHASE, INITIALLY, WAITS = jobs.PHASE, jobs.INITIALLY_SCHEDULED, statuses.NATIVE_UNSCHEDULABLE
BEGUN = stored((INITIALLY, "True", "Scheduled"), (WAITS, "True", "QueueClosed"))
CASES = {
    "it waits": (
        stored(("example.com/Other", "True", "Any")),
        status(Phase.PENDING, FULL),
        [
            body(PHASE, "False", "Pending", "queue a"),
            body(INITIALLY, "False", "Unschedulable", FULL_TEXT),
            body(WAITS, "True", "QueueClosed", FULL_TEXT),
        ],
    ),
    "its pods contradict it": (
        stored(),
        status(Phase.PENDING, ERROR),
        [
            body(PHASE, "False", "Pending", "queue a"),
            body(INITIALLY, "False", "PodGroupError", "they contradict it"),
            body(WAITS, "True", "PodGroupError", "they contradict it"),
        ],
    ),
    "it has its minimum for the first time": (
        stored((INITIALLY, "False", "Unschedulable"), (WAITS, "True", "QueueClosed")),
        status(Phase.RUNNING, ready=True),
        [
            body(INITIALLY, "True", "Scheduled"),
            body(WAITS, "False", "Scheduled"),
            body(PHASE, "True", "Running", "queue a"),
        ],
    ),
    "pods are decided on, and no bind is confirmed": (
        stored((PHASE, "False", "Inqueue")),
        status(Phase.INQUEUE, ready=True),
        [body(PHASE, "False", "Inqueue", "queue a")],
    ),
    "pods have succeeded": (
        stored((PHASE, "True", "Running"), (INITIALLY, "True", "Scheduled")),
        status(Phase.RUNNING, ready=True, succeeded=2),
        [
            body(PHASE, "True", "Running", "queue a"),
            body("vscheduler.io/Succeeded", "True", "Succeeded", "2 pods succeeded"),
        ],
    ),
    "once True, it stays so": (
        BEGUN,
        status(Phase.PENDING, FULL),
        [body(WAITS, "True", "QueueClosed", FULL_TEXT), body(PHASE, "False", "Pending", "queue a")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_status_is_written_when_it_says_something_new(case: str) -> None:
    """Only conditions that changed: the API server merges them by type, so all others stay."""
    before, seen, conditions = CASES[case]
    wanted = statuses.group_state(seen, before, now=NOW, transition="42")
    assert statuses.native_group_patch(before, wanted) == {"conditions": conditions}
    again = statuses.group_state(seen, wanted, now=NOW + 60, transition="43")
    assert statuses.native_group_patch(wanted, again) is None
    kept = {each.type for each in before.conditions}
    assert kept <= {each.type for each in wanted.conditions}


@pytest.mark.parametrize(
    ("case", "notice"),
    [
        ("it waits", ("Warning", "Unschedulable", FULL_TEXT)),
        ("it has its minimum for the first time", ("Normal", "Scheduled", "pod group is ready")),
        ("once True, it stays so", None),
    ],
)
def test_a_new_reason_is_an_event(case: str, notice: tuple[str, str, str] | None) -> None:
    """It is about the object of this API."""
    before, seen, _ = CASES[case]
    wanted = statuses.group_state(seen, before, now=NOW, transition="42")
    event = statuses.group_notice(seen, before, wanted, pods=2)
    assert (event and (event.type, event.reason, event.message)) == notice
    if event is not None:
        about = event.api_version, event.kind, event.namespace, event.name
        assert about == ("scheduling.k8s.io/v1beta1", "PodGroup", "ns", "g")
