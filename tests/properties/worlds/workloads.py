"""Random jobs: gangs with roles and sub-groups, elastic ones, services; with all that pods ask."""

import random
from dataclasses import dataclass, replace
from typing import Any

from tests.properties.worlds import manifests
from tests.properties.worlds.manifests import Document, Template, Workload

TEAMS = ("red", "blue", "green")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
KINDS = ("Job", "Job", "Deployment", "StatefulSet")
FEATURES = (
    *("select", "tolerate", "port", "gpu", "priority", "protected", "gated", "resources"),
    *("apart", "apart_team", "together", "near_team", "spread", "prefer", "node_affinity"),
    *("roles", "sub_groups", "best_effort", "elastic", "never_preempts", "system"),
)
MEBI = {"512Mi": 512, "1Gi": 1024, "2Gi": 2048}
STYLES = ("mixed", "mixed", "crowded", "plain", "rivals", "rivals")
RIVALRY = {"sub_groups": 0.25, "roles": 0.15, "elastic": 0.2, "select": 0.25, "priority": 0.15}
RARE = frozenset({"protected", "gated", "never_preempts", "system"})
PARTNERS = (
    *("select", "gpu", "port", "apart", "apart_team", "together", "near_team", "spread"),
    *("roles", "sub_groups", "elastic", "best_effort", "never_preempts", "tolerate"),
)
"""Features that meet each other, and priorities, admission and limits, in crowded clusters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Temper:
    """What the jobs of a world are like: how likely each feature is, and how large they are."""

    likely: dict[str, float]

    crowded: bool = False
    """Whether jobs are large, so that queues have to fight for their shares."""
    plain: bool = False
    """Whether nothing but shares decides: no features, plain nodes and queues, and no change but
    that jobs come in two waves."""

    rivals: bool = False
    """Whether the first queues fill the cluster before the last ones come, plain worlds only: with
    gangs that can't be divided, sub-groups, and pods that can use a part of the nodes only."""

    meeting: bool = False
    """Whether two or three features meet wherever jobs compete: minResources as operators write
    them, priorities, and limits of queues at every level of the tree."""

    @classmethod
    def of_meeting(cls, chance: random.Random) -> "Temper":
        """Two or three features are frequent, in crowded clusters."""
        likely = dict.fromkeys(FEATURES, 0.02) | {"priority": 0.4, "resources": 0.5}
        likely |= dict.fromkeys(chance.sample(PARTNERS, chance.randint(2, 3)), 0.5)
        return cls(likely=likely, crowded=True, meeting=True, rivals=chance.random() < 0.5)

    @classmethod
    def draw(cls, chance: random.Random) -> "Temper":
        """A few features are frequent, most are not; or next to none."""
        style = chance.choice(STYLES)
        if style == "plain":
            likely = dict.fromkeys(FEATURES, 0.0) | {"gpu": 0.3}
            return cls(likely=likely, crowded=True, plain=True)
        if style == "rivals":
            likely = dict.fromkeys(FEATURES, 0.0) | {"gpu": 0.1} | RIVALRY
            return cls(likely=likely, crowded=True, plain=True, rivals=True)
        if style == "crowded":
            likely = dict.fromkeys(FEATURES, 0.04) | {"gpu": 0.3, "priority": 0.2, "elastic": 0.2}
            return cls(likely=likely, crowded=True)
        likely = dict.fromkeys(FEATURES, 0.1) | {"priority": 0.3}
        likely |= dict.fromkeys(chance.sample(FEATURES, 3), 0.5)
        return cls(likely=likely | dict.fromkeys(RARE, 0.04))

    def features(self, chance: random.Random) -> frozenset[str]:
        """Those of one job."""
        return frozenset(name for name in FEATURES if chance.random() < self.likely[name])


