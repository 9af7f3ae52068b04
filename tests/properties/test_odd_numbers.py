"""Numbers out of range, wherever people may write one: nothing fails, and nobody else is harmed.

Each world has jobs of others, with room for all, and one object more with one odd number in it. It
goes the ways of a manifest and of the wire.
"""

import functools
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests import running
from tests.properties import odd_worlds
from vscheduler.core import cycle
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import DecodeFailed, Upsert
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.decisions import CycleResult
from vscheduler.testing import pictures

Document = pictures.Document

INT32_MAX = 2**31 - 1
WHOLE = (
    *(sign * 10**power for power in (18, 19, 20, 400) for sign in (1, -1)),
    *(
        sign * (2**power + more)
        for power in (31, 32, 53, 63, 64)
        for sign in (1, -1)
        for more in (-1, 0, 1)
    ),
    *(0, -1, 1, 1000),
)
ODD = (
    *WHOLE,
    1.5,
    -0.5,
    1e15,
    1e19,
    1e308,
    5e-324,
    math.nan,
    math.inf,
    -math.inf,
    True,
    "1",
    "",
    [],
)
TEXTS = (
    *(str(each) for each in WHOLE),
    *("9" * 4400, "-" + "9" * 4400, "1" * 999, "1" * 1001, "0" * 5000 + "1"),
    *(
        "nan",
        "NaN",
        "inf",
        "-inf",
        "Infinity",
        "1e308",
        "1e400",
        "-1e400",
        "1e-400",
        "1e99999999999",
    ),
    *(
        "",
        " ",
        " 1 ",
        "1_000",
        "0x10",
        "1.5",
        "-0",
        "+1",
        "\u0663",
        "\u00b9",
        "\u00bd",
        "--1",
        "1-1",
    ),
    *("0%", "30%", "-30%", "101%", "9" * 400 + "%", "9" * 4400 + "%", "%", "nan%", "1e400%"),
    *(
        "9" * 400 + "h",
        "9" * 4400 + "h",
        "-1h",
        "0s",
        "1e9h",
        ".h",
        "300000h",
        "99999999999h",
        "5124095h",
    ),
)
QUANTITIES: tuple[Any, ...] = (
    *TEXTS,
    *ODD,
    "1e400Gi",
    "9E",
    "16E",
    "99999E",
    "8Ei",
    "1n",
    "-1n",
    "0.0000001m",
    "9" * 990 + "Ei",
)
STAMPS = (
    *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "", "never"),
    *(
        "9999-12-31T23:59:59-23:59",
        "1969-12-31T23:59:59.999999999Z",
        "10000-01-01T00:00:00Z",
        10**400,
        0,
    ),
)
RECORD = (
    '{"version":%s,"time":"%s","usage":%s,"rate":%s,"namespaces":{"odd":{"usage":%s,"rate":1}}}'
)


def _records() -> Iterator[str]:
    for text in (
        "nan",
        "NaN",
        "1e308",
        "1e400",
        "-1",
        "9" * 400,
        "9" * 4400,
        "Infinity",
        "0",
        '"1"',
    ):
        yield RECORD % (text, "2026-01-01T00:00:00Z", 1, 1, 1)
        yield RECORD % (1, "2026-01-01T00:00:00Z", text, 1, 1)
        yield RECORD % (1, "2026-01-01T00:00:00Z", 1, text, 1)
        yield RECORD % (1, "2026-01-01T00:00:00Z", 1, 1, text)
    for stamp in STAMPS:
        yield RECORD % (1, stamp, 1e300, 1e300, 1e300)


def _maps(key: str) -> Iterator[str]:
    """JSON in annotations: amounts by name."""
    for value in QUANTITIES:
        yield f'{{"{key}": {value if isinstance(value, str) else json.dumps(value)}}}'
        if isinstance(value, str):
            yield json.dumps({key: value})


ANNOTATIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "Pod": {
        "volcano.sh/task-priority": TEXTS,
        "volcano.sh/cooldown-time": TEXTS,
        "volcano.sh/resource-strategy-weight": (*_maps("cpu"), *_maps("memory")),
        "scheduling.volcano.sh/group-min-member": TEXTS,
    },
    "PodGroup": {
        "volcano.sh/sla-waiting-time": TEXTS,
        "sla-waiting-time": TEXTS,
        "volcano.sh/jdb-min-available": TEXTS,
        "volcano.sh/jdb-max-unavailable": TEXTS,
    },
    "Queue": {
        "volcano.sh/hierarchy-weights": (*TEXTS, *(f"1/{each}" for each in TEXTS)),
        "volcano.sh/nodegroup-resource-limits": tuple(f'{{"g": {each}}}' for each in _maps("cpu")),
        f"{pictures.SCHEDULER}/fair-share-usage": tuple(_records()),
        "other/fair-share-usage": tuple(_records()),
    },
}
FIELDS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "Pod": {
        "spec.priority": ODD,
        "spec.containers.0.resources.requests.cpu": QUANTITIES,
        "spec.containers.0.resources.requests.memory": QUANTITIES,
        "spec.containers.0.resources.requests.example/gpu": QUANTITIES,
        "spec.containers.0.resources.requests.pods": QUANTITIES,
        "spec.containers.0.resources.limits.cpu": QUANTITIES,
        "spec.containers.0.ports.0.hostPort": ODD,
        "spec.initContainers.0.resources.requests.cpu": QUANTITIES,
        "spec.resources.requests.cpu": QUANTITIES,
        "spec.overhead.cpu": QUANTITIES,
        "spec.topologySpreadConstraints.0.maxSkew": ODD,
        "spec.topologySpreadConstraints.0.minDomains": ODD,
        "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution.0.weight": ODD,
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        ".nodeSelectorTerms.0.matchExpressions.0.values.0": TEXTS,
        "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution.0.weight": ODD,
        "metadata.creationTimestamp": STAMPS,
        "metadata.name": tuple(f"odd-0-{digits}" for digits in ("9" * 240, "0" * 240, "7", "-7")),
        "status.startTime": STAMPS,
    },
    "PodGroup": {
        "spec.minMember": ODD,
        "spec.minTaskMember.worker": ODD,
        "spec.minResources.cpu": QUANTITIES,
        "spec.minResources.memory": QUANTITIES,
        "spec.minResources.pods": QUANTITIES,
        "spec.minResources.example/gpu": QUANTITIES,
        "spec.subGroupPolicy.0.subGroupSize": ODD,
        "spec.subGroupPolicy.0.minSubGroups": ODD,
        "metadata.creationTimestamp": STAMPS,
        "status.running": ODD,
        "status.succeeded": ODD,
        "status.failed": ODD,
        "status.conditions.0.lastTransitionTime": STAMPS,
    },
    "Queue": {
        "spec.weight": ODD,
        "spec.priority": ODD,
        "spec.capability.cpu": QUANTITIES,
        "spec.deserved.cpu": QUANTITIES,
        "spec.guarantee.resource.cpu": QUANTITIES,
        "metadata.creationTimestamp": STAMPS,
    },
    "PodDisruptionBudget": {"status.disruptionsAllowed": ODD},
    "ResourceQuota": {"spec.hard.cpu": QUANTITIES, "status.used.cpu": QUANTITIES},
    "PriorityClass": {"value": ODD},
}

BUILT_IN = {
    "actions": "enqueue, allocate, backfill, reclaim",
    "tiers": running.tiers(
        "priority gang conformance pdb | overcommit drf predicates proportion nodeorder binpack"
    ),
}
ALL = {
    "actions": "enqueue, allocate, backfill, preempt, reclaim, shuffle",
    "tiers": running.tiers(
        "sla priority gang conformance pdb cdp tdm:tdm.revocable-zone.z=00:00-00:00 | "
        "overcommit drf predicates proportion fairshare nodeorder binpack "
        "resource-strategy-fit resourcequota"
    ),
}
QUOTAS = {
    "actions": "enqueue, allocate, backfill, preempt, reclaim",
    "tiers": running.tiers(
        "priority gang | "
        "overcommit predicates capacity:enableHierarchy=true fairshare nodegroup:strict=false"
    ),
}
BRANCHES = {
    "actions": "enqueue, allocate, backfill, preempt, reclaim",
    "tiers": running.tiers(
        "priority gang | overcommit drf:enableHierarchy=true predicates fairshare nodeorder"
    ),
}
OURS = {"built-in": BUILT_IN, "all": ALL, "quotas": QUOTAS, "branches": BRANCHES}
TREES = OURS | {
    f"{name}, as Volcano": {**tree, "compatibility": "volcano"} for name, tree in OURS.items()
}


