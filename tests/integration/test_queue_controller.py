"""The Queue controller on a real API server: states, counts, deletes, trees."""

import json
import signal
import time

from sandbox.control_plane import ControlPlane
from tests.integration import daemons, tenancy
from tests.integration.daemons import Start


def test_root_and_default_are_made_and_kept(cluster: ControlPlane, start: Start) -> None:
    """Created where they are missing, also later; one that is there is left as it is."""
    daemons.a_queue(cluster, "default")
    cluster.api.patch(f"{daemons.QUEUES}/default", {"spec": {"weight": 7}})
    daemon = start()
    daemons.until(lambda: tenancy.state_of(cluster, "root") == "Open", daemon)
    daemons.until(lambda: tenancy.state_of(cluster, "default") == "Open", daemon)
    assert tenancy.queue_of(cluster, "default")["spec"]["weight"] == 7
    assert tenancy.queue_of(cluster, "root")["spec"]["reclaimable"] is False
    uid = tenancy.queue_of(cluster, "default")["metadata"]["uid"]
    cluster.api.delete(f"{daemons.QUEUES}/default")
    daemons.until(
        lambda: tenancy.queue_of(cluster, "default").get("metadata", {}).get("uid", uid) != uid,
        daemon,
    )
    assert daemon.stop() == 0


def test_a_queue_with_jobs_outlives_its_deletion(cluster: ControlPlane, start: Start) -> None:
    """`kubectl delete` waits, says for what, and the queue goes when its last job has."""
    cluster.create_nodes(count=1, cpu="4")
    daemons.a_queue(cluster, "lab")
    tenancy.a_child(cluster, "bench", "lab")
    daemons.a_gang(cluster, "one", 1, group={"queue": "lab"})
    daemons.a_gang(cluster, "two", 1, group={"queue": "lab"})
    daemon = start()
    daemons.until(lambda: tenancy.counts_of(cluster, "lab") == (0, 0, 2, 0, 0), daemon)
    daemons.until(
        lambda: tenancy.IN_USE in tenancy.queue_of(cluster, "lab")["metadata"]["finalizers"], daemon
    )
    cluster.run_kubectl("delete", "queue", "lab", "--wait=false")
    daemons.until(lambda: "InUse" in tenancy.told(cluster, "lab"), daemon)
    shown = json.loads(cluster.run_kubectl("get", "queue", "lab", "-o", "json"))
    assert shown["metadata"]["deletionTimestamp"]
    assert shown["metadata"]["finalizers"] == [tenancy.IN_USE]
    assert shown["status"]["state"] == "Closing"
    assert tenancy.told(cluster, "lab")["InUse"] == (
        "PodGroups",
        "the deletion waits for 2 PodGroups and child queue bench",
    )
    assert len(daemons.nodes_of(cluster)) == 2
    cluster.api.delete(f"{daemons.QUEUES}/bench")
    cluster.api.delete(f"{daemons.GROUPS}/one")
    daemons.until(
        lambda: tenancy.told(cluster, "lab")["InUse"][1] == "the deletion waits for 1 PodGroup",
        daemon,
    )
    cluster.api.delete(f"{daemons.GROUPS}/two")
    daemons.until(lambda: not tenancy.queue_of(cluster, "lab"), daemon)
    daemons.until(lambda: daemon.said("queue.released"), daemon)
    assert daemon.said("queue.released")[0]["queue"] == "lab"
    assert not daemon.said("queue.not_kept")
    assert daemon.stop() == 0


