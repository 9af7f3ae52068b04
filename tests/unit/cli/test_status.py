"""`vscheduler status`: what is wrong is said, each in a sentence."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from click import testing

from tests.unit.cli import job_objects
from tests.unit.cli import test_deployed as deployments
from tests.unit.cli.job_objects import Fake
from vscheduler.cli import deployed, main
from vscheduler.cli.queue import cluster_client
from vscheduler.cli.queue.cluster_client import Forbidden, Kind, NotServed, Object
from vscheduler.mirror import statuses

NOW = 1767225600.0
DIGEST = deployed.of_objects(deployments.Fake(), "volcano-system").schedulers["vscheduler"].digest
Run = Callable[..., testing.Result]


def lease(name: str, *, ago: float = 1.0, configuration: str = "", holder: str = "a-1") -> Object:
    """A Lease that was renewed so many seconds ago."""
    annotations = {"vscheduler/configuration": configuration} if configuration else {}
    return {
        "metadata": {"name": name, "namespace": "volcano-system", "annotations": annotations},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "acquireTime": statuses.timestamp(NOW - 600),
            "renewTime": statuses.timestamp(NOW - ago),
        },
    }


def well() -> list[Object]:
    """The Leases of a cluster in which nothing is wrong, and one of somebody else."""
    return [
        lease("vscheduler", configuration=DIGEST),
        lease("vscheduler-podgroups"),
        lease("vscheduler-controllers"),
        lease("vc-scheduler", ago=9000),
    ]


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A cluster in which all is well."""
    fake = Fake(job_objects.objects())
    fake.found[Kind.LEASE] = well()
    for each in deployments.Fake().objects:
        fake.found[Kind(each["kind"])].append(each)
    for each in fake.found[Kind.POD]:
        each["spec"]["schedulerName"] = "vscheduler"
    monkeypatch.setattr(cluster_client, "opened", lambda *_: job_objects.opened(fake))
    monkeypatch.setattr(time, "time", lambda: NOW)
    return fake


def run(*words: str) -> testing.Result:
    """Run the command."""
    return testing.CliRunner().invoke(main.vscheduler, ["status", *words])


@pytest.mark.usefixtures("source")
def test_all_is_well() -> None:
    """A line for each Lease of ours, and where the configuration in force comes from."""
    done = run()
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:4]] == [
        "LEASE",
        "vscheduler",
        "vscheduler-controllers",
        "vscheduler-podgroups",
    ]
    assert lines[1].split()[1:] == [
        *("a-1", "10m", "1s", "ago", DIGEST),
        *("ConfigMap", "volcano-system/vscheduler"),
    ]
    assert lines[-1] == "Nothing is wrong."
    tree = json.loads(run("-o", "json").stdout)
    assert (tree["problems"], tree["leases"][0]["led"]) == ([], True)


def change(source: Fake, what: str) -> None:
    """Make one thing wrong."""
    leases: list[Any] = source.found[Kind.LEASE]
    match what:
        case "old":
            leases[0] = lease("vscheduler", ago=7200, configuration=DIGEST)
        case "released":
            leases[0] = lease("vscheduler", configuration=DIGEST, holder="")
        case "controllers":
            del leases[2]
        case "podgroups":
            del leases[1]
        case "configuration":
            leases[0] = lease("vscheduler", configuration="abc")
        case "never":
            del leases[:2]
            source.found[Kind.POD] = []
        case "other":
            source.found[Kind.POD][-1]["spec"]["schedulerName"] = "other"
        case "invalid":
            source.found[Kind.CONFIG_MAP][0]["data"] = {"scheduler.yaml": "actions: 7\ntiers: []\n"}
        case "refused":
            condition = {"reason": "BindRefused", "status": "True", "message": "by a webhook"}
            source.found[Kind.POD_GROUP][0]["status"] = {"conditions": [condition]}


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("old", "Nobody leads vscheduler: its Lease was last renewed 120m ago."),
        ("released", "Nobody leads vscheduler: its last leader gave it up 1s ago."),
        ("controllers", "No controllers run: there is no Lease vscheduler-controllers"),
        ("podgroups", "Nobody creates PodGroups for vscheduler"),
        (
            "configuration",
            "vscheduler is led with configuration abc, but ConfigMap ",
        ),
        ("never", "Nobody has ever led vscheduler, though a Deployment runs it"),
        ("other", "1 pod without a node names scheduler other, for which no Lease exists"),
        (
            "invalid",
            "Deployment volcano-system/vscheduler: ConfigMap ",
        ),
        ("refused", " are refused: by a webhook"),
    ],
)
def test_what_is_wrong_is_said(source: Fake, what: str, says: str) -> None:
    """With exit status 1."""
    change(source, what)
    done = run()
    assert done.exit_code == 1
    assert says in done.stdout
    assert "Nothing is wrong" not in done.stdout


