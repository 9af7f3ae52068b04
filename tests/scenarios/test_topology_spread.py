"""The finer fields of topology spread and pod affinity: each one changes where a pod may go."""

from typing import Any

import pytest

from tests import running
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

TREE: dict[str, Any] = {"actions": "allocate", "tiers": running.tiers("gang | predicates")}
ZONES = """
    node n1 cpu=8 label=zone=a
    node n2 cpu=8 label=zone=b
    node n3 cpu=8 label=zone=c taint=team=x:NoSchedule
    queue q
    """
DB = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
SPREAD = {**DB, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


def places(picture: str, spec: Document) -> list[str]:
    """The nodes of pods of job new, whose spec has this as well."""
    documents = pictures.documents(picture)
    for document in documents:
        if document["kind"] == "Pod" and document["metadata"]["name"].startswith("new-"):
            document["spec"] |= spec
    return [bind.node for bind in running.run(documents, TREE).binds]


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        ({}, ["n1", "n2"]),
        ({"minDomains": 2}, ["n1", "n2"]),
        ({"minDomains": 3}, []),
    ],
    ids=["as many as there are", "no more than there are", "more than there are"],
)
def test_too_few_domains_count_as_one_that_is_empty(fields: Document, nodes: list[str]) -> None:
    """Both zones have a pod: one more each is even, unless a third zone is asked for."""
    picture = """
        node n1 cpu=8 label=zone=a
        node n2 cpu=8 label=zone=b
        queue q
        job q/old label=app=db n1 n2
        job q/new label=app=db -*2
        """
    assert places(picture, {"topologySpreadConstraints": [SPREAD | fields]}) == nodes


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        ({}, []),
        ({"nodeTaintsPolicy": "Ignore"}, []),
        ({"nodeTaintsPolicy": "Honor"}, ["n1"]),
    ],
    ids=["by default", "ignored", "honoured"],
)
def test_nodes_that_a_pod_does_not_tolerate_count_by_policy(
    fields: Document, nodes: list[str]
) -> None:
    """The empty zone, which the pod can't use, keeps it from the others only if it counts."""
    picture = f"{ZONES} job q/old label=app=db n1 n2 job q/new label=app=db -"
    assert places(picture, {"topologySpreadConstraints": [SPREAD | fields]}) == nodes


@pytest.mark.parametrize(
    ("fields", "nodes"),
    [
        ({}, ["n1"]),
        ({"nodeAffinityPolicy": "Honor"}, ["n1"]),
        ({"nodeAffinityPolicy": "Ignore"}, []),
    ],
    ids=["by default", "honoured", "ignored"],
)
def test_nodes_that_a_pod_does_not_select_count_by_policy(
    fields: Document, nodes: list[str]
) -> None:
    """The same with a selector in place of a taint; there Honor is the default."""
    picture = """
        node n1 cpu=8 label=zone=a label=disk=ssd
        node n2 cpu=8 label=zone=b label=disk=ssd
        node n3 cpu=8 label=zone=c
        queue q
        job q/old label=app=db n1 n2
        job q/new label=app=db select=disk=ssd -
        """
    assert places(picture, {"topologySpreadConstraints": [SPREAD | fields]}) == nodes


@pytest.mark.parametrize("keys", [["rev"], ["rev", "none"]])
def test_a_spread_counts_pods_of_the_same_revision(keys: list[str]) -> None:
    """Those of the old one make zone a no fuller; labels that the pod lacks mean nothing."""
    picture = """
        node n1 cpu=8 label=zone=a
        node n2 cpu=2 label=zone=b
        queue q
        job q/old label=app=db label=rev=1 n1
        job q/new label=app=db label=rev=2 -
        """
    assert places(picture, {"topologySpreadConstraints": [SPREAD]}) == ["n2"]
    spread = SPREAD | {"matchLabelKeys": keys}
    assert places(picture, {"topologySpreadConstraints": [spread]}) == ["n1"]


@pytest.mark.parametrize(
    ("fields", "near", "apart"),
    [
        ({}, "n1", "n3"),
        ({"matchLabelKeys": ["rev"]}, "n2", "n1"),
        ({"mismatchLabelKeys": ["rev"]}, "n1", "n2"),
    ],
    ids=["any revision", "the same one", "another one"],
)
def test_terms_are_about_pods_by_their_revision(fields: Document, near: str, apart: str) -> None:
    """One pod of each revision is there, each in a zone of its own."""
    picture = """
        node n1 cpu=8 label=zone=a
        node n2 cpu=8 label=zone=b
        node n3 cpu=8 label=zone=c
        queue q
        job q/one label=app=db label=rev=1 n1
        job q/two label=app=db label=rev=2 n2
        job q/new label=app=web label=rev=2 -
        """
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [DB | fields]}
    assert places(picture, {"affinity": {"podAffinity": required}}) == [near]
    assert places(picture, {"affinity": {"podAntiAffinity": required}}) == [apart]
