"""How schedulers are configured, read from the manifests that install them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from vscheduler.cli import deployed, run
from vscheduler.cli.deployed import Found
from vscheduler.cli.queue.cluster_client import ClusterError, Forbidden, Kind, Listing
from vscheduler.daemon import configuration

FOLDER = Path(__file__).parents[3] / "manifests"
NAMES = ("scheduler/deployment", "scheduler/configuration", "controllers/deployment")


class Fake:
    """A namespace with the objects of our manifests."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = [
            yaml.safe_load((FOLDER / f"{name}.yaml").read_text()) for name in NAMES
        ]
        self.refusal: ClusterError | None = None

    @property
    def arguments(self) -> list[str]:
        """The scheduler's, to change them."""
        container = self.objects[0]["spec"]["template"]["spec"]["containers"][0]
        found: list[str] = container["args"]
        return found

    def list(self, kind: Kind) -> Listing:
        """Those of a kind."""
        if self.refusal is not None:
            raise self.refusal
        return Listing(items=[each for each in self.objects if each["kind"] == kind], version="")


@pytest.fixture
def cluster() -> Fake:
    """As `kubectl apply -k manifests` leaves it."""
    return Fake()


def read(cluster: Fake) -> Found:
    """What is found in it."""
    return deployed.of_objects(cluster, "volcano-system")


def test_flags_and_configuration_are_those_of_the_deployment(cluster: Fake) -> None:
    """The controllers' Deployment is none of a scheduler."""
    cluster.arguments.append("--node-selector=pool=batch")
    found = read(cluster)
    assert (list(found.schedulers), found.problems) == (["vscheduler"], [])
    scheduler = found.schedulers["vscheduler"]
    assert scheduler.place == "ConfigMap volcano-system/vscheduler"
    assert scheduler.settings.node_selector == (("pool", "batch"),)
    own = configuration.parse(cluster.objects[1]["data"]["scheduler.yaml"], "x").policy
    assert scheduler.digest == configuration.digest(own, scheduler.settings)


def test_a_scheduler_without_a_file_has_the_built_in_configuration(cluster: Fake) -> None:
    """Under each of its names; variables count like flags, which win."""
    arguments = cluster.arguments
    arguments.remove("--scheduler-conf=/etc/vscheduler/scheduler.yaml")
    arguments.append("--scheduler-name=other")
    container = cluster.objects[0]["spec"]["template"]["spec"]["containers"][0]
    container["env"].append({"name": "VSCHEDULER_DEFAULT_QUEUE", "value": "lab"})
    found = read(cluster)
    assert sorted(found.schedulers) == ["other", "vscheduler"]
    scheduler = found.schedulers["other"]
    assert scheduler.settings.default_queue == "lab"
    assert scheduler.policy == configuration.load("").policy


def test_a_lease_tells_of_the_built_in_configuration(cluster: Fake) -> None:
    """By its digest, so that nobody has to name it on machines without any Deployment."""
    digest = configuration.digest(configuration.load("").policy, run.settings_of([]))
    cluster.objects = [
        {
            "kind": "Lease",
            "metadata": {"name": name, "annotations": {"vscheduler/configuration": each}},
        }
        for name, each in (("mine", digest), ("other", "abc"))
    ]
    found = read(cluster)
    assert set(found.schedulers) == {"mine"}
    assert (found.schedulers["mine"].digest, found.problems) == (digest, [])


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("--scheduler-conf=/elsewhere.yaml", "/elsewhere.yaml is no key of a ConfigMap"),
        ("--scheduler-name=Bad_Name", "--scheduler-name: "),
        ("--no-such-flag", "No such option"),
    ],
)
def test_what_can_not_be_told_is_said(cluster: Fake, argument: str, says: str) -> None:
    """With the Deployment."""
    cluster.arguments.append(argument)
    found = read(cluster)
    (problem,) = found.problems
    assert not found.schedulers
    assert problem.startswith("Deployment volcano-system/vscheduler: ")
    assert says in problem


def test_users_who_may_not_read_them_get_none(cluster: Fake) -> None:
    """And no error: tenants have other ways."""
    cluster.refusal = Forbidden("cannot list")
    assert read(cluster) == Found(schedulers={}, problems=["cannot list"])
