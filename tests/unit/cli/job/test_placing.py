"""`job list -w`: what is followed, and what is printed of it."""

import copy
import json
from typing import Any

import pytest
from click import testing

from tests.scenarios.alone import a_pod
from tests.unit.cli import job_objects
from tests.unit.cli.job_objects import Fake
from vscheduler.cli import main
from vscheduler.cli.job import job_figures, placing
from vscheduler.cli.job.configured import Configuration
from vscheduler.cli.job.job_figures import Job, Places
from vscheduler.cli.job.listing import Listing
from vscheduler.cli.job.placing import Seen
from vscheduler.cli.job.selection import Selection
from vscheduler.cli.queue import cluster_client
from vscheduler.cli.queue.cluster_client import Change, Forbidden, Kind, NotServed
from vscheduler.daemon import configuration

BUILT_IN = Configuration(policy=configuration.load("").policy)


def named(found: Seen, kind: Kind) -> list[str]:
    """Names of the objects of a kind."""
    return [each["metadata"]["name"] for each in found.objects[kind]]


def following(fake: Any, namespace: str | None) -> Any:
    """The iterator, and what it saw first."""
    follow = placing.follow(fake, namespace, placing.look(fake, namespace))
    return follow, next(follow)


def test_changes_of_all_kinds_are_followed() -> None:
    """An object that is new, changed or gone."""
    fake = Fake(job_objects.objects())
    follow, first = following(fake, None)
    assert sorted(named(first, Kind.POD_GROUP)) == ["big", "runs", "small"]
    assert named(first, Kind.NODE) == ["n1"]
    big, *_ = (each for each in fake.found[Kind.POD_GROUP] if each["metadata"]["name"] == "big")
    changed = copy.deepcopy(big)
    job_objects.says(changed, "full", "2026-01-01T11:40:00Z")
    fake.script.put(Change(item=changed))
    second = next(follow)
    assert changed in second.objects[Kind.POD_GROUP]
    fake.script.put(Change(item=changed, gone=True))
    assert sorted(named(next(follow), Kind.POD_GROUP)) == ["runs", "small"]


def test_a_tenant_follows_its_namespace() -> None:
    """Kinds that it may not read stay away; what is left out is still told."""
    fake = Fake(job_objects.objects(), "default")
    _, first = following(fake, "default")
    assert set(first.objects) == {Kind.QUEUE, *placing.GROUPS, Kind.COMPOSITE_POD_GROUP, Kind.POD}
    assert Kind.NODE in first.left_out


@pytest.mark.parametrize("missing", [Kind.HYPER_NODE, Kind.QUOTA])
def test_only_hyper_nodes_may_not_be_served(missing: Kind) -> None:
    """Their CRD is Volcano's or ours; all other kinds are Kubernetes' own."""

    class Without(Fake):
        def list(self, kind: Kind) -> cluster_client.Listing:
            if kind is missing:
                raise NotServed("no such kind")
            return super().list(kind)

    cluster: Any = Without(job_objects.objects())
    if missing is Kind.HYPER_NODE:
        assert placing.surroundings(cluster) == []
        return
    with pytest.raises(NotServed):
        placing.surroundings(cluster)


def test_a_right_that_is_taken_away_ends_it() -> None:
    """Anything else is tried again."""
    fake = Fake(job_objects.objects())
    follow, _ = following(fake, None)
    fake.script.put(Forbidden("no more"))
    with pytest.raises(Forbidden, match="no more"):
        next(follow)


def jobs(*groups: dict[str, Any]) -> list[Job]:
    """Jobs of these PodGroups."""
    return job_figures.jobs_of(groups, [], Places(found={}))


@pytest.mark.parametrize(
    ("output", "lines"),
    [("table", ["podgroup/b", "ns/a is gone"]), ("name", ["podgroup/b"])],
)
def test_only_what_changed_is_printed_again(
    capsys: pytest.CaptureFixture[str], output: str, lines: list[str]
) -> None:
    """Titles come once; a note, too."""
    a, b = ({"metadata": {"name": name, "namespace": "ns"}} for name in "ab")
    show = Listing(output=output, headers=True, namespaces=False, chosen=Selection())
    seen = Seen(left_out={Kind.NODE: "no"})
    show.again(jobs(a, b), seen)
    first = capsys.readouterr()
    assert [line.split()[0] for line in first.out.splitlines()] == [
        *(["WORKLOAD"] if output == "table" else []),
        "podgroup/a",
        "podgroup/b",
    ]
    assert "you may not list nodes in the whole cluster" in first.err
    show.again(jobs(a, b), seen)
    assert capsys.readouterr() == ("", "")
    show.again(jobs(b | {"status": {"phase": "Running"}}), seen)
    shown = capsys.readouterr().out.splitlines()
    assert [line[: len(lines[at])] for at, line in enumerate(shown)] == lines


class Bare(Fake):
    """A cluster without Volcano's kinds."""

    without: tuple[Kind, ...] = placing.VOLCANO

    def list(self, kind: Kind) -> cluster_client.Listing:
        """No such kinds."""
        if kind in self.without:
            raise NotServed(f"this cluster has no kind {kind}")
        return super().list(kind)


