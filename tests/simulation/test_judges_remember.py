"""Judges remember what they said of a PodGroup, until anything changes that it depends on."""

from tests.simulation import judges
from tests.simulation.judges import pod_rules
from tests.simulation.made_histories import SETTINGS, History, group, queue, started
from tests.simulation.test_judges_at_rest import job, owned


class Follower:
    """A court that follows a history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._court = judges.court(SETTINGS)
        self._seen = 0

    def wrong(self) -> list[str]:
        """What is wrong now."""
        assert not list(self._court.see(self._history.changes[self._seen :]))
        self._seen = len(self._history.changes)
        found = judges.soon(self._court.cluster, SETTINGS, at=self._history.now, settled=False)
        return [each.rule for each in found]


def test_another_wish_of_the_owner_is_noticed() -> None:
    """Neither the PodGroup nor its pods change."""
    history = started(1, 0, cpu="100m")
    history.drop("podgroups", "gang")
    job(history, 1)
    history.put("pods", owned(minimum="2"))
    made = group(1, name="podgroup-uid-j")
    made["metadata"]["annotations"] = {pod_rules.WRITTEN: '{"minMember":1}'}
    history.put("podgroups", made)
    follower = Follower(history)
    before = follower.wrong()
    job(history, 2)
    assert follower.wrong() == [*before, "PodGroups follow their owners"]


def test_a_queue_that_comes_back_is_noticed() -> None:
    """Only the PodGroup of an existing Queue has to tell its phase."""
    history = started(1, 1, cpu="100m")
    history.put("podgroups", group(1, phase="Running"))
    history.drop("queues", "q")
    follower = Follower(history)
    assert "statuses are true" not in follower.wrong()
    history.put("queues", queue(pending=1))
    assert "statuses are true" in follower.wrong()
