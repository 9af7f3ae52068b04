import io
import itertools
import sys
from collections.abc import Sequence
from typing import TextIO

import click
import pytest

from tests.unit.cli import queue_objects
from tests.unit.cli.queue_objects import Fake
from vscheduler.cli.output import Screen
from vscheduler.cli.queue import cluster_client, queue_tables, queue_watch
from vscheduler.cli.queue.cluster_client import (
    Change,
    ClusterError,
    Expired,
    Forbidden,
    Kind,
    Listing,
    NotServed,
    Object,
    Unreachable,
)
from vscheduler.cli.queue.queue_tables import Row, Style
from vscheduler.cli.queue.queue_watch import Failure, Find, Log, Pages, View

GOLD = queue_objects.a_queue("gold", status=queue_objects.FIGURES)
GOLDEN = queue_objects.a_queue("gold", weight=2)
SILVER = queue_objects.a_queue("silver")
AWAY = Unreachable("the API server doesn't answer")
DENIED = Forbidden("you may not")


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for what doesn't come."""
    monkeypatch.setattr(queue_watch, "TICK_SECONDS", 0.05)
    monkeypatch.setattr(queue_watch, "TOGETHER_SECONDS", 0.02)
    monkeypatch.setattr(queue_watch, "RETRY_SECONDS", 0.01)


def names(found: Sequence[Object]) -> list[str]:
    """Of these objects."""
    return [each["metadata"]["name"] for each in found]


def listing(*items: Object) -> Listing:
    """A list of these."""
    return Listing(items=list(items), version="1")


def test_a_view_tells_which_queues_are_new_or_different() -> None:
    """Not those that are as they were, nor those that are gone."""
    view = View()
    assert names(view.take([(Kind.QUEUE, listing(GOLD, SILVER))])) == ["gold", "silver"]
    assert view.take([(Kind.QUEUE, listing(GOLD, SILVER))]) == []
    assert names(view.take([(Kind.QUEUE, Change(item=GOLDEN))])) == ["gold"]
    assert view.take([(Kind.QUEUE, Change(item=SILVER, gone=True))]) == []
    assert list(view.queues) == ["gold"]


def test_a_view_knows_what_waits() -> None:
    """PodGroups come and go as well."""
    view = View(queues={"gold": GOLD})
    assert view.waiting("gold") is None
    waits = queue_objects.a_group("a", "gold", why="no room")
    runs = queue_objects.a_group("b", "gold", "Running")
    view.take([(Kind.POD_GROUP, listing(waits))])
    view.take([(Kind.POD_GROUP, Change(item=runs))])
    assert [each.key for each in view.waiting("gold") or ()] == ["team/a"]
    (gold,) = view.figures()
    assert gold.counts is not None
    assert (gold.counts.pending, gold.counts.running) == (1, 1)
    view.take([(Kind.POD_GROUP, Change(item=waits, gone=True))])
    assert view.waiting("gold") == []


def test_a_view_counts_kubernetes_own_groups() -> None:
    """From the moment at which they have a queue; where there are none, nothing is said."""
    view = View(queues={"gold": GOLD})
    view.take([(Kind.POD_GROUP, listing(queue_objects.a_group("a", "gold", "Running")))])
    waits = queue_objects.a_native_group("a", "gold", why="no room")
    unqueued = queue_objects.a_native_group("b", "")
    view.take([(Kind.NATIVE_POD_GROUP, listing(waits, unqueued))])
    (gold,) = view.figures()
    assert gold.counts is not None
    assert (gold.counts.pending, gold.counts.running) == (1, 1)
    assert [each.key for each in view.waiting("gold") or ()] == ["team/a@scheduling.k8s.io"]
    runs = queue_objects.a_native_group("a", "gold", "Running")
    view.take([(Kind.NATIVE_POD_GROUP, Change(item=runs))])
    assert view.waiting("gold") == []
    view.take([(Kind.NATIVE_POD_GROUP, Change(item=runs, gone=True))])
    view.take([(Kind.NATIVE_POD_GROUP, Failure(error=NotServed("none"), final=True))])
    assert (len(view.groups or ()), view.native_groups, view.notes) == (1, {}, [])
    view.take([(Kind.NATIVE_POD_GROUP, Failure(error=DENIED, final=True))])
    assert view.notes == ["PodGroups are left out: you may not"]


