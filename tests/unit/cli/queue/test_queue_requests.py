from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.cli import queue_objects
from vscheduler.cli.queue import queue_requests
from vscheduler.cli.queue.cluster_client import Object
from vscheduler.cli.queue.queue_requests import TimeLimits

HURRY = TimeLimits(seconds=0.05, settle_seconds=0.01, poll_seconds=0.001)
CLOSED_ABOVE = {
    "type": "vscheduler.io/WantedState",
    "status": "False",
    "reason": "ParentClosed",
    "message": "queue top, which is above this one, is closed; this one opens with it",
}


class Queues:
    """A few queues, and a controller that does as it is told here."""

    def __init__(self, act: Callable[[str], dict[str, Any] | None], *names: str) -> None:
        self._act = act
        self._names = set(names)
        self.asked: list[tuple[str, str, str]] = []
        self.annotations: dict[str, str] = {}
        self.parents: dict[str, str] = {}

    def annotate_queue(self, name: str, key: str, value: str) -> Object | None:
        """Note what was asked for."""
        if name not in self._names:
            return None
        self.asked.append((name, key, value))
        return queue_objects.a_queue(name)

    def queue(self, name: str) -> Object | None:
        """The queue with the status that the controller has given it; None: it is gone."""
        status = self._act(name)
        if status is None:
            return None
        made = queue_objects.a_queue(name, status=status)
        made["metadata"]["annotations"] = self.annotations
        made["spec"]["parent"] = self.parents.get(name, "root")
        return made


@pytest.mark.parametrize(
    ("wanted", "status", "sentence"),
    [
        ("Open", {"state": "Open"}, "queue red is open"),
        ("Closed", {"state": "Closed"}, "queue red is closed"),
        (
            "Closed",
            {"state": "Closing", "running": 2, "completed": 1},
            "queue red is closing: it takes no jobs, and still holds 3 jobs",
        ),
    ],
)
def test_a_queue_that_is_as_wanted_says_so(
    wanted: str, status: dict[str, Any], sentence: str
) -> None:
    """The annotation is set; one sentence tells how it is."""
    target = Queues(lambda _: status, "red")
    assert queue_requests.request(target, ["red"], wanted, HURRY) == ([sentence], [])
    assert target.asked == [("red", "vscheduler.io/wanted-state", wanted)]


def test_it_waits_until_somebody_has_acted() -> None:
    """A queue that isn't so yet is asked again."""
    states = iter(["Open", "Open", "Closed"])
    target = Queues(lambda _: {"state": next(states)}, "red")
    limits = TimeLimits(seconds=60, poll_seconds=0.001)
    good, problems = queue_requests.request(target, ["red"], "Closed", limits)
    assert (good, problems) == (["queue red is closed"], [])


def test_a_queue_below_a_closed_one_says_what_it_waits_for() -> None:
    """The controller's words, once they stand."""
    target = Queues(lambda _: {"state": "Closed", "conditions": [CLOSED_ABOVE]}, "red")
    good, problems = queue_requests.request(target, ["red"], "Open", HURRY)
    assert (good, problems) == ([], [f"queue red: {CLOSED_ABOVE['message']}"])


def test_a_queue_isnt_open_yet_that_will_close_with_one_above() -> None:
    """Its state is from before; it may be closed a moment later. Parents in a ring end the look."""
    states = {"top": "Closing", "middle": "Open", "red": "Open"}
    shown = iter(["Open", "Open", "Closed"])

    def act(name: str) -> dict[str, Any]:
        if name == "red":
            states["red"] = next(shown, "Closed")
        conditions = [CLOSED_ABOVE] if states[name] == "Closed" else []
        return {"state": states[name], "conditions": conditions}

    target = Queues(act, "red")
    target.parents = {"red": "middle", "middle": "top"}
    good, problems = queue_requests.request(target, ["red"], "Open", HURRY)
    assert (good, problems) == ([], [f"queue red: {CLOSED_ABOVE['message']}"])
    target = Queues(lambda _: {"state": "Open"}, "red")
    target.parents = {"red": "middle", "middle": "red"}
    assert queue_requests.request(target, ["red"], "Open", HURRY) == (["queue red is open"], [])


def test_a_queue_without_conditions_says_so_by_its_mark() -> None:
    """Volcano's CRD has no place for them."""
    target = Queues(lambda _: {"state": "Closed"}, "red")
    target.annotations["volcano.sh/closed-by-parent"] = "true"
    good, problems = queue_requests.request(target, ["red"], "Open", HURRY)
    assert good == []
    assert problems == ["queue red: a queue above it is closed; this one opens with it"]


def test_waiting_ends_and_says_who_is_missing() -> None:
    """Without a controller nothing happens; the wish remains."""
    target = Queues(lambda _: {"state": "Open"}, "red")
    good, (problem,) = queue_requests.request(target, ["red"], "Closed", HURRY)
    assert good == []
    assert problem.startswith("queue red didn't reach the wanted state in 0.05 s; is a")


def test_what_cant_be_is_told_and_the_rest_is_done() -> None:
    """Root stays open; a queue may be missing, or go meanwhile."""
    target = Queues(lambda name: None if name == "gone" else {"state": "Closed"}, "red", "gone")
    good, problems = queue_requests.request(target, ["root", "nix", "gone", "red"], "Closed", HURRY)
    assert good == ["queue red is closed"]
    assert problems == [
        "root can't be closed; close queues below it",
        "there is no queue nix",
        "queue gone has been deleted",
    ]