def test_a_tree_is_closed_and_opened_from_above(cluster: ControlPlane, start: Start) -> None:
    """Queues below close and open with it, but for one that its owner has closed."""
    daemons.a_queue(cluster, "top")
    for name, parent in (("left", "top"), ("leaf", "left"), ("right", "top")):
        tenancy.a_child(cluster, name, parent)
    tenancy.a_group(cluster, "job", "leaf")
    daemon = start()
    tree = ("top", "left", "leaf", "right")
    daemons.until(
        lambda: [tenancy.state_of(cluster, each) for each in tree] == ["Open"] * 4, daemon
    )
    tenancy.wish(cluster, "right", "Closed")
    daemons.until(lambda: tenancy.state_of(cluster, "right") == "Closed", daemon)
    tenancy.wish(cluster, "top", "Closed")
    daemons.until(
        lambda: (
            [tenancy.state_of(cluster, each) for each in tree]
            == ["Closed", "Closed", "Closing", "Closed"]
        ),
        daemon,
    )
    assert [tenancy.marks_of(cluster, each) for each in tree] == [None, "true", "true", None]
    tenancy.wish(cluster, "left", "Open")
    daemons.until(lambda: "WantedState" in tenancy.told(cluster, "left"), daemon)
    assert tenancy.state_of(cluster, "left") == "Closed"
    assert tenancy.told(cluster, "left")["WantedState"] == (
        "ParentClosed",
        "queue top, which is above this one, is closed; this one opens with it",
    )
    tenancy.wish(cluster, "top", "Open")
    daemons.until(
        lambda: (
            [tenancy.state_of(cluster, each) for each in tree] == ["Open", "Open", "Open", "Closed"]
        ),
        daemon,
    )
    daemons.until(lambda: not tenancy.marks_of(cluster, "leaf"), daemon)
    daemons.until(lambda: not tenancy.told(cluster, "leaf"), daemon)
    tenancy.wish(cluster, "root", "Closed")
    daemons.until(lambda: "WantedState" in tenancy.told(cluster, "root"), daemon)
    assert (tenancy.state_of(cluster, "root"), tenancy.state_of(cluster, "top")) == ("Open", "Open")
    assert daemon.stop() == 0


def test_a_restart_in_the_middle_of_closing_goes_on(cluster: ControlPlane, start: Start) -> None:
    """Closing stays so until the last job has gone, whoever runs by then."""
    daemons.a_queue(cluster, "top")
    tenancy.a_child(cluster, "leaf", "top")
    for name in ("first", "second"):
        tenancy.a_group(cluster, name, "leaf")
    daemon = start(daemons.ALONE)
    daemons.until(lambda: tenancy.counts_of(cluster, "leaf") == (2, 0, 0, 0, 0), daemon)
    tenancy.wish(cluster, "top", "Closed")
    daemons.until(lambda: tenancy.state_of(cluster, "leaf") == "Closing", daemon)
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait()
    cluster.api.delete(f"{daemons.GROUPS}/first")
    tenancy.wish(cluster, "leaf", None)
    second = start(daemons.ALONE)
    daemons.until(lambda: tenancy.counts_of(cluster, "leaf") == (1, 0, 0, 0, 0), second)
    assert tenancy.state_of(cluster, "leaf") == "Closing"
    cluster.api.delete(f"{daemons.GROUPS}/second")
    daemons.until(lambda: tenancy.state_of(cluster, "leaf") == "Closed", second)
    tenancy.wish(cluster, "top", "Open")
    daemons.until(lambda: tenancy.state_of(cluster, "leaf") == "Open", second)
    assert second.stop() == 0


def test_a_cycle_of_two_edits_is_told_and_mended(cluster: ControlPlane, start: Start) -> None:
    """Both queues and what is below them say so, others go on; a mended tree says nothing."""
    for name in ("east", "west", "fine"):
        daemons.a_queue(cluster, name)
    tenancy.a_child(cluster, "below", "east")
    daemon = start()
    daemons.until(lambda: tenancy.state_of(cluster, "below") == "Open", daemon)
    for name, parent in (("east", "west"), ("west", "east")):
        cluster.api.patch(f"{daemons.QUEUES}/{name}", {"spec": {"parent": parent}})
    message = (
        "queue east is its own ancestor (east -> west -> east); correct spec.parent of one of them"
    )
    problem = {"Tree": ("ParentCycle", message)}
    daemons.until(
        lambda: (
            [tenancy.told(cluster, each) for each in ("east", "west", "below")] == [problem] * 3
        ),
        daemon,
    )
    assert tenancy.told(cluster, "fine") == {}
    cluster.api.patch(f"{daemons.QUEUES}/west", {"spec": {"parent": "nowhere"}})
    daemons.until(
        lambda: tenancy.told(cluster, "below").get("Tree", ("",))[0] == "ParentMissing", daemon
    )
    cluster.api.patch(f"{daemons.QUEUES}/west", {"spec": {"parent": "root"}})
    daemons.until(
        lambda: not any(tenancy.told(cluster, n) for n in ("east", "west", "below")), daemon
    )
    assert daemon.stop() == 0


