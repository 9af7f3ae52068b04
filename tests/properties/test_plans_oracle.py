"""Decisions in crowds, with and without all that placement keeps from one question to the next."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies

from tests import running
from tests.properties import clusters, crowds, journals
from tests.running import Tree
from vscheduler.core.eviction.preemptors import Preemptor
from vscheduler.core.placement import lookahead
from vscheduler.core.placement.lookahead import Lookahead
from vscheduler.core.placement.placement import Placement
from vscheduler.core.placement.plans import Plan
from vscheduler.core.placement.unschedulable_classes import UnschedulableClasses
from vscheduler.core.plugins.predicates import CachedRules, Predicates
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import Task
from vscheduler.model.jobs_by_id import NO_JOBS
from vscheduler.model.snapshot import FRESH

Document = crowds.Document
CYCLES = 4
EVERYTHING = "enqueue, allocate, backfill, preempt, reclaim, shuffle"
PACKS = "nodeorder binpack:binpack.weight=10"
GPU = crowds.GPU


def tree(tiers: str, **more: Any) -> Tree:
    """All actions, with these plugins."""
    return {"actions": EVERYTHING, "tiers": running.tiers(tiers), **more}


def with_arguments(tiers: str, name: str, arguments: Document) -> Tree:
    """The same, where one plugin is told more than a line of text can say."""
    found = tree(tiers)
    for tier in found["tiers"]:
        for plugin in tier["plugins"]:
            if plugin["name"] == name:
                plugin["arguments"] = arguments
    return found


FITS = {
    "resources": {GPU: {"type": "MostAllocated", "weight": 3}},
    "proportional": {
        "enable": True,
        "resources": GPU,
        "resourceProportion": {f"{GPU}.cpu": 1, f"{GPU}.memory": 1},
    },
}
ZONES = "tdm:tdm.revocable-zone.rz1=00:00-23:59,tdm.revocable-zone.rz2=01:00-02:00"
TREES: dict[str, Tree] = {
    "packs": tree(f"priority gang | predicates proportion {PACKS}"),
    "spreads": tree("priority gang | drf predicates proportion nodeorder"),
    "groups of nodes": tree(f"priority gang | predicates proportion nodegroup {PACKS}"),
    "capacity": tree(f"priority gang | predicates capacity {PACKS}"),
    "zones": tree(f"priority gang {ZONES} | predicates proportion {PACKS}"),
    "fits": with_arguments(
        f"priority gang | predicates resource-strategy-fit {PACKS}", "resource-strategy-fit", FITS
    ),
}


def drawn(seed: int) -> list[Document]:
    """A crowd in two queues, on nodes in groups and zones, for the plugins that look at these."""
    chance = random.Random(seed)
    documents = [document for document in crowds.documents(seed) if document["kind"] != "Queue"]
    for document in documents:
        labels = document["metadata"].setdefault("labels", {})
        if document["kind"] == "Node" and chance.random() < 0.8:
            labels["volcano.sh/nodegroup-name"] = chance.choice("ab")
        if document["kind"] == "Node" and chance.random() < 0.3:
            labels["volcano.sh/revocable-zone"] = chance.choice(("rz1", "rz2"))
        if document["kind"] == "PodGroup":
            document["spec"]["queue"] = chance.choice("qr")
        if document["kind"] == "Pod" and chance.random() < 0.4:
            marks = document["metadata"].setdefault("annotations", {})
            marks["volcano.sh/revocable-zone"] = "*"
    return [*documents, *(_queue(chance, name) for name in "qr")]


def _queue(chance: random.Random, name: str) -> Document:
    """It likes one group of nodes, may use both, and has limits in them."""
    groups = chance.sample("ab", 2)
    limits = {group: {"cpu": str(chance.randint(2, 16))} for group in groups}
    affinity = {
        "nodeGroupAffinity": {
            crowds.REQUIRED: groups,
            crowds.PREFERRED: groups[:1],
        }
    }
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {
            "name": name,
            "annotations": {"volcano.sh/nodegroup-resource-limits": json.dumps(limits)},
        },
        "spec": {"weight": chance.randint(1, 2), "affinity": affinity, "reclaimable": True},
        "status": {"state": "Open"},
    }


@contextmanager
def keeping_nothing() -> Iterator[None]:
    """Each question about a task is the first one."""
    plan, ruling = Placement._plan, Predicates._ruling

    def planned(found: Placement, task: Task) -> Plan:
        found._plans.clear()
        return plan(found, task)

    def ruled(found: Predicates, *of: Any) -> CachedRules:
        found._rulings.clear()
        found._spreads.clear()
        found._fixed.clear()
        return ruling(found, *of)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Placement, "_plan", planned)
        patch.setattr(Predicates, "_ruling", ruled)
        patch.setattr(Lookahead, "get", lambda *_: None)
        patch.setattr(lookahead, "DEPTH", 0)
        patch.setattr(UnschedulableClasses, "_member", lambda *_: None)
        patch.setattr(Preemptor, "class_key", lambda *_: None)
        yield


def history(documents: Sequence[Document], policy: str) -> list[CycleResult]:
    """Some cycles, each after what the one before decided."""
    now, carried, found = documents, FRESH, []
    for _ in range(CYCLES):
        result = running.run(now, TREES[policy], carried=carried)
        found.append(result)
        now, carried = journals.after(now, result), result.carried
    return found


def shown(result: CycleResult, *, reasons: bool) -> str:
    """A result, whatever it cost."""
    groups = result.groups
    if not reasons:
        groups = tuple(msgspec.structs.replace(group, reason=None) for group in groups)
    return running.digest(
        msgspec.structs.replace(
            result, work={}, costs={}, spent=0, changeable=groups, others=NO_JOBS
        )
    )


@pytest.mark.parametrize("policy", TREES)
def test_what_is_kept_decides_as_what_is_asked_anew(policy: str) -> None:
    """The same decisions in every cycle; the same reasons, too, but where jobs that are told
    together are told before others have used up a share.
    """

    @clusters.bounded(4)
    @given(strategies.integers(0, 2**32))
    def compared(seed: int) -> None:
        same(drawn(seed), policy)

    compared()


def same(documents: Sequence[Document], policy: str) -> int:
    """AssertionError where what is kept decides otherwise; how many pods were placed."""
    quick = history(documents, policy)
    with keeping_nothing():
        slow = history(documents, policy)
    for one, other in zip(quick, slow, strict=True):
        quiet = not (other.binds or other.pipelined)
        assert shown(one, reasons=quiet) == shown(other, reasons=quiet)
    return sum(len(each.binds) + len(each.pipelined) for each in quick)


def zoned(seed: int) -> list[Document]:
    """Many equal nodes with room for two pods each, and one gang that spreads over three zones."""
    documents = crowds.alike(seed)
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "g"}},
    }
    requests = {"cpu": "2", "memory": "1Gi"}
    for document in documents:
        if document["kind"] == "Pod":
            containers = [{"name": "main", "resources": {"requests": requests}}]
            document["spec"] = {
                "schedulerName": document["spec"]["schedulerName"],
                "containers": containers,
                "topologySpreadConstraints": [spread],
            }
    return documents


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("policy", ["packs", "spreads"])
def test_nodes_that_pods_elsewhere_open_and_close(policy: str, seed: int) -> None:
    """Each pod changes where the next one may go. A node that is open again has less room, and
    another score.
    """
    assert same(zoned(seed), policy)


@pytest.mark.at_length
@pytest.mark.parametrize("policy", TREES)
@pytest.mark.parametrize("draw", [crowds.alike, drawn])
def test_hundreds_of_crowds(policy: str, draw: Callable[[int], list[Document]]) -> None:
    """The same for many more."""
    for seed in range(150):
        same(draw(seed), policy)
