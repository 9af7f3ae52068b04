"""Both schedulers on the same worlds: who lets which pod onto which node."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.oracle import (
    devices,
    differences,
    features,
    gangs,
    judging,
    manifests,
    ours,
    special_cases,
    volume_cases,
    volumes,
    worlds,
)
from tests.oracle.differences import Explanations
from tests.oracle.worlds import Stage

Document = manifests.Document

ATTEMPTS = 2
"""How often a world about which both differ is judged."""

World = Callable[[int], worlds.World]
SUITE: Mapping[str, World] = {
    special_cases.FEATURE: special_cases.world,
    **{name: partial(features.world, name) for name in features.FEATURES},
    volume_cases.FEATURE: volume_cases.world,
    **{name: partial(volumes.world, name) for name in volumes.FEATURES},
    **{name: partial(devices.world, name) for name in devices.FEATURES},
    **{f"gangs-{name}": partial(gangs.world, name) for name in gangs.KINDS},
}
"""The world of a seed, by feature."""


def seeds(feature: str, worlds_each: int) -> range:
    """Which worlds of a feature a run of this length looks at."""
    by_hand = {
        special_cases.FEATURE: len(special_cases.CASES),
        volume_cases.FEATURE: len(volume_cases.CASES),
    }
    return range(by_hand.get(feature, worlds_each))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What both say of one pod on one node."""

    feature: str
    seed: int
    pod: str
    node: str
    kube: bool
    ours: bool
    known: str = ""
    """The difference in the table that it comes from; empty where there is none."""

    @property
    def agree(self) -> bool:
        """Whether both say the same."""
        return self.kube == self.ours


@dataclass(slots=True, kw_only=True)
class Comparison:
    """Worlds put on a stage, and what came of it."""

    stage: Stage
    folder: Path
    """Where the manifests of worlds go in which both differ."""
    found: list[Verdict] = field(default_factory=list)

    def judge(self, feature: str, seed: int) -> list[Verdict]:
        """Compare in the world of this seed."""
        world = SUITE[feature](seed)
        return self.judge_members(world) if world.groups else self.judge_probes(world)

    def judge_probes(self, world: worlds.World) -> list[Verdict]:
        """Every pod that waits, on every node; once more if both differ, as kube-scheduler may not
        have seen yet that objects of the world before are gone.
        """
        for _ in range(ATTEMPTS):
            self.stage.put(world)
            said = self.stage.judge.ask(world.waiting)
            documents = self.stage.documents()
            verdicts = list(_told(world, said, documents))
            if not unknown(verdicts):
                break
        return self._keep(verdicts, documents)

    def judge_members(self, world: worlds.World) -> list[Verdict]:
        """Every pod that one cycle of ours binds, on its node, all others being in place."""
        self.stage.put(world)
        self.stage.create(world.waiting)
        placed = ours.placed(self.stage.documents(), world.groups)
        members = [each for each in world.waiting if manifests.key(each) in placed]
        for member in members:
            self.stage.bind(member, placed[manifests.key(member)])
        verdicts = []
        for member in members:
            node = placed[manifests.key(member)]
            kube = node in self._alone(member, node)
            verdicts.append(
                Verdict(
                    feature=world.feature,
                    seed=world.seed,
                    pod=manifests.key(member),
                    node=node,
                    kube=kube,
                    ours=True,
                )
            )
        return self._keep(verdicts, self.stage.documents())

    def _alone(self, member: Document, node: str) -> judging.Verdict:
        """Where a member of a gang might go, were it the last one; it stands there afterwards."""
        self.stage.api.delete(manifests.pod_path(member), gracePeriodSeconds=0)
        metadata = {**member["metadata"], "name": f"{member['metadata']['name']}-alone"}
        alone = {**member, "metadata": metadata}
        (said,) = self.stage.judge.ask([alone]).values()
        self.stage.bind(alone, node)
        return said

    def _keep(self, verdicts: list[Verdict], documents: Sequence[Document]) -> list[Verdict]:
        """Note them; the manifests, too, where an unknown difference shows."""
        self.found += verdicts
        differing = unknown(verdicts)
        if differing:
            described = {"differences": differing, "documents": documents}
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{verdicts[0].feature}-{verdicts[0].seed}.json"
            path.write_text(json.dumps(described, indent=1))
        return verdicts


def _told(
    world: worlds.World, said: dict[str, judging.Verdict], documents: Sequence[Document]
) -> Iterator[Verdict]:
    mine = ours.verdicts(documents)
    known = Explanations(documents)
    nodes = sorted(manifests.named(documents, "Node"))
    for pod, kube in sorted(said.items()):
        for node in nodes:
            same = (node in kube) == (node in mine[pod])
            yield Verdict(
                feature=world.feature,
                seed=world.seed,
                pod=pod,
                node=node,
                kube=node in kube,
                ours=node in mine[pod],
                known="" if same else known.why(pod, node, kube=node in kube),
            )


def unknown(verdicts: Sequence[Verdict]) -> list[str]:
    """Differences that no table explains, a line for each pod that they are about."""
    nodes: dict[tuple[str, int, str, bool], list[str]] = defaultdict(list)
    for verdict in verdicts:
        if not verdict.agree and not verdict.known:
            nodes[verdict.feature, verdict.seed, verdict.pod, verdict.kube].append(verdict.node)
    said = {True: "kube-scheduler says yes, we say no", False: "kube-scheduler says no, we say yes"}
    return [
        f"{feature} --seed {seed}: {pod} on {', '.join(names)}: {said[kube]}"
        for (feature, seed, pod, kube), names in nodes.items()
    ]


def gone(verdicts: Sequence[Verdict]) -> list[str]:
    """Differences in the table that didn't come up."""
    seen = {verdict.known for verdict in verdicts}
    return [each.name for each in differences.TABLE if each.name not in seen]


def table(verdicts: Sequence[Verdict]) -> str:
    """By feature: verdicts, those with which kube-scheduler says yes, agreement, differences."""
    lines = [
        "| feature | worlds | verdicts | yes | agree | known differences | unknown |",
        "|---|---|---|---|---|---|---|",
    ]
    names = list(dict.fromkeys(verdict.feature for verdict in verdicts))
    for name in (*names, "all"):
        mine = [verdict for verdict in verdicts if name in {verdict.feature, "all"}]
        agree = sum(each.agree for each in mine)
        known = sum(bool(each.known) for each in mine)
        cells = (
            *(name, len({(each.feature, each.seed) for each in mine}), len(mine)),
            *(sum(each.kube for each in mine), agree, known, len(mine) - agree - known),
        )
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join(lines)
