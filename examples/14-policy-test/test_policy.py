"""Tests that a configuration keeps the promises to tenants. No cluster is needed."""

from pathlib import Path

import yaml

from vscheduler.core import actions, compat, plugins
from vscheduler.core.config import policy
from vscheduler.simulator import run
from vscheduler.simulator.run import Options

CONFIGURATION = Path(__file__).parent / "scheduler.conf"
VOLCANO = "scheduling.volcano.sh/v1beta1"


def node(name, cpu):
    allocatable = {"cpu": cpu, "pods": 110}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": allocatable},
    }


def queue(name, weight):
    return {
        "apiVersion": VOLCANO,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": weight},
    }


def job(name, *, pods, minimum, on=None):
    """Return a PodGroup in the queue of the same name, with running or waiting pods of 1 CPU."""
    group = {
        "apiVersion": VOLCANO,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"queue": name, "minMember": minimum},
        "status": {"phase": "Running" if on else "Pending"},
    }
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": 1}}}
    return [group] + [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{number}",
                "annotations": {"scheduling.k8s.io/group-name": name},
            },
            "spec": {"schedulerName": "vscheduler", "nodeName": on, "containers": [container]},
            "status": {"phase": "Running" if on else "Pending"},
        }
        for number in range(pods)
    ]


CLUSTER = [node("n1", 8), queue("tenant", 1), queue("guest", 1)]


def after(*jobs, cycles=3):
    """Return the names of bound and of evicted pods, and the reasons of waiting jobs."""
    text = CONFIGURATION.read_text()
    parsed = policy.parse(yaml.safe_load(text), plugins.PLUGINS, actions.ACTIONS, compat.VOLCANO)
    assert not parsed.problems
    manifests = [*CLUSTER, *(each for job in jobs for each in job)]
    outcome = run.simulate(manifests, parsed.policy, Options(cycles=cycles))
    assert not outcome.problems
    reasons = {group.job: str(group.reason.code) for group in outcome.last.groups if group.reason}
    return (
        sorted(bind.task.name for bind in outcome.binds),
        sorted(evict.task.name for evict in outcome.evicts),
        reasons,
    )


def test_a_tenant_alone_may_use_everything():
    bound, evicted, reasons = after(job("guest", pods=8, minimum=1))
    assert (len(bound), evicted, reasons) == (8, [], {})


def test_a_tenant_gets_its_half_back_within_three_cycles():
    bound, evicted, _ = after(
        job("guest", pods=8, minimum=1, on="n1"), job("tenant", pods=4, minimum=4)
    )
    assert bound == ["tenant-0", "tenant-1", "tenant-2", "tenant-3"]
    assert len(evicted) == 4
    assert all(name.startswith("guest-") for name in evicted)


def test_a_tenant_that_requests_more_than_its_half_disturbs_nobody():
    bound, evicted, reasons = after(
        job("guest", pods=8, minimum=1, on="n1"), job("tenant", pods=5, minimum=5)
    )
    assert (bound, evicted) == ([], [])
    assert reasons == {"default/tenant": "NotEnoughResources"}
