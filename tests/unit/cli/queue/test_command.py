"""The commands on a cluster of plain objects: what is printed where, and the exit status."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import yaml
from click import testing

from tests.unit.cli import queue_objects
from tests.unit.cli.queue_objects import Fake
from vscheduler.cli import main
from vscheduler.cli.queue import cluster_client, queue_watch
from vscheduler.cli.queue.cluster_client import Change, ClusterError, Forbidden, Kind, Unreachable
from vscheduler.cli.queue.queue_watch import News

QUEUES = [
    queue_objects.a_queue("gold", status=queue_objects.FIGURES, parent="metals"),
    queue_objects.a_queue("metals", weight=3),
    queue_objects.a_queue("silver", status={"share": 1.5}, weight=2),
]
GROUPS = [
    queue_objects.a_group("late", "gold", why="queue gold is full"),
    queue_objects.a_group("runs", "gold", "Running"),
]
Run = Callable[..., testing.Result]


@pytest.fixture
def source() -> Fake:
    """A cluster with three queues and two PodGroups."""
    return Fake(list(QUEUES), list(GROUPS))


@pytest.fixture
def run(source: Fake, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command on that cluster."""

    @contextmanager
    def opened(kubeconfig: str, context: str) -> Iterator[Fake]:
        assert (kubeconfig, context) == ("file", "here")
        yield source

    monkeypatch.setattr(cluster_client, "opened", opened)

    def invoke(*words: str) -> testing.Result:
        place = ["--kubeconfig=file", "--context", "here"]
        return testing.CliRunner().invoke(main.vscheduler, ["queue", *words, *place])

    return invoke


def first_words(text: str) -> list[str]:
    """Of each line."""
    return [line.split()[0] for line in text.splitlines()]


@pytest.mark.parametrize(
    ("words", "order"),
    [
        ([], ["gold", "metals", "silver"]),
        (["--sort-by=share"], ["silver", "gold", "metals"]),
        (["--sort-by=weight"], ["metals", "silver", "gold"]),
        (["-o", "wide"], ["gold", "metals", "silver"]),
    ],
)
def test_list(run: Run, words: list[str], order: list[str]) -> None:
    """A line each, in the order that is asked for."""
    done = run("list", *words)
    assert (done.exit_code, done.stderr) == (0, "")
    assert first_words(done.stdout) == ["NAME", *order]
    assert ("REALCAPABILITY" in done.stdout) == ("wide" in words)


def test_list_counts_podgroups(run: Run) -> None:
    """As nobody has written the counts; those that are Inqueue wait, too."""
    titles, gold, *_ = run("list").stdout.splitlines()
    counts = [gold[titles.index(title) :].split()[0] for title in ("WAITING", "RUNNING")]
    assert counts == ["1", "1"]


def test_counts_of_a_controller_need_no_podgroups(run: Run, source: Fake) -> None:
    """They are many; all about a queue needs them, for what waits."""
    source.items[Kind.QUEUE] = [
        queue_objects.a_queue("gold", status={"inqueue": 1, "pending": 1, "running": 3})
    ]
    assert run("list").stdout.splitlines()[1].split()[-3:-1] == ["2", "3"]
    assert source.asked == [Kind.QUEUE]
    assert "\nPodGroups:  1 pending, 1 inqueue, 3 running\n" in run("get", "gold").stdout
    assert source.asked == [Kind.QUEUE, Kind.QUEUE, Kind.POD_GROUP, Kind.NATIVE_POD_GROUP]


def test_list_of_nothing(run: Run, source: Fake) -> None:
    """As kubectl says it."""
    source.items[Kind.QUEUE] = []
    done = run("list")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "No queues found.\n")


def test_objects_are_whole(run: Run, source: Fake) -> None:
    """A List in the order of the table, without bookkeeping; PodGroups aren't asked for."""
    done = run("list", "-o", "json", "--sort-by=weight")
    shown = json.loads(done.stdout)
    assert (shown["apiVersion"], shown["kind"]) == ("v1", "List")
    assert [each["metadata"]["name"] for each in shown["items"]] == ["metals", "silver", "gold"]
    assert [each["spec"] for each in shown["items"]] == [QUEUES[at]["spec"] for at in (1, 2, 0)]
    assert "managedFields" not in done.stdout
    assert source.asked == [Kind.QUEUE]
    assert yaml.safe_load(run("list", "-o", "yaml", "--sort-by=weight").stdout) == shown