def test_without_queues_there_is_nothing_to_show_without_podgroups_there_is() -> None:
    """Whoever may not see PodGroups sees queues all the same."""
    view = View(queues={"gold": GOLD}, groups={})
    view.take([(Kind.POD_GROUP, Failure(error=DENIED, final=True))])
    assert (view.groups, view.notes) == (None, ["PodGroups are left out: you may not"])
    with pytest.raises(Forbidden):
        view.take([(Kind.QUEUE, Failure(error=DENIED, final=True))])


def test_trouble_is_over_with_the_next_list() -> None:
    """Of the same kind; what was known stays until then."""
    view = View(queues={"gold": GOLD})
    view.take([(Kind.QUEUE, Failure(error=AWAY, final=False))])
    view.take([(Kind.POD_GROUP, listing())])
    assert (list(view.queues), view.notes) == (["gold"], [f"{AWAY}; trying again"])
    view.take([(Kind.QUEUE, listing(SILVER))])
    assert (list(view.queues), view.notes) == (["silver"], [])


def followed(source: Fake, count: int) -> list[Find]:
    """The first finds of following queues."""
    found: list[Find] = []

    class Enough(Exception):  # noqa: N818 - no error
        pass

    def tell(find: Find) -> None:
        found.append(find)
        if len(found) == count:
            raise Enough

    with pytest.raises(Enough):
        queue_watch.follow(source, Kind.QUEUE, tell)
    return found


@pytest.mark.parametrize("end", [None, Expired("too old")])
def test_a_watch_that_ends_begins_anew_with_a_list(end: ClusterError | None) -> None:
    """Whether the server has had enough, or the version is too old."""
    source = Fake([GOLD], [])
    change = Change(item=GOLDEN)
    source.script.put(change)
    source.script.put(end)
    source.script.put(change)
    assert followed(source, 4) == [listing(GOLD), change, listing(GOLD), change]


def test_a_server_that_goes_away_is_asked_again() -> None:
    """Once it has answered; what it knows then is told."""
    source = Fake([GOLD], [])
    source.refusals[Kind.QUEUE] = [None, AWAY, AWAY, None]
    source.script.put(AWAY)
    finds = followed(source, 5)
    lost = Failure(error=AWAY, final=False)
    assert finds == [listing(GOLD), lost, lost, lost, listing(GOLD)]


@pytest.mark.parametrize(("refusals", "finds"), [([AWAY], 1), ([DENIED], 1), ([None, DENIED], 2)])
def test_what_does_not_go_away_by_itself_is_final(
    refusals: list[ClusterError | None], finds: int
) -> None:
    """No answer at the very start, and at any time a no."""
    source = Fake([GOLD], [])
    source.refusals[Kind.QUEUE] = list(refusals)
    source.script.put(None)
    found: list[Find] = []
    queue_watch.follow(source, Kind.QUEUE, found.append)
    error = refusals[-1]
    assert error is not None
    assert len(found) == finds
    assert found[-1] == Failure(error=error, final=True)


def test_the_first_portion_of_news_has_everything() -> None:
    """Then come changes, together if they come together, and nothing when nothing happens."""
    source = Fake([GOLD], [queue_objects.a_group("a", "gold")])
    changes = queue_watch.news(source, (Kind.QUEUE, Kind.POD_GROUP))
    first = next(changes)
    assert {kind for kind, _ in first} == {Kind.QUEUE, Kind.POD_GROUP}
    assert next(changes) == []
    for item in (GOLDEN, SILVER):
        source.script.put(Change(item=item))
    later = list(itertools.chain.from_iterable(itertools.islice(changes, 4)))
    assert [find.item for _, find in later if isinstance(find, Change)] == [
        GOLDEN,
        SILVER,
    ]


def test_news_without_podgroups_still_begin() -> None:
    """A refusal is news, too."""
    source = Fake([GOLD], [])
    source.refusals[Kind.POD_GROUP] = [DENIED]
    view = View()
    view.take(next(queue_watch.news(source, (Kind.QUEUE, Kind.POD_GROUP))))
    assert (list(view.queues), view.groups) == (["gold"], None)
    assert view.notes == ["PodGroups are left out: you may not"]


FILE = Style(now=0.0)


