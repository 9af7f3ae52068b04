import dataclasses
import json
import pathlib
import urllib.request

import pytest

from tests.oracle import comparing, differences, extender, judging, manifests, ours
from tests.oracle.comparing import Verdict
from tests.oracle.differences import Explanations

VERDICT = Verdict(feature="taints", seed=3, pod="oracle-a/p0", node="n1", kube=True, ours=True)
OTHERWISE = dataclasses.replace(VERDICT, ours=False)
KNOWN = dataclasses.replace(OTHERWISE, known=differences.TABLE[0].name)


def test_only_what_no_table_explains_is_unknown() -> None:
    """A line for each pod, with all nodes that it is about."""
    elsewhere = dataclasses.replace(OTHERWISE, node="n2")
    assert comparing.unknown([VERDICT, OTHERWISE, KNOWN, elsewhere]) == [
        "taints --seed 3: oracle-a/p0 on n1, n2: kube-scheduler says yes, we say no"
    ]


def test_a_difference_that_does_not_show_any_more_is_told() -> None:
    """One that explains a verdict isn't."""
    names = [each.name for each in differences.TABLE]
    assert comparing.gone([VERDICT, OTHERWISE]) == names
    assert comparing.gone([KNOWN]) == names[1:]


def test_the_table_counts_by_feature() -> None:
    """And all together."""
    other = dataclasses.replace(VERDICT, feature="cordons", kube=False, ours=False)
    lines = comparing.table([VERDICT, OTHERWISE, KNOWN, other]).splitlines()
    assert lines[2:] == [
        "| taints | 1 | 3 | 3 | 1 | 1 | 1 |",
        "| cordons | 1 | 1 | 0 | 1 | 0 | 0 |",
        "| all | 2 | 4 | 3 | 2 | 1 | 1 |",
    ]


def test_a_known_difference_explains_no_other() -> None:
    """A node that isn't ready, and one that is tainted besides: readiness isn't all of it."""
    ready, tainted = manifests.node("n0"), manifests.node("n1")
    for node in (ready, tainted):
        node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    tainted["spec"]["taints"] = [{"key": "lab", "effect": "NoSchedule"}]
    probe = manifests.pod("p0")
    probe["spec"]["schedulerName"] = manifests.ORACLE
    why = Explanations([ready, tainted, probe]).why
    assert why("oracle-a/p0", "n0", kube=True) == "nodes that aren't ready"
    assert why("oracle-a/p0", "n1", kube=True) == ""
    assert why("oracle-a/p0", "n0", kube=False) == ""


def test_what_is_refused_goes_nowhere() -> None:
    """A pod with a gate, or with a field that we can't read, has an empty verdict."""
    gated, odd = manifests.pod("gated"), manifests.pod("odd")
    gated["spec"]["schedulingGates"] = [{"name": "wait"}]
    odd["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "much"}}
    for pod in (gated, odd):
        pod["spec"]["schedulerName"] = manifests.ORACLE
    verdicts = ours.verdicts([manifests.node("n0"), gated, odd])
    assert verdicts == {"oracle-a/gated": frozenset(), "oracle-a/odd": frozenset()}


def test_the_extender_notes_what_it_is_told_first_and_lets_no_node_through() -> None:
    """A retry may come when the cluster is another one already."""
    with extender.listening() as listener:
        for names in (["n0", "n1"], ["n2"]):
            asked = {"Pod": {"metadata": {"uid": "u"}}, "Nodes": None, "NodeNames": names}
            request = urllib.request.Request(  # noqa: S310  # loopback
                f"{listener.url}/{extender.VERB}", data=json.dumps(asked).encode()
            )
            with urllib.request.urlopen(request) as answer:  # noqa: S310  # the same
                said = json.load(answer)
            assert said == {"NodeNames": [], "FailedNodes": dict.fromkeys(names, extender.CLOSED)}
        assert listener.seen == {"u": {"n0", "n1"}}


def test_the_judge_never_binds_nor_preempts() -> None:
    """No profile has preemption, and the extender looks at all nodes and only filters."""
    described = judging.configuration(pathlib.Path("kubeconfig"), "http://127.0.0.1:1")
    (asked,) = described["extenders"]
    for profile in described["profiles"]:
        assert profile["plugins"]["multiPoint"]["disabled"] == [{"name": "DefaultPreemption"}]
    assert described["percentageOfNodesToScore"] == 100
    assert not {"bindVerb", "preemptVerb", "ignorable"} & asked.keys()


@pytest.mark.parametrize("feature", comparing.SUITE)
def test_worlds_follow_from_their_seeds(feature: str) -> None:
    """The same seed gives the same world, another seed another one."""
    one, again, other = (comparing.SUITE[feature](seed) for seed in (1, 1, 2))
    assert one == again
    assert one != dataclasses.replace(other, seed=one.seed)
