"""Jobs that wait in worlds at rest: what their sentence advises changes it, what `why` names starts
them, and what it doesn't name doesn't.
"""

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import pytest

from tests import running
from tests.properties import edited_manifests
from tests.properties.edited_manifests import Cluster, Document
from tests.properties.worlds import census as censuses
from tests.properties.worlds import configurations, generator, histories, manifests
from tests.properties.worlds.histories import Plan
from tests.properties.worlds.moments import Moment
from vscheduler.explain import remedies, wording
from vscheduler.explain.changes import Change, EndOfJob, MoreNodes
from vscheduler.mirror.wording import sentences
from vscheduler.simulator import run
from vscheduler.simulator.run import Options

CYCLES = 8
JOBS_MAX = 2
"""Waiting jobs that are looked at in one world."""

QUICK = 2
AT_LENGTH = 200
SLICES = 20
MANY = 12
"""Nodes that are added at once: more than any job of a world needs."""

CONFIGURATIONS = tuple(configurations.PLAIN)
Edit = Callable[[list[Document], str, re.Match[str]], None]


def at_rest(seed: int) -> tuple[Cluster, list[str]]:
    """A world where features meet, once it rests, and the jobs of which no pod has a node."""
    name = CONFIGURATIONS[seed % len(CONFIGURATIONS)]
    last: list[Moment] = []

    def keep(moment: Moment) -> Iterator[str]:
        last.append(moment)
        return iter(())

    plan = Plan(seed=seed, configuration=name, cycles=CYCLES, meeting=True)
    histories.live(plan, judges=(), resting=(keep,))
    tree = configurations.tree(name)
    if not last:
        return Cluster(documents=[], configuration=tree), []
    census = last[-1].census
    documents = [
        *(manifests.priority_class(f"priority-{each}", each) for each in generator.PRIORITIES),
        *census.nodes.values(),
        *census.queues.values(),
        *census.budgets,
        *census.groups.values(),
        *census.pods.values(),
    ]
    waiting = [
        group
        for group, pods in sorted(census.members.items())
        if group in census.groups
        and any(map(censuses.waits, pods))
        and not any(map(censuses.has_node, pods))
    ]
    return Cluster(documents=copy.deepcopy(documents), configuration=tree), waiting


def told(cluster: Cluster, job: str) -> str:
    """What one cycle says of a job; nothing if it starts, or may."""
    result = running.run(copy.deepcopy(cluster.documents), cluster.configuration)
    reasons = [group.reason for group in result.groups if group.job == job]
    placed = [*(bind.task for bind in result.binds), *(each.task for each in result.pipelined)]
    return (
        ""
        if any(each.job == job for each in placed) or not reasons or reasons[0] is None
        else sentences.sentence(reasons[0])
    )


def _capability(documents: list[Document], _: str, found: re.Match[str]) -> None:
    """No limit for this queue."""
    for document in documents:
        if document["kind"] == "Queue" and document["metadata"]["name"] == found[1]:
            document["spec"].pop("capability", None)


def _nodes(documents: list[Document], _job: str, _: re.Match[str]) -> None:
    """Large nodes that are all that a job selects, and keep nobody off."""
    for zone in generator.ZONES:
        for disk in ("ssd", "hdd"):
            for number in range(MANY):
                amounts = {"cpu": "64", "memory": "64Gi", "pods": "110", manifests.GPU: "16"}
                name = f"more-{zone}-{disk}-{number}"
                documents.append(manifests.node(name, amounts, {"zone": zone, "disk": disk}, ()))


def _less(documents: list[Document], job: str, _: re.Match[str]) -> None:
    """A thousandth of a cpu, and nothing else."""
    for document in documents:
        if document["kind"] == "Pod" and censuses.group_of(document) == job:
            document["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1m"}}
        if document["kind"] == "PodGroup" and censuses.pod_key(document) == job:
            document["spec"].pop("minResources", None)


ADVICE: Mapping[str, Edit] = {
    r"queue (\S+) may have at most .* raise the capability": _capability,
    r"ask for less, or add (?:nodes|a larger node)": _nodes,
    r"ask for less": _less,
}
"""What sentences advise, and how a user would follow."""


def advised(cluster: Cluster, job: str) -> Iterator[str]:
    """Advice that leaves the sentence as it is."""
    before = told(cluster, job)
    for pattern, edit in ADVICE.items():
        if found := re.search(pattern, before):
            documents = copy.deepcopy(cluster.documents)
            edit(documents, job, found)
            after = told(Cluster(documents=documents, configuration=cluster.configuration), job)
            if after == before:
                yield f"{job} is told the same after {edit.__name__}: {before}"


def candidates(cluster: Cluster, job: str) -> Iterator[Change]:
    """Single changes that a user might think of."""
    for document in cluster.documents:
        name = document["metadata"]["name"]
        if document["kind"] == "PodGroup" and censuses.pod_key(document) != job:
            pods = [
                pod
                for pod in cluster.documents
                if pod["kind"] == "Pod"
                and censuses.group_of(pod) == censuses.pod_key(document)
                and censuses.has_node(pod)
                and not censuses.finished(pod)
            ]
            if pods:
                yield EndOfJob(job=censuses.pod_key(document), pods=len(pods), holds=())
        if document["kind"] == "Node":
            amounts = censuses.amounts(document["status"]["allocatable"])
            yield MoreNodes(like=name, count=MANY, allocatable=tuple(sorted(amounts.items())))


def _is_near_others(cluster: Cluster, job: str) -> bool:
    """Whether its pods need company: then a change helps that lets others come to them, and `why`
    looks at one job at a time.
    """
    return any(
        document["kind"] == "Pod"
        and censuses.group_of(document) == job
        and "podAffinity" in document["spec"].get("affinity", {})
        for document in cluster.documents
    )


def examined(seed: int) -> Counter[str]:
    """Follow every advice, try what `why` names by other means, and what it denies."""
    cluster, waiting = at_rest(seed)
    found: Counter[str] = Counter()
    for job in waiting[:JOBS_MAX]:
        found["jobs"] += 1
        for problem in advised(cluster, job):
            raise AssertionError(f"{seed}: {problem}")
        given = run.read(copy.deepcopy(cluster.documents), cluster.policy, Options())
        explained = remedies.explain(given, cluster.policy, job)
        for remedy in explained.remedies:
            found[type(remedy.change).__name__] += 1
            text = f"{seed} {job}: {wording.sentence(remedy)}"
            assert edited_manifests.starts(cluster, job, remedy.change, most=remedy.cycle), text
        if explained.starts is not None or explained.cut:
            found["cut"] += bool(explained.cut)
            continue
        if _is_near_others(cluster, job):
            continue
        named = {type(remedy.change) for remedy in explained.remedies}
        for change in candidates(cluster, job):
            if type(change) not in named:
                found["denied"] += 1
                text = f"{seed} {job}: denied {change}"
                assert not edited_manifests.starts(cluster, job, change), text
    return found


@pytest.mark.parametrize("seed", [*range(QUICK), 252])
def test_what_helps_a_job_at_rest_is_named(seed: int) -> None:
    """Two worlds, and one where more nodes start it only if lending isn't cut; more at length."""
    examined(seed)


@pytest.mark.at_length
@pytest.mark.parametrize("part", range(SLICES))
def test_what_helps_a_job_at_rest_is_named_at_length(part: int) -> None:
    """Kinds of changes are named, and others denied."""
    found: Counter[str] = Counter()
    for seed in range(part, AT_LENGTH, SLICES):
        found += examined(seed)
    assert found["denied"]
    assert found["EndOfJob"]
