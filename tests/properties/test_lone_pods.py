"""A pod that is a job by itself is treated as one with a PodGroup of its own that says the same."""

import copy
import dataclasses
import random
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest

from tests import running
from tests.properties.worlds import configurations, generator, manifests
from tests.properties.worlds.manifests import Document, Workload
from vscheduler.simulator import run
from vscheduler.simulator.run import Options, Outcome

QUEUE = "scheduling.volcano.sh/queue-name"
SEEDS = 6
"""Of each configuration in every run."""
WORLDS = 200
CLASS = ("priorityClassName",)
CYCLES = 6
Decided: TypeAlias = list[tuple[dict[str, str], set[tuple[str, str]], dict[str, str]]]
"""By cycle: binds, evictions with their actions, and why pods wait."""


def split(workload: Workload) -> list[Workload]:
    """Where a group needs one pod only, a workload for each of its pods; gangs stay whole."""
    if workload.minimum > 1 or {"minTaskMember", "subGroupPolicy"} & workload.spec.keys():
        return [workload]
    return [
        dataclasses.replace(
            workload,
            name=f"{workload.name}-{number}",
            templates=(template,),
            spec={name: workload.spec[name] for name in CLASS if name in workload.spec},
        )
        for number, template in enumerate(workload.templates)
    ]


class Job:
    """A workload with its pods, which may be shown without its PodGroup."""

    def __init__(self, workload: Workload, now: float) -> None:
        self.group = manifests.pod_group(workload, now)
        self.single = len(workload.templates) == 1 and workload.minimum <= 1
        name = workload.spec.get("priorityClassName", "")
        self.pods = []
        for number, template in enumerate(workload.templates):
            pod_name = f"{workload.name}-p{number}"
            pod = manifests.pod(workload, template, pod_name, f"uid-{pod_name}", now)
            if name:
                priority = int(name.partition("-")[2])
                pod["spec"] |= {"priorityClassName": name, "priority": priority}
            self.pods.append(pod)
        if self.single:
            self._agree(workload)

    def _agree(self, workload: Workload) -> None:
        """The PodGroup is as the controllers make it for the pod."""
        (pod,) = self.pods
        requests = pod["spec"]["containers"][0].get("resources", {}).get("requests", {})
        metadata = self.group["metadata"]
        metadata |= {"uid": pod["metadata"]["uid"]}
        metadata["creationTimestamp"] = pod["metadata"]["creationTimestamp"]
        spec = self.group["spec"]
        spec["minResources"] = {**requests, "pods": "1"}
        pod["metadata"]["annotations"] |= {**workload.annotations, QUEUE: workload.queue}
        self.group["status"] = {"phase": "Pending"}
        (owner,) = pod["metadata"]["ownerReferences"]
        owner |= {"apiVersion": "apps/v1", "kind": "ReplicaSet"}

    def place(self, binds: dict[str, str]) -> None:
        """Pods that have been bound run."""
        for pod in self.pods:
            key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            if key in binds:
                pod["spec"]["nodeName"] = binds[key]
                pod["status"] = {"phase": "Running"}
                self.group["status"] = {"phase": "Running"}

    def shown(self, *, alone: bool) -> Iterator[Document]:
        """The documents, with the PodGroup or without."""
        if not (alone and self.single):
            yield self.group
            yield from self.pods
            return
        (pod,) = copy.deepcopy(self.pods)
        del pod["metadata"]["annotations"][manifests.GROUP]
        yield pod


def simulated(
    around: list[Document], jobs: list[Job], configuration: str, *, alone: bool, cycles: int
) -> Outcome:
    """What cycles decide on these jobs."""
    shown = [document for job in jobs for document in job.shown(alone=alone)]
    policy = running.policy_of(configurations.tree(configuration))
    options: dict[str, Any] = {"cycles": cycles, "now": manifests.BEGINNING + 100}
    names = (manifests.SCHEDULER,)
    return run.simulate([*around, *shown], policy, Options(scheduler_names=names, **options))


def decided(outcome: Outcome) -> Decided:
    """What can be compared."""
    return [
        (
            {bind.task.key: bind.node for bind in result.binds},
            {(evict.task.key, evict.action) for evict in result.evicts},
            {
                task.key: str(status.reason.code)
                for status in result.groups
                if status.reason is not None
                for task in status.unplaced
            },
        )
        for result in outcome.results
    ]


def is_treated_alike(seed: int, configuration: str, *, meeting: bool) -> tuple[int, int]:
    """In two waves of jobs; return how many pods are bound and evicted."""
    blueprint = generator.blueprint(
        seed, generator.SMALL, tree=configurations.has_tree(configuration), meeting=meeting
    )
    chance = random.Random(f"order {seed}")
    workloads = [part for each in blueprint.workloads for part in split(each)]
    chance.shuffle(workloads)
    jobs = [Job(each, manifests.BEGINNING + at) for at, each in enumerate(workloads)]
    around = list(blueprint.documents)
    first = jobs[: len(jobs) // 2]
    begun = simulated(around, first, configuration, alone=False, cycles=2)
    for job in first:
        job.place({bind.task.key: bind.node for bind in begun.binds})
    known = simulated(around, jobs, configuration, alone=False, cycles=CYCLES)
    alone = simulated(around, jobs, configuration, alone=True, cycles=CYCLES)
    assert not known.problems
    assert decided(alone) == decided(known), (seed, configuration, meeting)
    return len(begun.binds), len(known.evicts)


@pytest.mark.parametrize("configuration", configurations.PLAIN)
def test_pods_alone_are_treated_as_with_a_podgroup(configuration: str) -> None:
    """Beside gangs: shares, priorities, evictions, limits of queues and admission."""
    first = SEEDS * list(configurations.PLAIN).index(configuration)
    found = [
        is_treated_alike(seed, configuration, meeting=seed % 2 == 0)
        for seed in range(first, first + SEEDS)
    ]
    assert any(bound for bound, _ in found)


@pytest.mark.at_length
@pytest.mark.parametrize("configuration", configurations.PLAIN)
def test_pods_alone_are_treated_alike_in_many_worlds(configuration: str) -> None:
    """The same, with evictions."""
    step = len(configurations.PLAIN)
    first = list(configurations.PLAIN).index(configuration)
    found = [
        is_treated_alike(seed, configuration, meeting=seed // step % 2 == 0)
        for seed in range(first, WORLDS, step)
    ]
    assert any(evicted for _, evicted in found)
