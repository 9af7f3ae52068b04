"""Where we mean to differ from kube-scheduler's filters, and why: the one table of it.

A difference is explained by what would be the same without it: a verdict comes from the entry in
whose counterfactual cluster we say what kube-scheduler says of the real one.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.oracle import manifests, ours
from tests.oracle.judging import Verdict

Document = manifests.Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One way in which we differ on purpose."""

    name: str
    kube: bool
    """What kube-scheduler says."""
    docs: str
    why: str
    """Both as docs/kube-scheduler.md has it, in one row."""
    without: Callable[[Document], None]
    """Make an object such that both agree."""


def _ready(document: Document) -> None:
    if document["kind"] == "Node":
        document["status"]["conditions"] = [{"type": "Ready", "status": "True"}]


def _stays(document: Document) -> None:
    if document["kind"] == "Pod":
        document["metadata"].pop("deletionTimestamp", None)


def _not_nominated(document: Document) -> None:
    if document["kind"] == "Pod":
        document.get("status", {}).pop("nominatedNodeName", None)


TABLE: Sequence[Difference] = (
    Difference(
        name="nodes that aren't ready",
        kube=True,
        docs="a node whose condition Ready isn't True gets no pods",
        why="Nothing starts on such a node",
        without=_ready,
    ),
    Difference(
        name="company that leaves",
        kube=True,
        docs="they don't satisfy required affinity",
        why="the pod is gone a moment later",
        without=_stays,
    ),
    Difference(
        name="neighbours that are nominated",
        kube=True,
        docs="kube-scheduler considers only the node itself",
        why="the nominated pods will start soon",
        without=_not_nominated,
    ),
)


class Explanations:
    """Why we differ in one cluster."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        self._without: dict[str, dict[str, Verdict]] = {}

    def why(self, pod: str, node: str, *, kube: bool) -> str:
        """The name of the entry by which we differ about this pod on this node; empty: none."""
        for each in TABLE:
            if each.kube == kube and (node in self._counterfactual(each)[pod]) == kube:
                return each.name
        return ""

    def _counterfactual(self, difference: Difference) -> dict[str, Verdict]:
        if difference.name not in self._without:
            documents = copy.deepcopy(list(self._documents))
            for document in documents:
                difference.without(document)
            self._without[difference.name] = ours.verdicts(documents)
        return self._without[difference.name]
