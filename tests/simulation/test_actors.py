"""The actors keep a cluster busy without the daemon, and always in the same way."""

import hashlib
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation import actors
from tests.simulation.actors import controllers, device_users, objects
from tests.simulation.actors.base import Object
from tests.simulation.actors.binder import Binder
from tests.simulation.actors.informers import path
from tests.simulation.actors.objects import Template
from tests.simulation.api_server.server import ApiServer, Client
from tests.simulation.judges import devices
from tests.simulation.judges import objects as reading
from tests.simulation.kernel.core import Kernel

ROOT = Path(__file__).parents[2]
SMALL = actors.Scale(nodes=3, jobs=6, job_seconds=200, launch_seconds=30, quiet=2.0)
SCHEDULER = "volcano"
QUIET = actors.Scale(nodes=2, jobs=0, without=actors.RESTLESS)
"""A world in which only controllers and kubelets are at work."""


class Run:
    """A world with a binder in place of the daemon."""

    def __init__(self, seed: str = "seed", scale: actors.Scale = QUIET) -> None:
        self.kernel = Kernel(seed)
        self.server = ApiServer(self.kernel, random.Random(f"{seed}/server"))
        chance = random.Random(f"{seed}/actors")
        self.world = actors.populate(self.server, self.kernel, chance, scale)
        self.world.add("naive", Binder, store=self.world.store, scheduler=SCHEDULER)
        self.world.units["naive"].start()
        self.client = Client(self.server, "test")

    def create(self, plural: str, body: Object, seconds: float = 0.0) -> Object:
        """Create an object in the namespace default, and let some time pass."""
        made = self.client.create(path(plural, "default"), body)
        self.kernel.run(seconds)
        return made

    def pods(self) -> list[Object]:
        """The pods there."""
        return self.client.list(path("pods", "default"))

    def phases(self) -> Counter[str]:
        """How many pods are in each phase."""
        return Counter(map(reading.phase, self.pods()))

    def node(self, name: str) -> Object:
        """A node."""
        return self.client.get(path("nodes", name=name))


def template(cpu: str = "100m", **annotations: str) -> Template:
    """Pods for the binder."""
    return Template(
        scheduler=SCHEDULER,
        requests={"cpu": cpu},
        annotations=annotations,
        restarts=not annotations,
    )


def digest(seed: str, hours: float) -> str:
    """A run's history as one word."""
    run = Run(seed, SMALL)
    run.kernel.run(hours * 3600)
    told = hashlib.sha256()
    for each in run.server.history:
        line = [each.at, each.user, each.verb, each.resource, each.name, each.code, each.after]
        told.update(json.dumps(line).encode())
    return f"{len(run.server.history)} {told.hexdigest()}"


