import dataclasses

import figures

FAIR = figures.Result(
    variant="jobs",
    before=(38, 37, 0),
    after=(25, 25, 25),
    running=(25, 25, 25),
    seconds=5.0,
    evicted=25,
    later=0,
)


def pod(uid, tenant="a", **meta):
    container = {"resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"uid": uid, "namespace": tenant, **meta},
        "spec": {"nodeName": "worker-0", "containers": [container]},
        "status": {"phase": "Running"},
    }


def eviction(uid):
    return {"reason": "Evict", "regarding": {"kind": "Pod", "uid": uid}}


def test_pods_with_a_node_count_until_they_leave():
    """Waiting pods, and pods that are being deleted, don't count."""
    ledger = figures.Ledger()
    waiting = pod("4")
    del waiting["spec"]["nodeName"]
    leaving = pod("3", deletionTimestamp="2026-01-01T00:00:00Z")
    ledger.note(1.0, [pod("1"), pod("2", "c"), leaving, waiting])
    assert ledger.cpu == ledger.running == (1, 0, 1)
    assert ledger.evicted == {}


def test_a_pod_that_disappears_counts_as_evicted_once():
    """The list or an event shows the eviction, and only an event for a pod never listed."""
    ledger = figures.Ledger()
    ledger.note(1.0, [pod("1"), pod("2")])
    ledger.note(2.0, [pod("2")])
    ledger.note(3.0, [pod("2")], [eviction("1"), eviction("unseen")])
    assert ledger.evicted == {"1": 2.0, "unseen": 3.0}
    assert ledger.evicted_between(2.0, 3.0) == 1


def test_a_kept_promise_is_no_problem():
    """From 38/37/0 to 25/25/25, at least 25 evictions are needed."""
    assert FAIR.least == 25
    assert FAIR.problems() == []


def test_each_broken_promise_is_reported():
    """Each has one sentence; without fair shares, the other promises aren't checked."""
    broken = dataclasses.replace(
        FAIR, seconds=15.1, evicted=26, later=1, strayed=(26, 24, 25), running=(25, 25, 24)
    )
    assert broken.problems() == [
        "it took 15.1 s instead of 15",
        "26 pods were evicted instead of 25",
        "1 pods were evicted in the following minute",
        "26/24/25 CPU in the following minute",
        "25/25/24 pods run",
    ]
    assert broken.problems(slowdown=2)[0] == "26 pods were evicted instead of 25"
    unfair = dataclasses.replace(broken, before=(40, 35, 0), after=(29, 29, 17), seconds=None)
    assert unfair.problems() == [
        "two tenants had 40/35/0 CPU instead of 37/37/0",
        "29/29/17 CPU instead of 25/25/25",
    ]


def test_the_table_has_a_row_for_each_variant():
    """Columns are aligned, and missing figures are dashes."""
    unfair = dataclasses.replace(FAIR, variant="more jobs", after=(29, 29, 17), seconds=None)
    assert figures.table([FAIR, unfair]).splitlines() == [
        "variant     before     after  seconds  evicted  least  next minute",
        "jobs       38/37/0  25/25/25      5.0       25     25            0",
        "more jobs  38/37/0  29/29/17        -       25     25            -",
    ]
