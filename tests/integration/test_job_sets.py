"""JobSets, of JobSet's own controller, whose pods name PodGroups of Kubernetes' own API."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import control_plane
from sandbox.client import Object
from sandbox.contents import NATIVE_POD_GROUPS
from sandbox.control_plane import ControlPlane
from tests.integration import daemons, job_sets, permissions
from tests.integration.daemons import ALONE, Daemon
from vscheduler.mirror import paths

pytestmark = pytest.mark.at_length

NAMESPACE = "default"
GROUPS = NATIVE_POD_GROUPS.within(NAMESPACE)
VERSION = "jobset.x-k8s.io/v1alpha2"
JOB_SETS = f"/apis/{VERSION}/namespaces/{NAMESPACE}/jobsets"
COMPLETES = {"vscheduler.sandbox/completes-after": "1s"}


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with Kubernetes' own gang API, and with JobSet's controller."""
    with (
        control_plane.start(with_gang_api=True) as running,
        job_sets.running(running, tmp_path_factory.mktemp("jobset")),
    ):
        yield running


@pytest.fixture
def daemon(native: ControlPlane, tmp_path: Path) -> Iterator[Daemon]:
    """A scheduler with the shipped roles."""
    account = permissions.permit_account(native, permissions.TESTED, "vscheduler")
    running = Daemon(account, tmp_path / "log", ALONE)
    yield running
    running.kill()
    assert running.said("work.failed") == []


def replicated(name: str, replicas: int, pods: int) -> Object:
    """Jobs of a JobSet, with so many pods each; all pods are in PodGroup `tune`."""
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    spec = {
        "schedulerName": "vscheduler",
        "schedulingGroup": {"podGroupName": "tune"},
        "containers": containers,
    }
    pod = {"metadata": {"annotations": COMPLETES}, "spec": spec}
    job = {"spec": {"parallelism": pods, "completions": pods, "template": pod}}
    return {"name": name, "replicas": replicas, "template": job}


def test_a_job_set_is_one_gang(native: ControlPlane, daemon: Daemon) -> None:
    """A driver and two Jobs of two workers start together in the queue of their PodGroup, as soon
    as all five fit, and the JobSet completes.
    """
    native.create_nodes(count=1, cpu="4", memory="64Gi")
    queue = {"apiVersion": paths.VOLCANO, "kind": "Queue", "metadata": {"name": "research"}}
    native.api.create(paths.QUEUES.everywhere, queue)
    named = {"name": "tune", "annotations": {"scheduling.volcano.sh/queue-name": "research"}}
    spec = {"schedulingPolicy": {"gang": {"minCount": 5}}}
    native.api.create(GROUPS, {"metadata": named, "spec": spec})
    jobs = [replicated("driver", 1, 1), replicated("workers", 2, 2)]
    head = {"apiVersion": VERSION, "kind": "JobSet", "metadata": {"name": "tune"}}
    native.api.create(JOB_SETS, {**head, "spec": {"replicatedJobs": jobs}})

    def phase() -> tuple[str, str]:
        (group,) = native.api.list(GROUPS)
        conditions = {each["type"]: each for each in group.get("status", {}).get("conditions", ())}
        found = conditions.get("vscheduler.io/Phase", {"reason": "", "message": ""})
        return found["reason"], found["message"]

    daemons.until(lambda: phase() == ("Pending", "queue research"), daemon)
    assert daemons.nodes_of(native) == {}
    native.create_nodes(count=1, first=1, cpu="1", memory="64Gi")
    native.api.wait_for(f"{JOB_SETS}/tune", _is_completed)
    assert phase() == ("Completed", "queue research")


def _is_completed(job_set: Object) -> bool:
    conditions = job_set.get("status", {}).get("conditions", ())
    return any(each["type"] == "Completed" and each["status"] == "True" for each in conditions)