def test_volcanos_kinds_need_not_be_served_where_kubernetes_own_are() -> None:
    """All jobs are in one queue then, and that is said."""
    cluster: Any = Bare(job_objects.objects())
    seen = placing.look(cluster, None)
    assert Kind.QUEUE not in seen.objects
    assert seen.notes == (placing.NO_QUEUES,)
    assert not placing.options(seen, "vscheduler", BUILT_IN).queues_served
    other: Any = Fake(job_objects.objects())
    assert placing.options(placing.look(other, None), "vscheduler", BUILT_IN).queues_served
    cluster.without = (*placing.VOLCANO, Kind.NATIVE_POD_GROUP)
    with pytest.raises(NotServed, match="no kind Queue"):
        placing.look(cluster, None)


NOTE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}
SPACE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "lab", "annotations": {"scheduling.volcano.sh/queue-name": "shop"}},
}


def lonely() -> Bare:
    """Two pods with room for one of them, and one of kube-scheduler; a group of two."""
    found = job_objects.objects("node n1 cpu=1\nqueue shop")
    for name, node, scheduler in (
        ("a", "n1", "vscheduler"),
        ("b", "", "vscheduler"),
        ("k", "", ""),
    ):
        pod = a_pod(name, on=node)
        pod["metadata"]["namespace"] = "lab"
        pod["metadata"]["creationTimestamp"] = "2026-01-01T11:00:00Z"
        pod["spec"] |= {"schedulerName": scheduler}
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = 1
        if name == "b":
            pod["status"]["conditions"] = [NOTE]
            job_objects.owned(pod, "Job", "fit")
        found[Kind.POD].append(pod)
    found[Kind.NAMESPACE].append(SPACE)
    found[Kind.NODE][0]["status"]["allocatable"]["cpu"] = "1500m"
    return Bare(found)


def test_pods_without_groups_are_jobs_where_there_are_no_groups_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the queue of their namespace; those of kube-scheduler aren't."""
    cluster = lonely()
    cluster.without = (Kind.POD_GROUP,)
    monkeypatch.setattr(cluster_client, "opened", lambda *_: job_objects.opened(cluster))
    done = testing.CliRunner().invoke(main.vscheduler, ["job", "list", "-A", "-o", "json"])
    found = {each["podGroup"]: each for each in json.loads(done.stdout)["jobs"]}
    assert set(found) == {"a@pod", "b@pod"}
    assert (found["a@pod"]["workload"], found["a@pod"]["state"]) == ("pod/a", "Running")
    waits = found["b@pod"]
    assert (waits["workload"], waits["queue"], waits["message"]) == ("job/fit", "shop", "full")
    assert waits["pods"] == {"running": 0, "minimum": 1, "total": 1}
    assert (waits["place"]["inQueue"], waits["place"]["ofAll"]) == (1, 1)


def test_the_queue_of_the_owner_comes_before_that_of_the_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where there are PodGroups for other pods; a pod that nobody knows may get one."""
    cluster = lonely()
    cluster.without = ()
    texts = {"scheduling.volcano.sh/queue-name": "own"}
    metadata = {"name": "fit", "namespace": "lab", "annotations": texts}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    cluster.found[Kind.JOB].append(owner)
    cluster.found[Kind.QUEUE] += job_objects.objects("queue own")[Kind.QUEUE]
    unknown = a_pod("c")
    unknown["metadata"]["namespace"] = "lab"
    cluster.found[Kind.POD].append(unknown)
    monkeypatch.setattr(cluster_client, "opened", lambda *_: job_objects.opened(cluster))
    done = testing.CliRunner().invoke(main.vscheduler, ["job", "list", "-A", "-o", "json"])
    found = {each["podGroup"]: each for each in json.loads(done.stdout)["jobs"]}
    assert {name: each["queue"] for name, each in found.items()} == {
        "a@pod": "shop",
        "b@pod": "own",
    }
    assert found["b@pod"]["place"]["ofQueue"] == 1


@pytest.mark.parametrize("name", ["b", "pod/b", "job/fit"])
def test_why_a_pod_waits_that_starts_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """With what would start it."""
    cluster = lonely()
    cluster.without = (Kind.POD_GROUP,)
    monkeypatch.setattr(cluster_client, "opened", lambda *_: job_objects.opened(cluster))
    done = testing.CliRunner().invoke(main.vscheduler, ["job", "why", name, "-n", "lab"])
    assert "Pod b, queue shop: 0 of 1 pod run" in done.stdout, done.output
    assert "full" in done.stdout
    assert "add 1 more node like n1" in done.stdout
    assert "let its pods ask for 0.5 cpu" in done.stdout


def test_another_queue_for_a_pod_that_starts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its annotation names it."""
    cluster = lonely()
    cluster.without = (Kind.POD_GROUP,)
    (pod,) = (each for each in cluster.found[Kind.POD] if each["metadata"]["name"] == "b")
    pod["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": "shup"}
    (node,) = cluster.found[Kind.NODE]
    node["status"]["allocatable"] |= {"cpu": "2"}
    monkeypatch.setattr(cluster_client, "opened", lambda *_: job_objects.opened(cluster))
    done = testing.CliRunner().invoke(main.vscheduler, ["job", "why", "b", "-n", "lab"])
    assert "name queue shop instead of shup" in done.stdout, done.output