def borne_out(phase: str) -> str:
    """Where a group without pods counts."""
    return "pending" if phase in {"", "Running", "Unknown"} else phase.lower()


def test_a_status_counts_as_far_as_pods_bear_it_out(cluster: ControlPlane, start: Start) -> None:
    """Whoever may write a PodGroup's status can't fill a queue's figures with it; once a pod of the
    group has a node, the group runs.
    """
    daemons.a_queue(cluster, "red")
    tenancy.a_group(cluster, "forged", "red", "Running")
    tenancy.a_group(cluster, "other", "red", "Unknown")
    forged = {"phase": "Running", "running": 1000, "succeeded": 1000}
    cluster.api.patch(f"{daemons.GROUPS}/forged", {"status": forged})
    daemon = start("--only=controllers")
    daemons.until(lambda: tenancy.counts_of(cluster, "red") == (2, 0, 0, 0, 0), daemon)
    annotations = {"scheduling.k8s.io/group-name": "forged"}
    cluster.api.create(
        daemons.PODS,
        {
            "metadata": {"name": "p", "annotations": annotations},
            "spec": {
                "schedulerName": "other",
                "nodeName": "n1",
                "containers": [{"name": "c", "image": "i"}],
            },
        },
    )
    daemons.until(lambda: tenancy.counts_of(cluster, "red") == (1, 0, 1, 0, 0), daemon)
    cluster.api.delete(f"{daemons.PODS}/p", gracePeriodSeconds=0)
    daemons.until(lambda: tenancy.counts_of(cluster, "red") == (2, 0, 0, 0, 0), daemon)
    assert daemon.stop() == 0


def test_counts_of_many_groups_are_right_and_nothing_is_written_at_rest(
    cluster: ControlPlane, start: Start
) -> None:
    """50 PodGroups in all phases, some gone while nobody looked; then ten still seconds. Those that
    say that they run, and have no pods, count as pending.
    """
    daemons.a_queue(cluster, "red")
    phases = ["", "Pending", "Inqueue", "Running", "Unknown", "Completed"]
    for number in range(50):
        queue = "red" if number % 5 else "default"
        tenancy.a_group(cluster, f"job-{number}", queue, phases[number % len(phases)])
    daemon = start()

    def right() -> bool:
        groups = cluster.api.list(daemons.GROUPS)
        return all(
            tenancy.counts_of(cluster, queue)
            == tuple(
                sum(
                    group["spec"]["queue"] == queue
                    and borne_out(group.get("status", {}).get("phase", "")) == phase
                    for group in groups
                )
                for phase in tenancy.COUNTERS
            )
            for queue in ("red", "default", "root")
        )

    daemons.until(right, daemon)
    assert sum(tenancy.counts_of(cluster, "red")) == 40
    for number in range(0, 50, 7):
        cluster.api.delete(f"{daemons.GROUPS}/job-{number}")
    cluster.api.patch(f"{daemons.GROUPS}/job-1", {"status": {"phase": "Completed"}})
    daemons.until(right, daemon)
    daemons.until_at_rest(lambda: tenancy.versions(cluster), daemon, 10)
    before = tenancy.versions(cluster)
    assert daemon.stop() == 0
    second = start()
    daemons.until(lambda: second.said("kopf.started"), second)
    time.sleep(3)
    assert tenancy.versions(cluster) == before, "what an earlier process wrote is not written again"
    assert second.stop() == 0