def test_tree(run: Run) -> None:
    """In the tree's order, as text and as objects; figures are those that are written."""
    assert run("tree").stdout.splitlines()[1:4] == [
        "root        -      -           -",
        "├─ metals   -      -           -",
        "│  └─ gold  24/25  96Gi/100Gi  0.96 (cpu)",
    ]
    items = json.loads(run("tree", "-o", "json").stdout)["items"]
    assert [each["metadata"]["name"] for each in items] == ["metals", "gold", "silver"]


def test_get(run: Run) -> None:
    """Blocks in the order of the names, each name once."""
    done = run("get", "silver", "gold", "silver")
    assert done.exit_code == 0
    assert [line for line in done.stdout.splitlines() if line.startswith("Name:")] == [
        "Name:       silver",
        "Name:       gold",
    ]
    assert f"\n\nvscheduler: {queue_objects.WHY}\n\nWaiting:\n  team/late (" in done.stdout
    assert done.stdout.endswith("): queue gold is full\n")


def test_get_as_a_line(run: Run) -> None:
    """Wide is the table's."""
    assert first_words(run("get", "silver", "gold", "-o", "wide").stdout) == [
        "NAME",
        "silver",
        "gold",
    ]


def test_get_as_objects(run: Run) -> None:
    """One is itself, several are a List."""
    assert json.loads(run("get", "gold", "-o", "json").stdout)["metadata"]["name"] == "gold"
    assert json.loads(run("get", "gold", "silver", "-o", "json").stdout)["kind"] == "List"


def test_get_of_what_is_not_there(run: Run) -> None:
    """The others are shown; names that are like it are told."""
    done = run("get", "silvr", "gold", "copper")
    assert done.exit_code == 1
    assert done.stdout.startswith("Name:       gold\n")
    assert done.stderr.splitlines() == [
        "there is no queue silvr; did you mean silver?",
        "there is no queue copper",
    ]


@pytest.mark.parametrize("output", ["table", "json"])
def test_get_of_nothing_that_is_there(run: Run, output: str) -> None:
    """Nothing on stdout, not even a List of nothing."""
    done = run("get", "copper", "-o", output)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "there is no queue copper\n"


def test_get_of_several_that_are_not_there(run: Run, source: Fake) -> None:
    """Nor is anything said of all queues; who may not list them is told no other names."""
    source.refusals[Kind.QUEUE] = [Forbidden("you may not")]
    done = run("get", "silvr", "copper")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "there is no queue silvr\nthere is no queue copper\n"


def test_without_podgroups_the_rest_is_shown(run: Run, source: Fake) -> None:
    """With a note; no server at all is an error."""
    source.refusals[Kind.POD_GROUP] = [Forbidden("you may not")]
    done = run("list")
    assert (done.exit_code, done.stderr) == (0, "PodGroups are left out: you may not\n")
    assert done.stdout.splitlines()[1].split()[-3:-1] == ["-", "-"]
    source.refusals[Kind.POD_GROUP] = [Unreachable("it is gone")]
    assert run("list").exit_code == 1


@pytest.mark.parametrize("words", [["list"], ["tree"], ["get", "x"], ["list", "-w"]])
def test_errors_are_one_sentence(run: Run, source: Fake, words: list[str]) -> None:
    """On stderr, and the status says so."""
    source.refusals[Kind.QUEUE] = [ClusterError("it said no")]
    done = run(*words)
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", "Error: it said no\n")


def test_a_watch_wants_its_queues_to_be_there(run: Run) -> None:
    """At the start; later ones may go."""
    done = run("get", "-w", "silvr", "gold")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "Error: there is no queue silvr; did you mean silver?\n"


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["list"], ["NAME", "gold", "metals", "silver", "silver"]),
        (["get", "silver", "-o", "wide"], ["NAME", "silver", "silver"]),
        (["tree", "-o", "yaml"], ["---", "---", "---", "---"]),
        (["get", "silver", "-o", "yaml"], ["---", "---"]),
    ],
)
def test_watching(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], lines: list[str]
) -> None:
    """What is there, then what changes, until Ctrl-C."""

    def news(source: Fake, kinds: tuple[Kind, ...]) -> Iterator[list[News]]:
        yield [(kind, source.list(kind)) for kind in kinds]
        changed = queue_objects.a_queue("silver", status={"share": 0.5})
        yield [(Kind.QUEUE, Change(item=changed))]
        raise KeyboardInterrupt

    monkeypatch.setattr(queue_watch, "news", news)
    done = run(*words, "-w")
    assert (done.exit_code, done.stderr) == (130, "")
    told = [line for line in done.stdout.splitlines() if line[:1] not in {" ", ""}]
    if "yaml" in words:
        told = [line for line in told if line == "---"]
    assert [line.split()[0] for line in told] == lines