def test_the_same_seed_gives_the_same_history() -> None:
    """Half an hour in two processes whose hashes differ, byte for byte."""
    code = "from tests.simulation import test_actors; print(test_actors.digest('7', 0.5))"
    found = [
        subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert int(found[0].split()[0]) > 500
    assert found[0] == found[1]


def test_leaving_a_unit_out_changes_no_draw_of_the_others() -> None:
    """Each has chance of its own."""
    less = actors.Scale(nodes=3, jobs=6, without=("gangs", "outages"))
    draws = []
    for scale in (SMALL, less):
        units = Run(scale=scale).world.units
        draws.append({name: units[name].chance.getstate() for name in units})
    assert set(draws[0]) - set(draws[1]) == {"gangs", "outages"}
    assert draws[1].items() <= draws[0].items()


def test_a_calm_world_changes_nothing_any_more() -> None:
    """But heartbeats: users stop, jobs end, and nodes come back."""
    run = Run(scale=actors.Scale(nodes=3, jobs=6, job_seconds=20, quiet=0.3))
    run.kernel.run(300)
    run.world.calm()
    run.kernel.run(900)
    before = len(run.server.history)
    run.kernel.run(300)
    later = Counter((each.user, each.resource) for each in run.server.history[before:])
    assert set(later) <= {("kubelets", "nodes")}
    assert all(map(reading.ready, run.client.list(path("nodes"))))


def test_jobs_run_to_completion() -> None:
    """Failed pods are replaced, up to a limit."""
    run = Run()
    fails = {objects.SECONDS: "10", objects.FAILS: "100"}
    good = objects.job("good", template(**{objects.SECONDS: "10"}), 3)
    run.create("jobs", good)
    run.create("jobs", objects.job("bad", template(**fails), 1, backoffLimit=2), 200)
    jobs = {each["metadata"]["name"]: each for each in run.client.list(path("jobs", "default"))}
    assert controllers.finished(jobs["good"])
    assert jobs["good"]["status"]["succeeded"] == 3
    assert jobs["bad"]["status"]["conditions"][0]["type"] == "Failed"
    assert run.phases() == {"Succeeded": 3, "Failed": 3}


def test_a_kubelet_refuses_what_does_not_fit() -> None:
    """And the ReplicaSet replaces it under a new name."""
    run = Run()
    name = run.client.list(path("nodes"))[0]["metadata"]["name"]
    pod = objects.pod("first", template("3").written())
    pod["spec"]["nodeName"] = name
    run.create("pods", pod, 5)
    again = objects.pod("second", template("15").written())
    again["spec"]["nodeName"] = name
    run.create("pods", again, 5)
    found = {pod["metadata"]["name"]: pod["status"] for pod in run.pods()}
    assert found["first"]["phase"] == "Running"
    assert (found["second"]["phase"], found["second"]["reason"]) == ("Failed", "OutOfcpu")


def test_a_kubelet_asks_no_node_for_what_a_claim_has() -> None:
    """Devices that an extended resource stands for are in no node's amounts."""
    run = Run()
    name = run.client.list(path("nodes"))[0]["metadata"]["name"]
    mapping = {"containerName": "main", "resourceName": devices.EXTENDED, "requestName": "r"}
    status = {"resourceClaimName": "claim", "requestMappings": [mapping]}
    for each, told in (("with", {"extendedResourceClaimStatus": status}), ("without", {})):
        pod = objects.pod(each, device_users.asking_by_name(template(), 1).written())
        pod["spec"]["nodeName"] = name
        run.create("pods", pod)
        run.client.patch(path("pods", "default", each, "status"), {"status": told})
        run.kernel.run(5)
    found = {pod["metadata"]["name"]: pod["status"] for pod in run.pods()}
    assert found["with"]["phase"] == "Running"
    refused = found["without"]["phase"], found["without"]["reason"]
    assert refused == ("Failed", f"OutOf{devices.EXTENDED}")


def test_deployments_scale() -> None:
    """By their ReplicaSets; a new template replaces all pods."""
    run = Run()
    run.create("deployments", objects.workload("Deployment", "d", template(), 3), 10)
    first = {pod["metadata"]["name"] for pod in run.pods()}
    assert run.phases() == {"Running": 3}
    where = path("deployments", "default", "d")
    change = {"template": {"metadata": {"annotations": {"a": "b"}}}, "replicas": 2}
    run.client.patch(where, {"spec": change})
    run.kernel.run(60)
    assert run.phases() == {"Running": 2}
    assert not first & {pod["metadata"]["name"] for pod in run.pods()}
    assert len(run.client.list(path("replicasets", "default"))) == 1


def test_deployments_retire_earlier_sets_in_turns_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many can't go yet, and however often they are looked at, the next turn is one."""
    run = Run()
    run.create("deployments", objects.workload("Deployment", "d", template(), 1), 10)
    for number in range(3):
        for pod in run.pods():
            kept = {"metadata": {"finalizers": ["example.com/kept"]}}
            run.client.patch(path("pods", "default", pod["metadata"]["name"]), kept)
        change = {"template": {"metadata": {"annotations": {"a": str(number)}}}}
        run.client.patch(path("deployments", "default", "d"), {"spec": change})
        run.kernel.run(30)
    assert len(run.client.list(path("replicasets", "default"))) == 4
    turns: list[Object] = []
    deployments = run.world.units["deployments"]
    monkeypatch.setattr(deployments, "reconcile", turns.append)
    run.kernel.run(controllers.RETIREMENT_SECONDS)
    assert len(turns) == 1


def test_names_of_a_stateful_set_come_back() -> None:
    """A deleted pod is created again, as another one."""
    run = Run()
    run.create("statefulsets", objects.workload("StatefulSet", "s", template(), 2), 20)
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in run.pods()}
    run.client.delete(path("pods", "default", "s-0"))
    run.kernel.run(40)
    again = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in run.pods()}
    assert again.keys() == uids.keys() == {"s-0", "s-1"}
    assert again["s-0"] != uids["s-0"]


def test_dependents_go_with_their_owner() -> None:
    """The garbage collector deletes the pods of a deleted Job, and of an owner that never was."""
    run = Run()
    run.create("jobs", objects.job("j", template(**{objects.SECONDS: "900"}), 2), 10)
    orphan = objects.pod("orphan", template().written())
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "no", "uid": "no"}
    orphan["metadata"]["ownerReferences"] = [owner]
    run.create("pods", orphan, 1)
    run.client.delete(path("jobs", "default", "j"))
    run.kernel.run(60)
    assert run.pods() == []


def test_pods_stay_as_orphans() -> None:
    """Where their owner is deleted without them; then the owner goes, too."""
    run = Run()
    run.create("jobs", objects.job("j", template(**{objects.SECONDS: "900"}), 2), 10)
    run.client.delete(path("jobs", "default", "j"), propagationPolicy="Orphan")
    run.kernel.run(60)
    assert run.client.list(path("jobs", "default")) == []
    assert [pod["metadata"].get("ownerReferences") for pod in run.pods()] == [None, None]


def test_pods_leave_a_machine_that_is_down() -> None:
    """Once their tolerations end; their node is tainted until it is back."""
    run = Run()
    run.create("deployments", objects.workload("Deployment", "d", template(), 4), 20)
    name = reading.node_of(run.pods()[0])
    run.world.machines.switch(name, on=False)
    run.kernel.run(60)
    assert objects.UNREACHABLE in {each["key"] for each in run.node(name)["spec"]["taints"]}
    run.kernel.run(60)
    there = [pod for pod in run.pods() if reading.node_of(pod) == name]
    assert there
    assert all(map(reading.leaving, there))
    run.world.machines.restore()
    run.kernel.run(60)
    assert reading.ready(run.node(name))
    assert "taints" not in run.node(name)["spec"]
    assert run.phases() == {"Running": 4}


def test_budgets_are_told_what_is_allowed() -> None:
    """Healthy pods, less those that must stay."""
    run = Run()
    run.create("deployments", objects.workload("Deployment", "d", template(), 3))
    budget = objects.budget("b", {"app": "d"}, minAvailable=2)
    run.create("poddisruptionbudgets", budget, 20)
    status = run.client.get(path("poddisruptionbudgets", "default", "b"))["status"]
    assert (status["currentHealthy"], status["disruptionsAllowed"]) == (3, 1)
