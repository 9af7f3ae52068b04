import time

from msgspec.structs import replace

from tests.web import clusters
from tests.web.stage import Stage
from vscheduler.model.decisions import Bind, Evict
from vscheduler.model.jobs import JobId
from vscheduler.web import history
from vscheduler.web.history import DecisionKind, History, Observer

NOW = time.time()
MADE = Stage(clusters.three_queues(NOW), NOW)
(RUNNING,) = [job for job in MADE.taken.jobs if job.id == "robotics/simulate-1-000a"]


def bind(at: int) -> Bind:
    """The bind of a pod."""
    return Bind(task=RUNNING.tasks[at], node=f"n{at}")


def test_binds_of_a_gang_are_one_decision() -> None:
    """Those of a later time are another; few pods are named."""
    past = History()
    for at in range(5):
        past.bound(bind(at), NOW + at / 10)
    past.bound(bind(5), NOW + 60)
    first, second = past.frozen(NOW).decisions
    names = [task.name for task in RUNNING.tasks]
    named = f"{names[0]} to n0, {names[1]} to n1, {names[2]} to n2 and 2 more"
    assert first.text == f"5 pods bound: {named}"
    assert second.text == f"1 pod bound: {names[5]} to n5"
    assert first.job == RUNNING.id


def test_evictions_are_told_to_both_sides() -> None:
    """Who lost pods, and for whom they were evicted, who isn't told whose they were."""
    past = History()
    beneficiary = JobId("speech/tune-0004")
    lost = [
        Evict(task=task, node="n", action="reclaim", beneficiary=beneficiary)
        for task in RUNNING.tasks[:2]
    ]
    past.evicted(lost, NOW)
    victim, winner = past.frozen(NOW).decisions
    assert (victim.job, victim.kind) == (RUNNING.id, DecisionKind.EVICTED)
    assert (winner.job, winner.kind) == (beneficiary, DecisionKind.ROOM_MADE)
    assert winner.text == "2 pods evicted by reclaim so that speech/tune-0004 can start"


def test_refusals_carry_the_api_servers_words_made_plain() -> None:
    """Of any length."""
    past = History()
    past.bind_refused(bind(0), "no\x1b[31m" * 1000, NOW)
    past.eviction_refused(
        Evict(task=RUNNING.tasks[0], node="n", action="preempt", beneficiary=None),
        "a budget forbids it",
        NOW,
    )
    first, second = past.frozen(NOW).decisions
    assert first.kind == second.kind == DecisionKind.REFUSED
    assert "\x1b" not in first.text
    assert len(first.text) < 4 * history.MESSAGE_MAX
    assert second.text.endswith("from n: a budget forbids it")


def test_each_piece_of_news_is_another_version() -> None:
    """The page looks again when there is one."""
    past = History()
    lost = Evict(task=RUNNING.tasks[0], node="n", action="reclaim", beneficiary=None)
    versions = [past.version]
    past.cycle(MADE.taken, MADE.result)
    versions.append(past.version)
    past.bound(bind(0), NOW)
    versions.append(past.version)
    past.evicted([lost], NOW)
    versions.append(past.version)
    past.forget()
    versions.append(past.version)
    assert len(set(versions)) == 5


def test_what_is_remembered_is_bounded() -> None:
    """Decisions by number, shares by time, jobs with recent binds by number."""
    past = History()
    for at in range(2 * history.DECISIONS_MAX):
        task = replace(RUNNING.tasks[0], job=JobId(f"a/{at}"))
        past.bound(Bind(task=task, node="n"), NOW)
        taken = replace(MADE.taken, now=NOW + 10 * at)
        past.cycle(taken, MADE.result)
    found = past.frozen(NOW)
    assert len(found.decisions) == history.DECISIONS_MAX
    assert len(found.samples) == history.SAMPLES_MAX
    assert len(past._binds) <= history.DECISIONS_MAX


def test_shares_are_noted_every_ten_seconds() -> None:
    """However many cycles there are."""
    past = History()
    for at in range(100):
        past.cycle(replace(MADE.taken, now=NOW + at / 4), MADE.result)
    assert len(past.frozen(NOW + 25).samples) == 3


def test_shares_are_noted_by_the_clock() -> None:
    """No cycle runs while nothing changes: the shares are then those of the last one."""
    past = History()
    past.cycle(MADE.taken, MADE.result)
    nothing = replace(MADE.result, queues=())
    assert len(past.frozen(NOW + 15 * 60).samples) == 91
    past.cycle(replace(MADE.taken, now=NOW + 30 * 60), nothing)
    samples = past.frozen(NOW + 30 * 60 + 25).samples
    assert [sample.time for sample in samples[-3:]] == [NOW + 1800, NOW + 1810, NOW + 1820]
    assert [bool(sample.shares) for sample in samples[-3:]] == [True, False, False]
    assert len(samples) == 183
    assert len(past.frozen(NOW + 7 * 24 * 3600).samples) == history.SAMPLES_MAX
    assert past.frozen(NOW + 7 * 24 * 3600).samples[-1].time == NOW + 7 * 24 * 3600


def test_while_another_instance_leads_nothing_is_noted() -> None:
    """And what was before stays."""
    past = History()
    past.cycle(MADE.taken, MADE.result)
    past.forget()
    assert len(past.frozen(NOW + 600).samples) == 1
    past.cycle(replace(MADE.taken, now=NOW + 900), MADE.result)
    assert [sample.time for sample in past.frozen(NOW + 905).samples] == [NOW, NOW + 900]


def test_an_observer_does_nothing() -> None:
    """Without the page nothing is remembered."""
    nobody = Observer()
    nobody.cycle(MADE.taken, MADE.result)
    nobody.bound(bind(0), NOW)
    assert not vars(nobody)
