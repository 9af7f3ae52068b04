import io
import sys
from typing import TextIO

import click
import pytest

from tests.unit.cli import queue_objects
from vscheduler.cli import consoles
from vscheduler.cli.queue import cluster_client, queue_screens, queue_tables, queue_watch

FILE = queue_tables.Style(now=0.0)


def view(*names: str, trouble: str = "", **status: object) -> queue_watch.View:
    """These queues, all with this status."""
    return queue_watch.View(
        queues={name: queue_objects.a_queue(name, status=dict(status)) for name in names},
        troubles={cluster_client.Kind.QUEUE: trouble} if trouble else {},
    )


def rows(seen: queue_watch.View, style: queue_tables.Style) -> list[queue_tables.Row]:
    """Of all queues."""
    return queue_tables.list_rows(seen.figures(), style)


def lines(seen: queue_watch.View, style: queue_tables.Style) -> list[str]:
    """Of all queues."""
    return queue_tables.listed(seen.figures(), style)


def test_a_log_gets_a_line_for_each_queue_that_looks_different(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Below titles that fit what was there first; a queue that is gone is told once."""
    show = queue_screens.Log(rows, FILE)
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
    show = queue_screens.Log(rows, FILE)
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
    show = queue_screens.Pages(lines, FILE)
    for share in (0.5, 0.5, 0.75):
        show(view("gold", share=share), [])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[5] for line in printed if line.startswith("gold")] == ["0.50", "0.75"]
    assert printed.index("") == 2


def test_trouble_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, and again when it comes again."""
    show = queue_screens.Pages(lines, FILE)
    for trouble in ("no answer", "no answer", "", "no answer"):
        show(view("gold", trouble=trouble), [])
    assert capsys.readouterr().err.splitlines() == ["no answer; trying again"] * 2


def test_a_terminal_shows_the_latest_and_its_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place, as wide as it is, in the colours that it is given."""
    stream = io.StringIO()
    made = consoles.Screen

    def terminal(_: TextIO) -> consoles.Screen:
        return made(stream, force_terminal=True, width=70, height=20)

    monkeypatch.setattr(consoles, "Screen", terminal)
    style = queue_tables.Style(now=0.0, width=999, paint=queue_screens.paint)
    with queue_screens.terminal(lines, style) as show:
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
        ("NAME", "Closed", None),
    ],
)
def test_what_is_not_as_usual_has_a_colour(title: str, cell: str, colour: str | None) -> None:
    """A queue that takes no jobs, and one that borrows."""
    assert queue_screens.paint(title, cell) == (click.style(cell, fg=colour) if colour else cell)


def test_colours_are_for_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    """Titles are bold, and a file gets none of it."""
    assert queue_screens.paint("", "NAME") == click.style("NAME", bold=True)
    assert not sys.stdout.isatty()
    queue_screens.Pages(lines, queue_tables.Style(now=0.0))(view("gold", share=9), [])
    assert "\x1b" not in capsys.readouterr().out