def test_a_cluster_without_a_scheduler(source: Fake) -> None:
    """That nobody keeps Queues either comes after it."""
    source.found[Kind.LEASE] = source.found[Kind.DEPLOYMENT] = []
    done = run()
    assert done.exit_code == 1
    first, second, *_ = done.stdout.splitlines()
    assert first == "No scheduler runs: it has no Lease, and no Deployment."
    assert second.startswith("No controllers run: ")


def without_election(source: Fake, ago: float) -> None:
    """No Leases, but statuses that were written so many seconds ago, beside a user's change."""
    source.found[Kind.LEASE] = []
    source.found[Kind.DEPLOYMENT] = []
    applied = {"operation": "Apply", "subresource": "status", "time": statuses.timestamp(NOW - ago)}
    source.found[Kind.QUEUE][0]["metadata"]["managedFields"] = [
        {"manager": "kubectl-edit", "operation": "Update", "time": statuses.timestamp(NOW)},
        {"manager": "vscheduler", **applied},
        {"manager": "vscheduler-controllers", **applied},
    ]


def test_without_leader_election_there_is_no_lease(source: Fake) -> None:
    """Whoever wrote the status of a Queue lately runs, or did until then: that is no problem."""
    without_election(source, 30)
    done = run()
    assert (done.exit_code, done.stderr) == (0, "")
    *lines, last = done.stdout.splitlines()
    said = "has no Lease, and wrote the status of a Queue 30s ago: it runs without leader election"
    names = ("vscheduler", "vscheduler-controllers")
    assert lines == [f"{name} {said}, or has ended since." for name in names]
    assert last == "Nothing is wrong."
    tree = json.loads(run("-o", "json").stdout)
    assert tree["withoutElection"][0] == {"name": "vscheduler", "wroteSecondsAgo": 30.0}
    without_election(source, 7200)
    done = run()
    assert done.exit_code == 1
    assert "No controllers run: there is no Lease vscheduler-controllers" in done.stdout


def test_a_cluster_without_our_kinds(source: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to apply is said."""
    listed = source.list

    def without(kind: Kind) -> Any:
        if kind in {Kind.QUEUE, Kind.POD_GROUP, Kind.NATIVE_POD_GROUP}:
            raise NotServed(f"this cluster has no kind {kind}; apply the files in crds/")
        return listed(kind)

    monkeypatch.setattr(source, "list", without)
    done = run()
    assert done.exit_code == 1
    assert "this cluster has no kind Queue; apply the files in crds/" in done.stdout


def test_who_may_read_little_is_told_what_was_not_read(
    source: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What isn't known is no problem of the cluster's."""

    def refused(*_: object) -> Any:
        raise Forbidden("cannot list it")

    monkeypatch.setattr(source, "within", lambda _: type("Inside", (), {"list": refused})())
    monkeypatch.setattr(source, "unbound_pods", refused)
    done = run()
    assert done.exit_code == 0
    assert "not read: cannot list it" in done.stderr
