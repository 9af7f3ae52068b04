import json
import random
from collections.abc import Hashable
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies

from tests import running
from vscheduler.core import actions, plugins
from vscheduler.core.config import policy
from vscheduler.core.config.policy import ActionSetting, Policy
from vscheduler.mirror.decode import documents as reader
from vscheduler.mirror.decode.wire import Metadata, Pod, PodSchedulingGroup, PodSpec
from vscheduler.model.jobs import JobId, Phase
from vscheduler.simulator import run
from vscheduler.simulator.manifests import Manifest
from vscheduler.simulator.run import Look, Options, Outcome
from vscheduler.testing import pictures

ALLOCATE = ActionSetting(action=actions.allocate.Allocate)
POLICY = Policy(actions=(ALLOCATE,), tiers=())
PICTURE = """
    node  n1 cpu=2    node n2 cpu=2
    queue gold weight=1
    job   gold/small min=2 cpu=1   - -
    job   gold/big   min=1 cpu=3   -
    job   gold/old   min=1 cpu=1   ~n2
"""


def simulate(documents: list[Any], **options: Any) -> Outcome:
    """One run with nothing but allocate."""
    return run.simulate(documents, POLICY, Options(**options))


def written(documents: list[Any], **options: Any) -> str:
    """The JSON of a run."""
    return json.dumps(run.tree(simulate(documents, **options)))


def test_one_cycle_decides_and_says_why() -> None:
    """Placements, phases, reasons, queue figures and the total, in Kubernetes' spelling."""
    tree = run.tree(simulate(pictures.documents(PICTURE)))
    assert tree["binds"] == {"default/small-0": "n1", "default/small-1": "n1"}
    assert (tree["pipelined"], tree["evicts"]) == ({}, [])
    assert tree["total"] == {"cpu": "4", "pods": "220"}
    assert {name: group["phase"] for name, group in tree["podGroups"].items()} == {
        "default/big": "Inqueue",
        "default/old": "Running",
        "default/small": "Inqueue",
    }
    big = tree["podGroups"]["default/big"]
    assert (big["queue"], big["reason"]) == ("gold", "NeverFits")
    assert big["message"] == (
        "a pod of 3 cpu is larger than any node it may use, the most is 2 cpu on n1; "
        "ask for less, or add a larger node"
    )
    assert [(each["type"], each["status"]) for each in big["conditions"]] == [
        ("Unschedulable", "True")
    ]
    assert tree["queues"]["gold"] == {
        "state": "Open",
        "weight": 1,
        "allocated": {"cpu": "2", "pods": "2"},
        "request": {"cpu": "5", "pods": "3"},
    }


def test_queues_say_how_their_shares_came_about() -> None:
    """With what is usable for them; nodes that nobody can use are named with the reason."""
    documents = pictures.documents(
        """
        node  n1 cpu=2      node n2 cpu=9 cordoned
        queue gold weight=1
        job   gold/big min=1 cpu=1   - - -
        """
    )
    fair = policy.built_in(plugins.PLUGINS, actions.ACTIONS)
    tree = run.tree(run.simulate(documents, fair, Options()))
    gold = tree["queues"]["gold"]
    assert (gold["usable"]["cpu"], gold["deserved"]["cpu"]) == ("2", "2")
    assert gold["message"] == ("2 of 2 usable CPU: all that others leave; n2 not usable: cordoned")
    root = tree["queues"]["root"]
    assert (root["request"]["cpu"], "message" in root) == ("3", False)
    assert "usable" not in tree["queues"]["root"]
    assert tree["total"]["cpu"] == "2"
    assert tree["excluded"] == [{"reason": "node(s) were unschedulable", "nodes": ["n2"]}]


def test_the_next_cycle_sees_what_the_first_one_decided() -> None:
    """Bound pods run; pods that were being deleted are gone, and so is what their group said."""
    first, second, third = simulate(pictures.documents(PICTURE), cycles=3).results
    assert len(first.binds) == 2
    assert second.binds == ()
    phases = {group.job: (group.phase, group.running) for group in second.groups}
    assert phases[JobId("default/small")] == (Phase.RUNNING, 2)
    assert phases[JobId("default/old")] == (Phase.PENDING, 0)
    assert JobId("default/old") not in {group.job for group in third.groups}
    assert second.queues[1].name == "gold"
    assert second.queues[1].allocated == {"cpu": 2000, "pods": 2}


@settings(max_examples=25)
@given(seed=strategies.integers(0, 10**6), cycles=strategies.integers(1, 3))
def test_shuffled_input_gives_the_same_bytes(seed: int, cycles: int) -> None:
    """Nothing depends on the order of documents, nor on the run."""
    documents = pictures.documents(PICTURE)
    expected = written(documents, cycles=cycles)
    random.Random(seed).shuffle(documents)
    assert written(documents, cycles=cycles) == expected


