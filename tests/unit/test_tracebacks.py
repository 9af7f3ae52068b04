"""How an error came about, in a line of the log: short, and no matter what it was busy with."""

import json
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import structlog

from vscheduler import containment, tracebacks
from vscheduler.containment import Failures
from vscheduler.daemon.observability import logs

pytestmark = pytest.mark.contains_failures

LONGEST = 40_000
"""Characters of the longest traceback that there is."""

STYLES = ("json", "console")


class Cluster:
    """Something that takes long to show."""

    shown = 0

    def __repr__(self) -> str:
        """Counts how often it is asked for."""
        type(self).shown += 1
        return "x" * 10_000


@pytest.fixture(autouse=True)
def _plain_logging(restored_logging: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is set up, and nothing is left behind."""
    del restored_logging
    monkeypatch.setattr(containment, "log", structlog.get_logger())
    monkeypatch.setattr(Cluster, "shown", 0)


def fail_in_a_large_frame() -> None:
    """With a local that nobody should look at."""
    cluster = Cluster()
    raise ValueError("no room") from KeyError(id(cluster))


def dive(depth: int) -> None:
    """Two functions, so that no two lines in a row are the same."""
    if depth:
        surface(depth - 1)
    raise ValueError("deep")


def surface(depth: int) -> None:
    """The other one."""
    dive(depth)


def chain(count: int) -> None:
    """Each error was caused by another."""
    try:
        if count:
            chain(count - 1)
    except ValueError as error:
        raise ValueError(f"link {count}") from error
    raise ValueError("the first")


def gather(count: int) -> None:
    """One error holds many."""
    found = []
    for number in range(count):
        try:
            dive(number)
        except ValueError as error:
            found.append(error)
    raise ExceptionGroup("all of them", found)


def tell_all() -> None:
    """Of an error with a message without an end, and with lines."""
    raise ValueError("a\nlong\n" + "y" * 10_000_000)


def caught(call: Callable[[], object]) -> Exception:
    """What it raises."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError("it was to fail")


BAD: dict[str, Callable[[], object]] = {
    "a large frame": fail_in_a_large_frame,
    "deep": lambda: dive(400),
    "a chain": lambda: chain(100),
    "a group": lambda: gather(100),
    "long": tell_all,
    "a group of groups": lambda: (_ for _ in ()).throw(nested(200)),
}


def nested(depth: int) -> ExceptionGroup[Exception]:
    """A group in a group in a group."""
    inner: Exception = ValueError("innermost")
    for _ in range(depth):
        inner = ExceptionGroup("around", [inner, inner])
    assert isinstance(inner, ExceptionGroup)
    return inner


def logged(path: Path, style: str, say: Callable[[], object]) -> str:
    """What a line of the log has, as it is written."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        writer = logs.configure("info", style, descriptor=file)
        say()
        assert writer.flush(20.0)
    finally:
        os.close(file)
    return path.read_text()


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("who", ["work", "a library", "ours"])
def test_a_line_about_a_failure_is_short(tmp_path: Path, style: str, bad: str, who: str) -> None:
    """Whatever failed, who says so, and in which shape."""
    error = caught(BAD[bad])

    def say() -> None:
        if who == "work":
            Failures().failed("work", "a", error)
        elif who == "ours":
            structlog.get_logger().error("cycle.dropped", exc_info=error)
        else:
            logging.getLogger("kopf").error("a handler failed", exc_info=error)

    text = logged(tmp_path / "log", style, say)
    assert type(error).__name__ in text
    assert "Traceback" in text
    assert len(text) < LONGEST + 2 * tracebacks.MESSAGE_MAX
    assert Cluster.shown == 0
    if style == "json":
        (line,) = text.splitlines()
        shown = json.loads(line)["exception"]
        assert shown == tracebacks.shown(error)
        assert "exc_info" not in json.loads(line)


def test_where_logs_are_not_set_up_a_failure_costs_no_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A command, a test, a program around it: what prints there shows all that it can reach."""
    with Failures().contained("work", "a"):
        fail_in_a_large_frame()
    out = capsys.readouterr().out
    assert "ValueError: no room" in out
    assert "fail_in_a_large_frame" in out
    assert Cluster.shown == 0
    assert len(out) < LONGEST


@pytest.mark.parametrize("bad", BAD)
def test_a_traceback_has_a_bound(bad: str) -> None:
    """Of all that it could be long by."""
    text = tracebacks.shown(caught(BAD[bad]))
    assert len(text) < LONGEST
    assert text.count("  File ") <= tracebacks.ERRORS_MAX * (tracebacks.FIRST + tracebacks.LAST)


def test_files_and_lines_of_any_length_are_cut(tmp_path: Path) -> None:
    """A plugin's may be generated; of a name the end is shown, of a line the beginning."""
    source = "raise ValueError('generated')  # " + "y" * 100_000
    plugin = tmp_path / "plugin.py"
    plugin.write_text(source)
    for name in (str(plugin), "f" * 100_000 + "/plugin.py"):
        text = tracebacks.shown(caught(partial(exec, compile(source, name, "exec"))))
        assert 'plugin.py", line 1, in <module>' in text
        assert len(text) < 2000
        assert ("    raise ValueError('generated')  # yyy" in text) == (name == str(plugin))


def test_a_traceback_says_where_it_came_from_and_where_it_failed() -> None:
    """Of many frames the first and the last, and how many are between."""
    text = tracebacks.shown(caught(lambda: dive(100)))
    lines = text.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "in caught" in lines[1]
    assert lines[2].strip() == "call()"
    assert sum("  File " in line for line in lines) == tracebacks.FIRST + tracebacks.LAST
    total = 2 + 2 * 100 + 1  # caught, the lambda, and so deep
    left_out = total - tracebacks.FIRST - tracebacks.LAST
    assert f"  ... {left_out} frames ..." in lines
    assert lines[-2].strip() == 'raise ValueError("deep")'
    assert lines[-1] == "ValueError: deep"


def test_a_short_traceback_is_whole() -> None:
    """Nothing is said of what isn't left out."""
    text = tracebacks.shown(caught(lambda: dive(1)))
    assert "frames ..." not in text
    assert text.count("  File ") == 2 + 2 + 1


def test_what_an_error_came_of_is_told() -> None:
    """Its cause, what was being handled, or what it holds; and how many more there are."""
    text = tracebacks.shown(caught(fail_in_a_large_frame))
    assert text.index("ValueError: no room") < text.index("Caused by") < text.index("KeyError: ")

    def stumble() -> None:
        try:
            dive(0)
        except ValueError:
            raise KeyError("x")  # noqa: B904 - what it was handling is to be told

    text = tracebacks.shown(caught(stumble))
    assert text.index("KeyError: 'x'") < text.index("While handling") < text.index("ValueError")

    def hide() -> None:
        try:
            dive(0)
        except ValueError:
            raise KeyError("y") from None

    assert "ValueError" not in tracebacks.shown(caught(hide))
    text = tracebacks.shown(caught(lambda: gather(2)))
    assert text.count("One of them") == 2
    text = tracebacks.shown(caught(lambda: gather(100)))
    assert text.count("One of them") == tracebacks.ERRORS_MAX - 1
    assert text.endswith("(and more errors)")


def test_errors_that_go_round_have_an_end() -> None:
    """Each came of the other."""
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert tracebacks.shown(one).splitlines() == [
        "ValueError: one",
        "Caused by:",
        "ValueError: other",
    ]


def test_an_error_that_cannot_say_what_it_is_is_told_all_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And is taken in like any other."""

    class Mute(Exception):  # noqa: N818 - as others name theirs
        def __str__(self) -> str:
            raise RuntimeError("no")

    with Failures().contained("work", "a") as piece:
        raise Mute
    assert piece.failed
    assert "Mute" in capsys.readouterr().out


def test_the_place_of_an_error_is_where_it_was_raised() -> None:
    """Whatever led there; an error that nobody raised has none."""
    places = {tracebacks.place(caught(partial(dive, depth))) for depth in range(3)}
    ((file, line),) = places
    assert file == __file__
    code = Path(__file__).read_text().splitlines()
    assert code[line - 1].strip() == 'raise ValueError("deep")'
    assert tracebacks.place(ValueError()) == ("", 0)
    assert tracebacks.place(caught(tell_all)) not in places
