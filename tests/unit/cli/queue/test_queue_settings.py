"""`queue set`: what is sent, what is printed, and what is refused."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.cli import queue_objects
from tests.unit.cli.queue.conftest import Run
from vscheduler.cli.queue.cluster_client import Object


class Fake:
    """Queues by name, and the patches that were sent."""

    def __init__(self, *found: Object) -> None:
        self.queues = {each["metadata"]["name"]: each for each in found}
        self.sent: list[tuple[str, Mapping[str, Any], bool]] = []
        self.gone = False

    def queue(self, name: str) -> Object | None:
        """One of them."""
        return self.queues.get(name)

    def patch_queue(self, name: str, patch: Mapping[str, Any], *, dry_run: bool) -> Object | None:
        """Note the patch."""
        self.sent.append((name, patch, dry_run))
        return None if self.gone else self.queues[name]


@pytest.fixture
def cluster() -> Fake:
    """A queue below another one, and one with amounts."""
    lab = queue_objects.a_queue(
        "lab",
        capability={"cpu": "8", "memory": "32Gi"},
        guarantee={"resource": {"cpu": "1"}},
        parent="science",
    )
    lab["metadata"]["resourceVersion"] = "7"
    return Fake(
        lab,
        queue_objects.a_queue("science"),
        queue_objects.a_queue("root"),
        queue_objects.a_queue("below", parent="lab"),
    )


def test_what_changes_is_printed_as_it_was_and_as_it_is(run: Run, cluster: Fake) -> None:
    """Only that is sent, with the version that was read; amounts are changed one by one."""
    flags = ["--weight=3", "--capability=cpu=16,memory=", "--deserved=cpu=4", "--priority=7"]
    done = run("set", "lab", *flags, "--guarantee=cpu=500m", "--not-reclaimable", "--parent=root")
    assert done.stdout.splitlines() == [
        "queue lab: weight 1 -> 3",
        "queue lab: parent science -> root",
        "queue lab: priority 0 -> 7",
        "queue lab: reclaimable true -> false",
        "queue lab: capability.cpu 8 -> 16",
        "queue lab: capability.memory 32Gi -> none",
        "queue lab: deserved.cpu none -> 4",
        "queue lab: guarantee.cpu 1 -> 500m",
    ]
    spec = {
        "weight": 3,
        "parent": "root",
        "priority": 7,
        "reclaimable": False,
        "capability": {"cpu": "16", "memory": None},
        "deserved": {"cpu": "4"},
        "guarantee": {"resource": {"cpu": "500m"}},
    }
    assert cluster.sent == [("lab", {"metadata": {"resourceVersion": "7"}, "spec": spec}, False)]
    assert done.exit_code == 0


def test_a_dry_run_says_so(run: Run, cluster: Fake) -> None:
    """The API server checks the change, and keeps it not."""
    assert run("set", "science", "--weight=2", "--dry-run").stdout == (
        "queue science: weight 1 -> 2 (dry run)\n"
    )
    assert [dry_run for *_, dry_run in cluster.sent] == [True]


@pytest.mark.parametrize(
    "flags", [["--weight=1"], ["--capability=cpu=8000m"], ["--deserved=cpu="], ["--reclaimable"]]
)
def test_nothing_is_sent_where_nothing_changes(run: Run, cluster: Fake, flags: list[str]) -> None:
    """Equal amounts may be written in other words."""
    done = run("set", "lab", *flags)
    assert (done.exit_code, done.stdout) == (0, "queue lab has all this already\n")
    assert cluster.sent == []


def test_what_cannot_be_read_is_replaced(run: Run, cluster: Fake) -> None:
    """An amount that was stored before there was a rule about it."""
    cluster.queues["science"]["spec"]["capability"] = {"cpu": "many"}
    assert (
        run("set", "science", "--capability=cpu=4").stdout
        == "queue science: capability.cpu many -> 4\n"
    )


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["none", "--weight=2"], 1, "there is no queue none"),
        (["lab"], 2, "nothing to set: name a flag such as --weight"),
        (["lab", "--parent=none"], 1, "there is no queue none, which would be above lab"),
        (["lab", "--parent=lab"], 1, "queue lab can't be below lab, which is the queue itself"),
        (["lab", "--parent=below"], 1, "queue lab can't be below below, which is below lab"),
        (["root", "--parent=lab"], 1, "root is above all queues and has no parent"),
        (["lab", "--capability=cpu=8cores"], 2, "capability.cpu: '8cores' is not a quantity"),
        (["lab", "--weight=0"], 2, "--weight"),
    ],
)
def test_mistakes_change_nothing(
    run: Run, cluster: Fake, words: list[str], status: int, says: str
) -> None:
    """The message names the queue and what is wrong."""
    done = run("set", *words)
    assert (done.exit_code, cluster.sent) == (status, [])
    assert says in done.stderr


def test_a_queue_that_has_just_been_deleted(run: Run, cluster: Fake) -> None:
    """Between reading and writing."""
    cluster.gone = True
    done = run("set", "lab", "--weight=2")
    assert (done.exit_code, done.stderr) == (1, "queue lab has been deleted\n")


def test_parents_in_a_ring_end_the_walk(run: Run, cluster: Fake) -> None:
    """Two queues above each other: the API server can't see that."""
    cluster.queues["science"]["spec"]["parent"] = "below"
    cluster.queues["below"]["spec"]["parent"] = "science"
    assert run("set", "lab", "--parent=below").exit_code == 0