def workload(chance: random.Random, temper: Temper, name: str, queue: str, most: int) -> Workload:
    """A job of a queue with so many pods at most."""
    features = temper.features(chance)
    count = chance.randint(3, most + 2) if temper.crowded else chance.randint(1, most)
    template = _template(chance, name, features)
    templates = [template] * count
    spec: dict[str, Any] = {}
    minimum = chance.choice((1, min(2, count), count, chance.randint(1, count)))
    if "elastic" in features:
        minimum = max(1, count // 2)
    if "roles" in features and count > 1:
        templates, least = _roles(chance, templates)
        spec["minTaskMember"] = least
        minimum = sum(least.values()) + (chance.random() < 0.2 and sum(least.values()) < count)
    elif "sub_groups" in features and count > 1:
        templates, policy = _sub_groups(chance, templates)
        spec["subGroupPolicy"] = [policy]
        minimum = min(count, policy["subGroupSize"] * policy["minSubGroups"]) or 1
    if "best_effort" in features:
        templates = [
            replace(template, requests={}) if chance.random() < 0.5 else template
            for template in templates
        ]
    if "priority" in features:
        priority = chance.choice((5, 10))
        spec["priorityClassName"] = f"priority-{priority}"
    if "resources" in features:
        spec["minResources"] = (
            _least(templates, int(minimum)) if temper.meeting else {"cpu": str(2 * minimum)}
        )
    return Workload(
        name=name,
        kind=chance.choice(KINDS),
        queue=queue,
        minimum=int(minimum),
        templates=tuple(templates),
        namespace="kube-system" if "system" in features else manifests.NAMESPACE,
        spec=spec,
        annotations={manifests.PREEMPTABLE: "false"}
        if "protected" in features and chance.random() < 0.5
        else {},
        phase=chance.choice(("Pending", "Inqueue")),
    )


def _template(chance: random.Random, name: str, features: frozenset[str]) -> Template:
    requests = {
        "cpu": chance.choice(("1", "1", "2", "2", "3", "500m")),
        "memory": chance.choice(("512Mi", "1Gi", "2Gi", "2Gi")),
    }
    spec: dict[str, Any] = {}
    if "gpu" in features:
        requests[manifests.GPU] = "1"
        spec["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    if "select" in features:
        spec["nodeSelector"] = chance.choice(({"disk": "ssd"}, {"zone": "a"}, {"zone": "b"}))
    if "tolerate" in features:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Equal", "value": "lab"}]
    if "gated" in features:
        spec["schedulingGates"] = [{"name": "example.com/gate"}]
    if "never_preempts" in features:
        spec["preemptionPolicy"] = "Never"
    if affinity := _affinity(chance, name, features):
        spec["affinity"] = affinity
    if "spread" in features:
        spec["topologySpreadConstraints"] = [_spread(chance, name)]
    protected = {manifests.PREEMPTABLE: "false"} if "protected" in features else {}
    return Template(
        requests=requests,
        ports=(chance.choice((80, 81)),) if "port" in features else (),
        labels={"team": chance.choice(TEAMS)},
        annotations=protected,
        spec=spec,
    )


def _affinity(chance: random.Random, name: str, features: frozenset[str]) -> Document:
    own, team = {"app": name}, {"team": chance.choice(TEAMS)}
    zone_or_host = chance.choice(("zone", manifests.HOST))
    affinity: Document = {}
    if "apart" in features:
        affinity["podAntiAffinity"] = {REQUIRED: [_term(own, manifests.HOST)]}
    elif "apart_team" in features:
        affinity["podAntiAffinity"] = {REQUIRED: [_term(team, zone_or_host)]}
    if "together" in features:
        affinity["podAffinity"] = {REQUIRED: [_term(own, "zone")]}
    elif "near_team" in features:
        affinity["podAffinity"] = {REQUIRED: [_term(team, zone_or_host)]}
    if "prefer" in features:
        side = chance.choice(("podAffinity", "podAntiAffinity"))
        weighted = {"weight": 50, "podAffinityTerm": _term(team, zone_or_host)}
        affinity.setdefault(side, {})[PREFERRED] = [weighted]
    if "node_affinity" in features:
        zones = sorted(chance.sample(("a", "b", "c"), 2))
        wanted = {"key": "zone", "operator": chance.choice(("In", "NotIn")), "values": zones}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        affinity["nodeAffinity"] = {REQUIRED: terms}
    return affinity


def _term(labels: dict[str, str], key: str) -> Document:
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key}


def _spread(chance: random.Random, name: str) -> Document:
    return {
        **_term({"app": name}, chance.choice(("zone", manifests.HOST))),
        "maxSkew": chance.randint(1, 2),
        "whenUnsatisfiable": chance.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
    }


def _least(templates: list[Template], minimum: int) -> dict[str, str]:
    """What the first pods ask for that the minimum needs, as operators write it."""
    asks = [template.requests for template in templates[:minimum] if template.requests]
    milli = sum(
        int(ask["cpu"].removesuffix("m")) * (1 if "m" in ask["cpu"] else 1000) for ask in asks
    )
    memory = sum(MEBI[ask["memory"]] for ask in asks)
    return {"cpu": f"{milli}m", "memory": f"{memory}Mi"}


def _roles(
    chance: random.Random, templates: list[Template]
) -> tuple[list[Template], dict[str, int]]:
    """One master, the rest are workers, and how many of each are needed."""
    workers = len(templates) - 1
    small = {**templates[0].requests, "cpu": "1"}
    master = replace(templates[0], role="master", requests=small)
    others = [replace(template, role="worker") for template in templates[1:]]
    return [master, *others], {"master": 1, "worker": chance.randint(1, workers)}


def _sub_groups(
    chance: random.Random, templates: list[Template]
) -> tuple[list[Template], Document]:
    """Two sub-groups, by a label, and what they need."""
    count = len(templates)
    size = count // 2
    named = [replace(each, role=f"s{at // size}") for at, each in enumerate(templates)]
    policy = {
        "name": "part",
        "matchLabelKeys": [manifests.ROLE],
        "subGroupSize": size,
        "minSubGroups": chance.randint(1, 2),
    }
    return named, policy