def test_a_bad_object_stops_nothing() -> None:
    """It is named with its place and field, and left out."""
    documents = pictures.documents(PICTURE)
    bad = next(document for document in documents if document["metadata"]["name"] == "small-0")
    bad["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4x"
    text = yaml.safe_dump({"kind": "List", "items": documents})
    (document,) = reader.load(text, "jobs.yaml")
    whole = Manifest(tree=document.content, document=document)
    outcome = run.simulate([whole], POLICY, Options())
    line = text.splitlines().index("          cpu: 4x") + 1
    assert [str(problem) for problem in outcome.problems] == [
        (
            f"jobs.yaml:{line}: Pod default/small-0: spec.containers[0].resources.requests.cpu: "
            "'4x' is not a quantity: there is no suffix 'x', "
            "only n u m k M G T P E and Ki Mi Gi Ti Pi Ei"
        )
    ]
    assert [bind.task.name for bind in outcome.binds] == ["small-1"]


def test_what_people_write_is_enough() -> None:
    """No UIDs, times, namespaces or queues: the default queue stands, the time is zero."""
    version = "scheduling.volcano.sh/v1beta1"
    group = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g"}}
    annotations = {"scheduling.k8s.io/group-name": "g"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {
            "schedulerName": "vscheduler",
            "containers": [{"resources": {"requests": {"cpu": 1}}}],
        },
    }
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": 2, "pods": 1}},
    }
    outcome = simulate([group | {"spec": {"minMember": 1}}, pod, node])
    assert {bind.task.key: bind.node for bind in outcome.binds} == {"default/p": "n"}
    assert [queue.name for queue in outcome.last.queues] == ["default", "root"]
    assert (outcome.problems, outcome.notes) == ((), ())


@pytest.mark.parametrize(
    ("names", "binds"), [(("vscheduler",), 2), (("other",), 0), (("other", "vscheduler"), 2)]
)
def test_only_pods_that_name_the_scheduler_are_placed(names: tuple[str, ...], binds: int) -> None:
    """As the daemon's --scheduler-name does."""
    outcome = simulate(pictures.documents(PICTURE), scheduler_names=names)
    assert len(outcome.binds) == binds


def test_only_selected_nodes_are_used() -> None:
    """As the daemon's --node-selector does."""
    picture = PICTURE.replace("node n2 cpu=2", "node n2 cpu=9 label=zone=b")
    outcome = simulate(pictures.documents(picture), node_selector=(("zone", "b"),))
    assert {bind.node for bind in outcome.binds} == {"n2"}


