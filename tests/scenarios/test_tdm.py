import pytest

from tests import running
from tests.scenarios.deciding import bind, decide, evict, pipeline
from vscheduler.model.snapshot import Carried, Reported
from vscheduler.testing import pictures

OPEN = "tdm:tdm.revocable-zone.night=10:00-21:00 | predicates"
CLOSED = "tdm:tdm.revocable-zone.night=22:00-06:00 | predicates"
LENT = "label=volcano.sh/revocable-zone=night"
"""Pictures are of eleven or twelve o'clock in the morning, UTC."""

NOW = pictures.NOW.timestamp()
MINUTE = 60.0


def test_lent_nodes_are_for_pods_that_leave_again() -> None:
    """While the zone is open they are preferred there; all others keep out."""
    picture = f"""
        node  n1 cpu=2
        node  n2 cpu=2 {LENT}
        queue q
        job   q/batch preemptable=true min=3 -*3
        job   q/serve min=0 -*2
        """
    expected = [bind("batch-0", "n2"), bind("batch-1", "n2"), bind("batch-2", "n1")]
    assert decide(picture, "allocate", OPEN) == [*expected, bind("serve-0", "n1")]


@pytest.mark.parametrize(
    "tiers",
    [CLOSED, "tdm:tdm.revocable-zone.day=10:00-21:00 | predicates"],
    ids=["closed", "other"],
)
def test_a_zone_that_isnt_open_takes_no_pods(tiers: str) -> None:
    """Neither one that is closed now, nor one that nobody configured."""
    picture = f"""
        node  n1 cpu=2
        node  n2 cpu=2 {LENT}
        queue q
        job   q/batch preemptable=true min=0 -*3
        """
    assert decide(picture, "allocate", tiers) == [bind("batch-0", "n1"), bind("batch-1", "n1")]


def test_clocks_may_be_ahead_of_utc() -> None:
    """At noon in Greenwich it is half past five in the evening in Delhi."""
    picture = f"""
        node  n1 cpu=2 {LENT}
        queue q
        job   q/batch preemptable=true -
        """
    for offset, expected in (("+05:30", [bind("batch-0", "n1")]), ("+00:00", [])):
        tiers = f"tdm:tdm.utc-offset={offset},tdm.revocable-zone.night=16:00-18:00 | predicates"
        assert decide(picture, "allocate", tiers) == expected


def test_once_it_is_closed_pods_leave_one_by_one() -> None:
    """One of each job in a minute, and only from the nodes of the zone."""
    picture = f"""
        node  n1 cpu=4
        node  n2 cpu=4 {LENT}
        queue q
        job   q/batch min=0 preemptable=true n1 n2 n2
        job   q/other min=0 n2
        job   q/stays min=0 preemptable=false n2
        """
    assert decide(picture, "shuffle", OPEN) == []
    assert decide(picture, "shuffle", CLOSED) == [evict("batch-1", "n2"), evict("other-0", "n2")]


def test_a_gang_leaves_whole() -> None:
    """A part of its minimum would be of no use where it is; what is above it goes first."""
    picture = f"""
        node  n1 cpu=4
        node  n2 cpu=8 {LENT}
        queue q
        job   q/rigid min=3 n1 n2 n2
        job   q/loose min=1 n2 n2
        """
    tiers = f"gang {CLOSED}"
    expected = [evict("loose-0"), evict("rigid-0"), evict("rigid-1"), evict("rigid-2")]
    assert decide(picture, "shuffle", tiers) == expected


def test_a_gang_stays_where_it_cant_go_whole() -> None:
    """A pod of it isn't to be evicted, or a budget allows fewer."""
    picture = f"""
        node   n1 cpu=8 {LENT}
        queue  q
        job    q/guarded min=2 label=app=db n1 n1
        job    q/single  min=1 label=app=db n1
        budget calm select=app=db allowed=1
        """
    assert decide(picture, "shuffle", f"gang {CLOSED}") == [evict("single-0")]


def test_the_next_one_goes_a_period_later() -> None:
    """What counts is when shuffle last evicted a pod; the scheduler wakes up for it."""
    documents = pictures.documents(f"node n1 cpu=4 {LENT} queue q job q/batch min=0 n1 n1")
    tree = {"actions": "shuffle", "tiers": running.tiers(CLOSED)}
    first = running.run(documents, tree)
    assert [evict.task.name for evict in first.evicts] == ["batch-0"]
    assert (first.carried.shuffled_at, first.wake_at) == (NOW, NOW + MINUTE)
    soon = running.run_at(documents, tree, NOW + MINUTE - 1, first.carried)
    assert soon.evicts == ()
    assert (soon.carried.shuffled_at, soon.wake_at) == (NOW, NOW + MINUTE)
    later = running.run_at(documents, tree, NOW + MINUTE, first.carried)
    assert [evict.task.name for evict in later.evicts] == ["batch-0"]
    assert later.carried.shuffled_at == NOW + MINUTE


def test_the_scheduler_wakes_up_when_a_zone_opens() -> None:
    """Nothing else would tell it."""
    tree = {"actions": "allocate", "tiers": running.tiers(CLOSED)}
    result = running.run(pictures.documents("node n1 cpu=1"), tree)
    assert result.wake_at == NOW + 10 * 3600


def test_jobs_that_stay_have_their_turn_first() -> None:
    """They may take room from those that can be asked to go, outside of zones."""
    picture = """
        node  n1 cpu=1
        queue q
        job   q/batch preemptable=true n1
        job   q/serve preemptable=false -
        """
    tiers = "tdm gang | predicates proportion"
    expected = [evict("batch-0", "n1", "serve"), pipeline("serve-0", "n1")]
    assert decide(picture, "allocate, preempt", tiers) == expected


def test_budgets_hold_whichever_plugin_is_configured() -> None:
    """Shuffle asks them itself."""
    picture = f"""
        node   n1 cpu=8 {LENT}
        queue  q
        job    q/batch min=0 label=app=db n1 n1
        job    q/free  min=0 n1
        budget calm select=app=db allowed=0
        """
    assert decide(picture, "shuffle", CLOSED) == [evict("free-0")]


def test_refused_evictions_arent_asked_for_again_at_once() -> None:
    """The API server said no a moment ago."""
    documents = pictures.documents(f"node n1 cpu=4 {LENT} queue q job q/batch min=0 n1 n1")
    tree = {"actions": "shuffle", "tiers": running.tiers(CLOSED)}
    first = running.run(documents, tree).evicts[0].task
    carried = Carried(reported=Reported(eviction_refused_pods=frozenset({first.uid})))
    again = running.run(documents, tree, carried=carried)
    assert [evict.task.name for evict in again.evicts] == ["batch-1"]
