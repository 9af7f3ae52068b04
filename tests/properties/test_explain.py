"""Remedies hold: on manifests edited as a user would, the simulator starts the job, and doesn't
with the next smaller change of a kind with a size.
"""

import gc
from collections import Counter
from collections.abc import Iterable

import pytest

from tests import running
from tests.properties import edited_manifests, obstacles
from tests.properties.edited_manifests import Cluster
from vscheduler.explain import remedies, wording
from vscheduler.explain.changes import Nothing, Remedy
from vscheduler.explain.remedies import NotWaitingError
from vscheduler.simulator import run
from vscheduler.simulator.run import Options

QUICK = 2
"""Clusters in the usual tests."""

SLICES = 40
SLICE = 50
"""2,000 clusters at length."""

FEW = 10
"""400 clusters at length, each with every obstacle."""

BELOW_MAX = 3
"""So many smaller changes are tried, those by one step first."""

JOBS_MAX = 2


def judged(seed: int) -> Counter[str]:
    """Explain jobs of a cluster, try every answer by other means, and count the kinds."""
    cluster = edited_manifests.cluster(seed)
    given = run.read(cluster.documents, cluster.policy, Options())
    before = running.seen(given.mirror, given.now)
    taken = given.mirror.snapshot(given.now)
    waiting = [job.id for job in taken.jobs if job.ready_tasks < max(1, job.min_member)]
    found: Counter[str] = Counter()
    for job in waiting[:JOBS_MAX]:
        explained = remedies.explain(given, cluster.policy, job)
        assert running.seen(given.mirror, given.now) == before, "a trial leaves a trace"
        itself = edited_manifests.starts(cluster, job, Nothing())
        assert itself == (explained.starts is not None), f"{seed} {job}: starts by itself?"
        found["jobs"] += 1
        for remedy in explained.remedies:
            found[type(remedy.change).__name__] += 1
            _check(cluster, job, remedy, f"{seed} {job}: {wording.sentence(remedy)}")
    return found


def unhindered(seed: int, names: Iterable[str] = obstacles.OBSTACLES) -> Counter[str]:
    """Put each obstacle in the way of a job, and compare what its user could do with what is
    shown.
    """
    found: Counter[str] = Counter()
    cluster = edited_manifests.cluster(seed)
    job = _waiting_longest(cluster)
    for name in names if job else ():
        after = obstacles.with_obstacle(cluster, job, obstacles.OBSTACLES[name])
        given = run.read(after.documents, after.policy, Options())
        try:
            explained = remedies.explain(given, after.policy, job)
        except NotWaitingError:
            continue
        shown = {type(remedy.change) for remedy in explained.remedies}
        for remedy in explained.remedies:
            text = f"{seed} {job} {name}: {wording.sentence(remedy)}"
            assert edited_manifests.starts(after, job, remedy.change, most=remedy.cycle), text
        assert wording.lines(explained)
        if explained.starts is not None or explained.cut:
            continue
        for change in obstacles.helping(after, job, name):
            if edited_manifests.starts(after, job, change):
                found[name] += 1
                assert type(change) in shown, f"{seed} {job} {name}: denied {change}"
    return found


def _waiting_longest(cluster: Cluster) -> str:
    """The last job without any pod on a node; empty text without such a job."""
    given = run.read(cluster.documents, cluster.policy, Options())
    taken = given.mirror.snapshot(given.now)
    return next((job.id for job in reversed(list(taken.jobs)) if not job.ready_tasks), "")


@pytest.mark.parametrize("name", sorted(obstacles.OBSTACLES))
def test_what_helps_is_not_denied(name: str) -> None:
    """A cluster for each obstacle; the others are tried at length."""
    unhindered(1, [name])


@pytest.mark.at_length
@pytest.mark.parametrize("part", range(SLICES))
def test_what_helps_is_not_denied_at_length(part: int) -> None:
    """Each obstacle can be overcome in some clusters."""
    found: Counter[str] = Counter()
    for seed in range(100 + part * FEW, 100 + (part + 1) * FEW):
        found += unhindered(seed)
    assert found["closed"]
    assert found["no_claim"]
    assert found["gates"]


def _check(cluster: Cluster, job: str, remedy: Remedy, text: str) -> None:
    assert edited_manifests.starts(cluster, job, remedy.change, most=remedy.cycle), text
    if not remedy.minimal:
        return
    for number, less in enumerate(edited_manifests.smaller(remedy.change)[:BELOW_MAX]):
        if number == 0 or edited_manifests.is_monotone(less):
            assert not edited_manifests.starts(cluster, job, less), f"{text}; but also {less}"


@pytest.mark.parametrize("seed", range(QUICK))
def test_remedies_start_their_jobs(seed: int) -> None:
    """A few clusters; the others are tried at length."""
    judged(seed)


def test_explanations_are_deterministic() -> None:
    """Equal manifests in another order give equal explanations."""
    cluster = edited_manifests.cluster(1)
    given = [
        run.read(documents, cluster.policy, Options())
        for documents in (cluster.documents, cluster.documents[::-1])
    ]
    taken = given[0].mirror.snapshot(given[0].now)
    job = next(job.id for job in taken.jobs if job.ready_tasks < max(1, job.min_member))
    first, second = (remedies.explain(each, cluster.policy, job) for each in given)
    assert wording.tree(first) == wording.tree(second)


@pytest.mark.at_length
@pytest.mark.parametrize("part", range(SLICES))
def test_remedies_start_their_jobs_at_length(part: int) -> None:
    """2,000 clusters, which together have remedies of most kinds."""
    gc.freeze()  # what pytest has loaded would be looked through again and again
    found: Counter[str] = Counter()
    for seed in range(100 + part * SLICE, 100 + (part + 1) * SLICE):
        found += judged(seed)
    assert found["jobs"] > SLICE // 2
    assert found["MoreNodes"]
    assert found["FewerPods"]