def test_what_decides_nothing_is_said_once() -> None:
    """Kinds that make pods elsewhere, and pods that nobody will ever place."""
    documents = pictures.documents(PICTURE)
    for document in documents:
        if document["metadata"]["name"].startswith("small-"):
            document["metadata"]["annotations"] = {"volcano.sh/task-spec": "small"}
        if document["metadata"]["name"] == "big-0":
            document["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "lost"}
    documents += [{"apiVersion": "apps/v1", "kind": "Deployment"}] * 2
    assert simulate(documents).notes == (
        (
            "not simulated: 2 Deployment; a Deployment alone has no pods: give its pods, for "
            "example with kubectl get pods -o yaml"
        ),
        (
            "2 pods can't be placed, as no annotation scheduling.k8s.io/group-name names a "
            "PodGroup: default/small-0, …"
        ),
        "1 pod can't be placed, as there is no PodGroup default/lost: default/big-0",
    )


def test_waiting_pods_of_other_schedulers_are_told() -> None:
    """They have no effect, unless the flag names their scheduler; running ones take room."""
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    explicit = {**spec, "schedulerName": "default-scheduler"}
    named = {**pod, "metadata": {"name": "b"}, "spec": explicit}
    running = {**pod, "metadata": {"name": "r"}, "spec": {**explicit, "nodeName": "n1"}}
    node = pictures.documents("node n1 cpu=4")
    assert simulate([*node, named, pod, running]).notes == (
        (
            "2 pods wait for another scheduler (default-scheduler); --scheduler-name "
            "default-scheduler places them"
        ),
    )
    assert simulate([*node, running]).notes == ()
    placed = simulate([*node, named, pod], scheduler_names=("default-scheduler",))
    assert (len(placed.binds), placed.notes) == (2, ())


def test_a_podgroup_that_cannot_be_used_is_not_called_missing() -> None:
    """Its pods are told why it is left out."""
    documents = pictures.documents("node n1 cpu=4   queue q   job q/large min=1 -")
    for document in documents:
        if document["kind"] == "PodGroup":
            document["metadata"]["annotations"] = {"note": "x" * 140_000}
    (note,) = simulate(documents).notes
    assert note.startswith(
        "1 pod can't be placed, as PodGroup default/large can't be used (has 140"
    )
    assert note.endswith("at most 131072 are looked at (--max-podgroup-bytes)): default/large-0")


SEESAW = """
    node n1 cpu=2 memory=2Gi
    queue a deserved=cpu:4,memory:1Gi   job a/x cpu=2 memory=2Gi n1
    queue b deserved=cpu:1,memory:4Gi   job b/y cpu=2 memory=2Gi -
"""
"""Each queue is above its share of what the other one lacks. In Volcano's way a claim is good when
one of its resources is within the share, so that either may take from the other.
"""


def outcome(cycles: int, **settings: bool) -> Outcome:
    """So many cycles of the seesaw."""
    tree = {
        "actions": "allocate, reclaim",
        "tiers": running.tiers("gang | capacity predicates nodeorder"),
        **({"compatibility": "volcano"} if settings.get("volcano", True) else {}),
    }
    options = Options(cycles=cycles, evicted_return=settings.get("evicted_return", True))
    return run.simulate(pictures.documents(SEESAW), running.policy_of(tree), options)


def looks(text: str) -> list[Look]:
    """A letter is a state; `a<b` is one in which b's pod is evicted for a."""
    found = []
    for word in text.split():
        state, _, pairs = word.partition(":")
        evicted = frozenset(
            (loser, winner)
            for winner, _, loser in (each.partition("<") for each in pairs.split(",") if each)
        )
        found.append(Look(state=(state, evicted), pairs=evicted))
    return found


def sentence(text: str) -> str:
    """What is said of a run that looked so."""
    return str(run.find(looks(text)) or "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s s s s",
        "s1:a<b s2 s3 s3 s3",
        "s1 s2:a<b s1 s2:a<b s3",
        "s1:a<b s2 s1:b<a s2",
        "s0 s1:a<b",
        "s0 s2 s1:a<b s2 s1:a<b s3 s4",
    ],
)
def test_what_ends_is_no_repetition(text: str) -> None:
    """Two whole rounds, the same cycle by cycle, with evictions, at the very end."""
    assert sentence(text) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s0 1:a<b 2:b<a 1:a<b 2:b<a", "jobs a and b have evicted each other since cycle 2"),
        (
            "s0 t 1 2:a<b 3:b<a 1 2:a<b 3:b<a 1",
            "jobs a and b have evicted each other since cycle 4",
        ),
        ("1:c<b 1:c<b", "job b has been evicted for job c again and again since cycle 1"),
        ("1:<b 1:<b", "job b has been evicted again and again since cycle 1"),
        ("1:b<b 2 1:b<b 2", "job b has been evicted for job b again and again since cycle 1"),
        (
            "1:c<b,c<a 2 1:c<b,c<a 2",
            "jobs a and b have been evicted for job c again and again since cycle 1",
        ),
        (
            "1:a<b 2:b<c 3:c<a 1:a<b 2:b<c 3:c<a",
            "jobs a, b and c have evicted one another since cycle 1",
        ),
        (
            "1:a<b,b<c,c<d,d<e,e<f,f<g,g<a 1:a<b,b<c,c<d,d<e,e<f,f<g,g<a",
            "jobs a, b, c, d, e and 2 more have evicted one another since cycle 1",
        ),
    ],
)
def test_one_sentence_names_who_and_since_when(text: str, expected: str) -> None:
    """The first eviction of the rounds that are the same; five jobs at most."""
    assert sentence(text) == expected


def test_pods_are_told_apart_by_their_pod_groups() -> None:
    """A state doesn't come back when a pod of another PodGroup, of either API, takes the place."""

    def state(annotation: str, native: str) -> Hashable:
        named = PodSchedulingGroup(pod_group_name=native) if native else None
        metadata = Metadata(annotations={"scheduling.k8s.io/group-name": annotation})
        pod = Pod(metadata=metadata, spec=PodSpec(scheduling_group=named, node_name="n1"))
        return run.look([pod], simulate([]).last).state

    groups = (("a", ""), ("b", ""), ("", "a"), ("", "b"))
    assert len({state(*each) for each in groups}) == len(groups)
    assert state("a", "b") == state("", "b")


def test_a_run_that_goes_round_says_so() -> None:
    """Names and ages differ from round to round, and don't matter; the shortest run that shows it
    has two rounds.
    """
    expected = "jobs default/x and default/y have evicted each other since cycle 1"
    found = [str(outcome(cycles).repetition or "") for cycles in (11, 12, 20)]
    assert found == ["", expected, expected]


def test_a_run_that_comes_to_rest_says_nothing() -> None:
    """Nor one in which nobody comes back."""
    assert outcome(20, volcano=False).repetition is None
    gone = outcome(20, evicted_return=False)
    assert (len(gone.evicts), gone.repetition) == (1, None)
