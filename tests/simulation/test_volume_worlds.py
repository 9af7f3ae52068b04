"""In a world with volumes, a simple scheduler that knows the rules starts pods, and breaks none.

It binds pod by pod, as kube-scheduler does. So the judges of volumes aren't stricter than they may
be; and a scheduler that leaves a rule out is seen.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.simulation import actors, judges
from tests.simulation.actors.base import Key, Object
from tests.simulation.actors.binder import Binder
from tests.simulation.actors.informers import path_of
from tests.simulation.actors.storage import CLAIMS, CLASSES, VOLUMES, suits
from tests.simulation.api_server.client import Client
from tests.simulation.api_server.server import ApiServer
from tests.simulation.judges import objects as reading
from tests.simulation.judges import volumes
from tests.simulation.judges.binding_rules import BoundOnce
from tests.simulation.judges.cluster import Cluster
from tests.simulation.judges.court import Judge
from tests.simulation.judges.reservation_rules import GivenBack, GivenOnce
from tests.simulation.judges.volume_rules import (
    AttachLimits,
    ClaimsAreBound,
    UsedAlone,
    VolumesAreReached,
)
from tests.simulation.kernel.core import Kernel

SCHEDULER = "volcano"
PROCESS = "one-1"
WAIT_SECONDS = 60.0
"""After this, a choice is taken back."""
LOOK_SECONDS = 20.0
"""How often the judges look."""
RULES: Sequence[Callable[[judges.Settings], Judge]] = (
    BoundOnce,
    ClaimsAreBound,
    VolumesAreReached,
    AttachLimits,
    UsedAlone,
    GivenOnce,
    GivenBack,
)


class Careful(Binder):
    """Prepares the claims of a pod on a node, and binds the pod once they are bound."""

    leaves_out: str = ""

    def _choose(self, pod: Object) -> str | None:
        nodes = [name for name in self._takes(pod) if self._allows(pod, name)]
        if not nodes:
            self._take_back(pod)
            return None
        unbound = list(self._unbound(pod))
        if not unbound or self.leaves_out == "bound":
            return nodes[0]
        if all(map(self._is_claimed, unbound)):
            return None
        self._prepare(unbound, nodes[0])
        return None

    def _takes(self, pod: Object) -> Iterator[str]:
        """Nodes with room, in any order."""
        names = [each["metadata"]["name"] for each in self._store.all("nodes")]
        for _ in names:
            found = super()._choose(pod)
            if found is not None:
                yield found

    def _claims(self, pod: Object) -> Iterator[Object]:
        for key in volumes.claims_of(pod):
            claim = self._store.get(CLAIMS, key)
            if claim is not None:
                yield claim

    def _unbound(self, pod: Object) -> Iterator[Object]:
        return (claim for claim in self._claims(pod) if not volumes.is_bound(claim))

    def _is_claimed(self, claim: Object) -> bool:
        """Whether somebody else has to act first."""
        kind = self._store.get(CLASSES, ("", volumes.class_of(claim))) or {}
        return (
            kind.get("volumeBindingMode") != volumes.WAITS
            or bool(volumes.selected(claim))
            or any(volumes.is_of(claim, each) for each in self._store.all(VOLUMES))
        )

    def _allows(self, pod: Object, name: str) -> bool:
        node = self._store.get("nodes", ("", name))
        found = list(self._claims(pod))
        if node is None or len(found) < len(volumes.claims_of(pod)):
            return False
        if any(map(reading.leaving, found)) and self.leaves_out != "bound":
            return False
        bound = [self._volume(each) for each in found if volumes.is_bound(each)]
        if None in bound:
            return False
        return (
            (self.leaves_out == "reach" or all(volumes.reaches(each, node) for each in bound))  # type: ignore[arg-type]  # none is None
            and (self.leaves_out == "limit" or self._has_slots(name, bound))
            and all(self._is_free(pod, each) for each in found)
            and all(self._suits(each, node) for each in found if not volumes.is_bound(each))
        )

    def _volume(self, claim: Object) -> Object | None:
        return self._store.get(VOLUMES, ("", claim["spec"]["volumeName"]))

    def _has_slots(self, name: str, bound: Sequence[Object | None]) -> bool:
        used = {
            source
            for pod in self._store.pods_on[name].values()
            for claim in self._claims(pod)
            if volumes.is_bound(claim)
            and (volume := self._volume(claim)) is not None
            and (source := volumes.attached(volume)) is not None
        }
        used |= {source for each in bound if each and (source := volumes.attached(each))}
        found = self._store.get("csinodes", ("", name)) or {"spec": {"drivers": []}}
        limits = {
            each["name"]: (each.get("allocatable") or {}).get("count", 10**6)
            for each in found["spec"]["drivers"]
        }
        count = Counter(each.driver for each in used)
        return all(count[driver] <= limits.get(driver, 10**6) for driver in count)

    def _is_free(self, pod: Object, claim: Object) -> bool:
        if volumes.ALONE not in claim["spec"]["accessModes"]:
            return True
        key, own = reading.key_of(claim), pod["metadata"]["uid"]
        return not any(
            key in volumes.claims_of(other) and other["metadata"]["uid"] != own
            for pods in self._store.pods_on.values()
            for other in pods.values()
        )

    def _suits(self, claim: Object, node: Object) -> bool:
        kind = self._store.get(CLASSES, ("", volumes.class_of(claim)))
        if kind is None or volumes.selected(claim) not in ("", node["metadata"]["name"]):
            return False
        if kind["provisioner"] == volumes.NO_PROVISIONER:
            return any(True for _ in self._free(claim, node))
        return volumes.allows(kind, node)

    def _free(self, claim: Object, node: Object) -> Iterator[Object]:
        for each in self._store.all(VOLUMES):
            free = not each["spec"].get("claimRef") and suits(claim, each)
            if self.leaves_out == "once":
                free = volumes.class_of(claim) == volumes.class_of(each)
            if (free or volumes.is_of(claim, each)) and volumes.reaches(each, node):
                yield each

    def _prepare(self, unbound: Sequence[Object], name: str) -> None:
        node = self._store.get("nodes", ("", name))
        assert node is not None
        for claim in unbound:
            kind = self._store.get(CLASSES, ("", volumes.class_of(claim)))
            if kind is None or self._is_claimed(claim):
                continue
            if kind["provisioner"] == volumes.NO_PROVISIONER:
                volume = next(self._free(claim, node), None)
                if volume is not None:
                    self._reserve(claim, volume)
            else:
                self._select(claim, name)

    def _select(self, claim: Object, name: str | None) -> None:
        version = claim["metadata"]["resourceVersion"]
        metadata = {"annotations": {volumes.SELECTED: name}, "resourceVersion": version}
        where = path_of(CLAIMS, claim)
        self.attempt(lambda: self.client.patch(where, {"metadata": metadata}))

    def _reserve(self, claim: Object, volume: Object) -> None:
        namespace, name = reading.key_of(claim)
        reference = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
        body = {
            "metadata": {"resourceVersion": volume["metadata"]["resourceVersion"]},
            "spec": {"claimRef": {**reference, "uid": claim["metadata"]["uid"]}},
        }
        where = path_of(VOLUMES, volume)
        self.attempt(lambda: self.client.patch(where, body))

    def _take_back(self, pod: Object) -> None:
        """Let the node go that was selected for a pod that fits nowhere now."""
        for claim in self._unbound(pod):
            if volumes.selected(claim):
                self._select(claim, None)


class Run:
    """A world with volumes, and a scheduler."""

    def __init__(self, seed: str, *, leaves_out: str = "", **storage: float) -> None:
        self.kernel = Kernel(seed)
        self.server = ApiServer(self.kernel, random.Random(f"{seed}/server"))
        scale = actors.Scale(
            nodes=4,
            jobs=12,
            job_seconds=40,
            quiet=2.0,
            storage=actors.Storage(**{"part": 0.9, "seconds": 2.0, **storage}),  # type: ignore[arg-type]  # a limit is a whole number
        )
        chance = random.Random(f"{seed}/actors")
        self.world = actors.populate(self.server, self.kernel, chance, scale)
        unit = Careful(
            Client(self.server, "careful", process=PROCESS),
            self.kernel,
            random.Random(f"{seed}/careful"),
            store=self.world.store,
            scheduler=SCHEDULER,
        )
        unit.leaves_out = leaves_out
        unit.start()

    def broken(self, seconds: float) -> Iterator[judges.Finding]:
        """What the judges of volumes find, as soon as it happens."""
        settings = judges.Settings(schedulers=(SCHEDULER,))
        court = judges.Court([rule(settings) for rule in RULES], Cluster())
        seen = 0
        while self.kernel.moment < seconds:
            self.kernel.run(LOOK_SECONDS)
            news = self.server.history[seen:]
            seen += len(news)
            yield from court.see(news)

    def started(self) -> Counter[str]:
        """How many pods with volumes were bound, by the class of a claim."""
        found: Counter[str] = Counter()
        classes: dict[Key, str] = {}
        for change in self.server.history:
            if change.resource == CLAIMS and change.after is not None:
                classes[change.namespace, change.name] = volumes.class_of(change.after)
            if change.verb == "bind" and change.origin and change.after is not None:
                found.update(classes[key] for key in volumes.claims_of(change.after))
        return found


@pytest.mark.parametrize("seed", ["1", pytest.param("2", marks=pytest.mark.at_length)])
def test_a_careful_scheduler_breaks_no_rule(seed: str) -> None:
    """Pods with claims of all classes start, and no judge says anything."""
    run = Run(seed, limit=3, failing=0.2, refusing=0.2)
    assert list(run.broken(500)) == []
    assert run.started().keys() == {"local", "zonal", "picky", "nodal", "network"}


@pytest.mark.parametrize(
    ("leaves_out", "rule"),
    [
        ("bound", "no pod starts before its claims"),
        ("reach", "no bind away from a volume"),
        ("limit", "no node has too many volumes"),
        ("once", "each volume has one claim"),
    ],
)
def test_a_scheduler_that_leaves_out_a_rule_is_seen(leaves_out: str, rule: str) -> None:
    """By the judge of that rule."""
    run = Run("1", leaves_out=leaves_out, limit=2, local=1)
    assert any(each.rule == rule for each in run.broken(500))
