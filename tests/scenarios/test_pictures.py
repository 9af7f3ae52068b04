import re

import pytest

from vscheduler.testing import pictures

IMPOSSIBLE = {
    "node n1 node n1": "node n1: drawn twice",
    "queue q queue q": "queue q: drawn twice",
    "queue q job q/j - job q/j -": "job j: drawn twice",
    "queue q job other/j -": "job j: no queue other (call it missing… to mean it)",
    "queue q job j -": "job j: is written queue/name",
    "queue q job q/j n9": "pod j-0: there is no node 'n9'",
    "node n1 cpu=1 queue q job q/j n1 n1": "node n1: no room for pod j-1, cpu is 1000 short",
    "node n1 cpu=1 pods=1 queue q job q/j cpu=0 n1 ~n1": (
        "node n1: no room for pod j-1, pods is 1 short"
    ),
    "node n1 cpu=1 queue q job q/j gpu=1 +n1": (
        "node n1: no room for pod j-0, nvidia.com/gpu is 1 short"
    ),
    "queue q job q/j -@": "pod j-0: can't read '-@'",
    "node n1 cpu=many": "'many' is not a quantity; write 500m, 4 or 16Gi",
    "node n1 cpu=1 cpu=2": "node n1: cpu is set twice",
    "node n1 ready": "node n1: 'ready' is no setting",
    "queue q colour=red": "queue q: no setting colour",
    "queue": "queue without a name",
    "n1 cpu=4": "a picture starts with node, queue, job, budget, quota, hypernode, not 'n1'",
    "budget b budget b": "budget b: drawn twice",
    "budget b colour=red": "budget b: no setting colour",
    "budget b n1": "budget b: 'n1' is no setting",
    "quota q cpu=1 quota q": "quota q: drawn twice",
}


@pytest.mark.parametrize(("picture", "problem"), IMPOSSIBLE.items())
def test_a_cluster_that_cant_be_is_refused(picture: str, problem: str) -> None:
    """The message names the object."""
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        pictures.documents(picture)


def test_words_after_a_job_are_its_pods() -> None:
    """Where each pod stands, with its role; a number repeats it."""
    documents = pictures.documents("node n1 cpu=4 queue q job q/j n1 +n1 ~n1 m:-@2^7 w:!*2")
    pods = [document for document in documents if document["kind"] == "Pod"]
    assert [
        (
            pod["metadata"]["name"],
            pod["metadata"]["annotations"].get("volcano.sh/task-spec", ""),
            pod["spec"].get("nodeName"),
            pod["status"]["phase"],
            "deletionTimestamp" in pod["metadata"],
            "schedulingGates" in pod["spec"],
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"],
            pod["spec"].get("priority"),
        )
        for pod in pods
    ] == [
        ("j-0", "", "n1", "Running", False, False, "1", None),
        ("j-1", "", "n1", "Pending", False, False, "1", None),
        ("j-2", "", "n1", "Running", True, False, "1", None),
        ("j-3", "m", None, "Pending", False, False, "2", 7),
        ("j-4", "w", None, "Pending", False, True, "1", None),
        ("j-5", "w", None, "Pending", False, True, "1", None),
    ]


def test_a_job_says_what_its_pods_carry() -> None:
    """Labels, annotations, priority class, and since when those on nodes are there."""
    on_node, waiting = (
        document
        for document in pictures.documents("""
            node n1 cpu=4 queue q
            job q/j label=app=db label=tier=1 annotation=example.com/a=b class=high scheduled=60
                n1 -
        """)
        if document["kind"] == "Pod"
    )
    assert on_node["metadata"]["labels"] == {"app": "db", "tier": "1"}
    assert on_node["metadata"]["annotations"] == {
        "scheduling.k8s.io/group-name": "j",
        "example.com/a": "b",
    }
    assert waiting["spec"]["priorityClassName"] == "high"
    since = {"lastTransitionTime": "2026-01-01T10:59:00Z"}
    assert on_node["status"]["conditions"] == [{"type": "PodScheduled", "status": "True", **since}]
    assert "conditions" not in waiting["status"]


def test_queues_have_labels_and_jobs_namespaces() -> None:
    """The PodGroup and its pods are in the namespace."""
    queue, group, pod = pictures.documents("""
        queue q label=team=ml annotation=example.com/a=b
        job   q/j min=1 namespace=lab -
    """)
    assert queue["metadata"]["labels"] == {"team": "ml"}
    assert queue["metadata"]["annotations"] == {"example.com/a": "b"}
    assert [group["metadata"]["namespace"], pod["metadata"]["namespace"]] == ["lab", "lab"]


def test_budgets_quotas_and_groups_of_nodes_can_be_drawn() -> None:
    """As their controllers would have written them."""
    budget, everybody, quota, queue = sorted(
        pictures.documents("""
            queue  q affinity=required:a,b|anti_preferred:c
            budget calm select=app=db allowed=2
            budget everybody
            quota  small cpu=4 gpu=1 used=cpu:2
        """),
        key=lambda document: document["metadata"]["name"].replace("q", "z"),
    )
    assert budget["spec"] == {"selector": {"matchLabels": {"app": "db"}}}
    assert budget["status"] == {"disruptionsAllowed": 2}
    assert everybody["spec"] == {"selector": {"matchLabels": {}}}
    assert everybody["status"] == {"disruptionsAllowed": 0}
    assert quota["spec"] == {"hard": {"cpu": "4", "nvidia.com/gpu": "1"}}
    assert quota["status"] == {"hard": quota["spec"]["hard"], "used": {"cpu": "2"}}
    assert queue["spec"]["affinity"] == {
        "nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["a", "b"]},
        "nodeGroupAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": ["c"]},
    }