def cycle_of(documents: list[Document], tree: Mapping[str, Any], *, wire: bool) -> CycleResult:
    """One cycle on what a mirror makes of these; all it says is put into words."""
    options = Options(scheduler_names=(pictures.SCHEDULER,), claim_unowned=True)
    mirror = Mirror(options)
    for document in documents:
        kind = events.kind_of(document)
        assert kind is not None
        event: Upsert | DecodeFailed
        if wire:
            event = events.decode(kind, json.dumps(document).encode())
        else:
            event = events.convert(kind, document)
        mirror.apply(event)
    result = cycle.run_cycle(mirror.snapshot(pictures.NOW.timestamp()), running.policy_of(tree))
    assert result.faults == ()
    for queue in result.queues:
        found = queue.entitlement
        if found is not None:
            amounts = [
                *found.deserved.values(),
                *(found.real_capability or {}).values(),
                found.share,
            ]
            assert not any(math.isnan(amount) for amount in amounts), queue
            assert all(math.isfinite(each) for each in found.deserved.values()), queue
    return result


def of_others(result: CycleResult) -> tuple[object, ...]:
    """What is decided of jobs that have nothing odd about them."""
    bound = {bind.task.key for bind in result.binds if bind.task.namespace != "odd"}
    phases = {
        group.job: (group.phase, group.reason and group.reason.code)
        for group in result.groups
        if not group.job.startswith("odd/")
    }
    gone = [evict.task.key for evict in result.evicts if evict.task.namespace != "odd"]
    return bound, phases, gone


SAMPLE = 16
"""So many values, or up to twice as many, are tried in each place."""


@functools.cache
def alone(name: str) -> tuple[object, ...]:
    """What is decided without an odd number."""
    found = of_others(cycle_of(pictures.documents(odd_worlds.ROOMY), TREES[name], wire=False))
    assert len(found[0]) == 4  # type: ignore[arg-type]  # a set
    assert not found[2]
    return found


PLACES = [
    *((kind, path, values) for kind, paths in FIELDS.items() for path, values in paths.items()),
    *(
        (kind, f"@{name}", texts)
        for kind, names in ANNOTATIONS.items()
        for name, texts in names.items()
    ),
]


@pytest.mark.parametrize(
    ("kind", "path", "values"), PLACES, ids=[f"{kind} {path}" for kind, path, _ in PLACES]
)
def test_no_number_breaks_anything(kind: str, path: str, values: tuple[Any, ...]) -> None:
    """No plugin fails, no figure is no number, and all others start as they do without it."""
    step = max(1, len(values) // SAMPLE)
    for number, value in list(enumerate(values))[::step]:
        way = odd_worlds.WAYS[number % 2] if kind == "Pod" else "waits"
        documents = odd_worlds.world(kind, path, value, way)
        name = list(TREES)[number // step % len(TREES)]
        plain = not (isinstance(value, float) and not math.isfinite(value))
        for wire in (False, True) if plain else (False,):
            result = cycle_of(documents, TREES[name], wire=wire)
            if "guarantee" in path and "Volcano" in name:
                continue  # there, one that is above all there is takes everything
            assert of_others(result) == alone(name), (value, name, way, wire)


@pytest.mark.parametrize("nodes", [("n2",), ("n1", "n2"), ("",)])
def test_sums_of_what_very_many_ask_for_are_sums(nodes: tuple[str, ...]) -> None:
    """1,100 pods that ask for all there could be, on nodes that they chose, or waiting."""
    pod, *others = odd_worlds.odd_one("waits")
    everything = {"memory": "1e400", "cpu": "1e400"}
    crowd = []
    for number in range(1100):
        node = nodes[number % len(nodes)]
        spec = {**pod["spec"], "containers": [{"name": "c", "resources": {"requests": everything}}]}
        names = {"name": f"odd-0-{number}", "uid": f"odd-{number}"}
        crowd.append(
            {
                **pod,
                "metadata": {**pod["metadata"], **names},
                "spec": {**spec, "nodeName": node} if node else spec,
                "status": {"phase": "Running" if node else "Pending"},
            }
        )
    documents = [*pictures.documents(odd_worlds.ROOMY), *crowd, *others]
    for name, tree in OURS.items():
        bound, _, gone = of_others(cycle_of(documents, tree, wire=False))
        assert len(bound) == (0 if "n1" in nodes else 4), name  # type: ignore[arg-type]
        assert not gone, name