def view(*names: str, trouble: str = "", **status: object) -> View:
    """These queues, all with this status."""
    return View(
        queues={
            name: queue_objects.a_queue(name, status={"deserved": {"cpu": "8"}, **status})
            for name in names
        },
        troubles={cluster_client.Kind.QUEUE: trouble} if trouble else {},
    )


def rows(seen: View, style: Style) -> list[Row]:
    """Of all queues."""
    return queue_tables.list_rows(seen.figures(), style)


def lines(seen: View, style: Style) -> list[str]:
    """Of all queues."""
    return queue_tables.listed(seen.figures(), style)


def test_a_log_gets_a_line_for_each_queue_that_looks_different(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Below titles that fit what was there first; a queue that is gone is told once."""
    show = Log(rows, FILE)
    both = view("gold", "silver", allocated={"cpu": "1"})
    show(both, [])
    show(both, [])
    both.queues["silver"] = queue_objects.a_queue("silver", status={"state": "Closing"})
    show(both, [])
    del both.queues["gold"]
    show(both, [])
    show(both, [])
    printed = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert printed == [
        ["NAME", "STATE"],
        ["gold", "Open"],
        ["silver", "Open"],
        ["silver", "Closing"],
        ["gold", "Deleted"],
    ]


def test_a_log_gets_new_titles_for_a_new_column(capsys: pytest.CaptureFixture[str]) -> None:
    """And all queues below them."""
    show = Log(rows, FILE)
    show(view(), [])
    show(view("gold", "silver"), [])
    show(view("gold", "silver", allocated={"gpu": "1"}), [])
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [words[0] for words in printed] == ["NAME", "gold", "silver"] * 2
    assert ("GPU" in printed[0], "GPU" in printed[3]) == (False, True)


def test_a_page_is_printed_anew_when_more_than_ages_has_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With an empty line before it."""
    show = Pages(lines, FILE)
    for share in (0.5, 0.5, 0.75):
        show(view("gold", share=share), [])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[5] for line in printed if line.startswith("gold")] == ["0.50", "0.75"]
    assert printed.index("") == 2


def test_trouble_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, and again when it comes again."""
    show = Pages(lines, FILE)
    for trouble in ("no answer", "no answer", "", "no answer"):
        show(view("gold", trouble=trouble), [])
    assert capsys.readouterr().err.splitlines() == ["no answer; trying again"] * 2


def test_a_terminal_shows_the_latest_and_its_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place, as wide as it is, in the colours that it is given."""
    stream = io.StringIO()

    def terminal(_: TextIO) -> Screen:
        return Screen(stream, force_terminal=True, width=70, height=20)

    monkeypatch.setattr(queue_watch, "Screen", terminal)
    style = Style(now=0.0, width=999, paint=queue_watch.paint)
    with queue_watch.terminal(lines, style) as show:
        show(view("gold", share=0.5), [])
        show(view("gold", "robotics-and-vision", share=1.5, trouble="no answer"), [])
    last = stream.getvalue().rpartition("NAME")[2]
    assert "ALLOCATED/DESERVED" in last
    assert "\x1b[36m1.50" in last
    assert "no answer" in last


@pytest.mark.parametrize(
    ("title", "cell", "colour"),
    [
        ("STATE", "Open", None),
        ("STATE", "Closed", "yellow"),
        ("STATE", "", None),
        ("SHARE", "1.00", None),
        ("SHARE", "1.01", "cyan"),
        ("SHARE", "10.50", "cyan"),
        ("SHARE", "-", None),
        ("SHARE", "0.96 (cpu)", None),
        ("SHARE", "borrowed", "cyan"),
        ("NAME", "Closed", None),
    ],
)
def test_what_is_not_as_usual_has_a_colour(title: str, cell: str, colour: str | None) -> None:
    """A queue that takes no jobs, and one that borrows."""
    assert queue_watch.paint(title, cell) == (click.style(cell, fg=colour) if colour else cell)


def test_colours_are_for_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    """Titles are bold, and a file gets none of it."""
    assert queue_watch.paint("", "NAME") == click.style("NAME", bold=True)
    assert not sys.stdout.isatty()
    Pages(lines, Style(now=0.0))(view("gold", share=9), [])
    assert "\x1b" not in capsys.readouterr().out
