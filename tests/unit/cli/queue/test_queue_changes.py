"""`queue create` and `queue delete`: what is sent, and what is refused."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.cli import queue_objects
from tests.unit.cli.queue.conftest import Run
from vscheduler.cli.queue import queue_changes
from vscheduler.cli.queue.cluster_client import Exists, Kind, Listing, Object


class Fake:
    """Queues by name; finalizers hold those that are listed."""

    def __init__(self, *found: Object) -> None:
        self.queues = {each["metadata"]["name"]: each for each in found}
        self.held: set[str] = set()

    def queue(self, name: str) -> Object | None:
        """One of them."""
        return self.queues.get(name)

    def create_queue(self, name: str, spec: Mapping[str, Any]) -> Object:
        """Make one, unless the name is taken."""
        if name in self.queues:
            raise Exists(f"there is a queue {name} already")
        self.queues[name] = queue_objects.a_queue(name, **spec)
        return self.queues[name]

    def list(self, kind: Kind) -> Listing:
        """The nodes: one with GPUs."""
        assert kind is Kind.NODE
        amounts = {"cpu": "4", "nvidia.com/gpu": "8", "amd.com/gpu": "0"}
        return Listing(items=[{"status": {"allocatable": amounts}}], version="")

    def delete_queue(self, name: str) -> None:
        """Delete one, unless a finalizer holds it."""
        if name not in self.held:
            del self.queues[name]


@pytest.fixture
def cluster() -> Fake:
    """One empty queue, one that holds jobs, and the permanent one."""
    busy = queue_objects.a_queue("busy", status={"running": 1, "completed": 3})
    return Fake(queue_objects.a_queue("empty"), busy, queue_objects.a_queue("default"))


def test_what_is_not_given_is_left_to_defaults(run: Run, cluster: Fake) -> None:
    """A queue of weight 1."""
    assert run("create", "lab").stdout == "queue lab created\n"
    assert cluster.queues["lab"]["spec"] == {"weight": 1}


def test_all_that_can_be_given(run: Run, cluster: Fake) -> None:
    """Amounts as Kubernetes writes them."""
    flags = ["--weight=3", "--parent=empty", "--capability=cpu=8,memory=32Gi", "--deserved=cpu=4"]
    more = ["--guarantee=cpu=500m", "--priority=7", "--not-reclaimable"]
    assert run("create", "lab", *flags, *more).exit_code == 0
    assert cluster.queues["lab"]["spec"] == {
        "weight": 3,
        "parent": "empty",
        "capability": {"cpu": "8", "memory": "32Gi"},
        "deserved": {"cpu": "4"},
        "guarantee": {"resource": {"cpu": "500m"}},
        "priority": 7,
        "reclaimable": False,
    }


def test_an_amount_that_no_node_has_is_warned_of(run: Run) -> None:
    """The queue is created nevertheless: such nodes may come."""
    done = run("create", "lab", "--capability=gpu=8,cpu=4,nvidia.com/gpu=8")
    assert (done.exit_code, done.stdout) == (0, "queue lab created\n")
    meant = "did you mean nvidia.com/gpu?"
    says = f"warning: --capability gpu limits nothing: no node has gpu; {meant}\n"
    assert done.stderr.startswith(says.removesuffix("?\n").removesuffix("nvidia.com/gpu"))
    assert "nvidia.com/gpu?" in done.stderr
    assert done.stderr.count("\n") == 1
    done = run("create", "other", "--guarantee=amd.com/gpu=8")
    assert "warning: --guarantee amd.com/gpu keeps nothing: no node has" in done.stderr


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["empty"], 1, "there is a queue empty already"),
        (["lab", "--parent=none"], 1, "there is no queue none, which would be the parent of lab"),
        (["lab", "--capability=cpu"], 2, "'cpu' is not RESOURCE=AMOUNT, such as cpu=8"),
        (["lab", "--capability=cpu=8cores"], 2, "capability.cpu: '8cores' is not a quantity"),
        (["lab", "--weight=0"], 2, "--weight"),
    ],
)
def test_mistakes_in_a_new_queue(
    run: Run, cluster: Fake, words: list[str], status: int, says: str
) -> None:
    """Nothing is created."""
    done = run("create", *words)
    assert (done.exit_code, set(cluster.queues)) == (status, {"empty", "busy", "default"})
    assert says in done.stderr


def test_empty_queues_are_deleted(run: Run, cluster: Fake) -> None:
    """One that its controller still holds goes a moment later."""
    cluster.queues["slow"] = queue_objects.a_queue("slow")
    cluster.held.add("slow")
    done = run("delete", "empty", "slow")
    assert done.stdout == "queue empty deleted\nqueue slow is being deleted\n"
    assert done.exit_code == 0


def test_queues_in_use_are_kept(run: Run, cluster: Fake) -> None:
    """It says what to do first."""
    done = run("delete", "busy", "default", "none", "empty")
    assert done.exit_code == 1
    assert done.stdout == "queue empty deleted\n"
    busy, default, none = done.stderr.splitlines()
    assert busy.startswith("queue busy still holds 1 job: close it with `vscheduler queue")
    assert default == "queue default can't be deleted: a scheduler would create it again"
    assert none == "there is no queue none"
    assert set(cluster.queues) == {"busy", "default"}


@pytest.mark.parametrize(
    ("parents", "expected"),
    [
        ({"team": "dept", "dept": "root"}, ["team", "dept"]),
        ({"team": "dept", "dept": None}, ["team", "dept"]),
        ({"team": "dept", "dept": "team"}, ["team", "dept"]),
        ({"team": "team"}, ["team"]),
        ({"team": "gone"}, ["team", "gone"]),
    ],
)
def test_each_is_seen_once_up_to_root(parents: dict[str, str | None], expected: list[str]) -> None:
    """A loop ends where it began, and the path at a queue that doesn't exist."""

    def get(name: str) -> dict[str, Any] | None:
        return {"spec": {"parent": parents[name]}} if name in parents else None

    found = list(queue_changes.ancestors(get, "team"))
    assert [name for name, _ in found] == expected
    assert [queue is None for _, queue in found] == [name == "gone" for name in expected]


@pytest.mark.parametrize("queue", [None, {}, {"spec": None}, {"spec": {"parent": "root"}}])
def test_nothing_is_above_a_queue_below_root(queue: dict[str, Any] | None) -> None:
    """Nobody is asked about root."""
    assert list(queue_changes.ancestors(pytest.fail, queue_changes.parent_of(queue))) == []
