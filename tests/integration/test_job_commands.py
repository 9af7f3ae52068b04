"""`vscheduler job` as a process, on a real API server: for an administrator, and for a tenant."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.control_plane import ControlPlane
from tests.integration import daemons, forking, test_auto_groups, test_tenants
from tests.integration.daemons import Start
from tests.integration.test_queue_commands import Command

PATIENCE_SECONDS = 120.0
WAITS = {
    "type": "Unschedulable",
    "status": "True",
    "reason": "NotEnoughResources",
    "message": "needs 2 cpu more",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def run(kubeconfig: Path | str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return forking.run("job", *words, f"--kubeconfig={kubeconfig}", seconds=PATIENCE_SECONDS)


@pytest.fixture
def jobs(cluster: ControlPlane) -> ControlPlane:
    """A node, the gang `big` that waits, and one of another namespace."""
    cluster.create_nodes(count=1, cpu="4")
    daemons.a_queue(cluster, "default")
    daemons.a_gang(cluster, "big", 3, cpu="4")
    status = {"phase": "Inqueue", "conditions": [WAITS]}
    cluster.api.patch(f"{daemons.GROUPS}/big", {"status": status})
    return cluster


def test_jobs_are_listed_and_explained(jobs: ControlPlane) -> None:
    """With the place in line, and the scheduler's own words."""
    done = run(jobs.kubeconfig, "list")
    assert (done.returncode, done.stderr) == (0, "")
    titles, row = done.stdout.splitlines()
    assert titles.split()[:4] == ["WORKLOAD", "QUEUE", "STATE", "RUN/MIN/ALL"]
    assert row.split()[:6] == ["podgroup/big", "default", "Inqueue", "0/3/3", "1/1", "1/1"]
    assert row.endswith("needs 2 cpu more")
    done = run(jobs.kubeconfig, "why", "big")
    assert done.returncode == 0
    assert "Place in line: 1 of 1 in queue default, 1 of 1 overall." in done.stdout
    done = run(jobs.kubeconfig, "get", "pg/big", "-o", "json")
    assert len(json.loads(done.stdout)["members"]) == 3
    done = run(jobs.kubeconfig, "get", "bih")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("did you mean podgroup/big?\n")


def test_an_automatic_podgroup_bears_the_name_of_its_workload(
    cluster: ControlPlane, start: Start
) -> None:
    """A Deployment, by its own name, and how its pods came to their node."""
    cluster.create_nodes(count=1, cpu="4")
    daemon = start(daemons.FOR_ALL)
    test_auto_groups.a_set(cluster, "Deployment", "web", 2)
    daemons.until(lambda: test_auto_groups.run(cluster, "web", 2), daemon)
    (group,) = cluster.api.list(daemons.GROUPS)
    assert group["metadata"]["name"].startswith("web-")
    shown = run(cluster.kubeconfig, "get", "deployment/web").stdout
    assert "Workload:   deployment/web\n" in shown
    assert sum(map(int, re.findall(r"(\d+) pods? bound: ", shown))) == 2  # not always at once
    assert "doesn't wait: it has been running" in run(cluster.kubeconfig, "why", "web").stdout
    assert daemon.stop() == 0


@pytest.fixture
def watch(jobs: ControlPlane, tmp_path: Path) -> Iterator[Command]:
    """The list, followed; it ends with the test."""
    command = Command(jobs.kubeconfig, tmp_path / "watch.txt", "list", "-w", program="job")
    yield command
    if command.process.poll() is None:
        command.process.kill()
        command.process.wait()


def test_a_watch_tells_what_changes(jobs: ControlPlane, watch: Command) -> None:
    """A new reason, and that a job is gone."""
    watch.wait_for(lambda text: "needs 2 cpu more" in text)
    change = {"status": {"conditions": [WAITS | {"message": "queue default is full"}]}}
    jobs.api.patch(f"{daemons.GROUPS}/big", change)
    watch.wait_for(lambda text: "queue default is full" in text)
    jobs.api.delete(f"{daemons.GROUPS}/big")
    watch.wait_for(lambda text: "default/big is gone" in text)


def test_a_tenant_asks_for_its_own_jobs(jobs: ControlPlane) -> None:
    """With the role `view` and nothing else: the place isn't known, and it says why."""
    test_tenants.apply(jobs, "apply", test_tenants.ROLES)
    with test_tenants.account(jobs, "asker", "view"):
        kubeconfig = jobs.kubeconfig_for_service_account("default", "asker")
        done = run(kubeconfig, "why", "big")
        assert done.returncode == 0, done.stderr
        assert "needs 2 cpu more" in done.stdout
        assert "Place in line" not in done.stdout
        assert "you may not list priorityclasses, nodes, podgroups and pods" in done.stderr
        done = run(kubeconfig, "list", "-n", "kube-public")
        assert (done.returncode, done.stdout) == (1, "")
        assert "cannot list resource" in done.stderr
    test_tenants.apply(jobs, "delete", test_tenants.ROLES)
