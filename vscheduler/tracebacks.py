"""How an error came about, as text for the log: of bounded length, and at a bounded cost.

A scheduler's frames hold whole clusters. Values are never shown, only where the code was; and of
many frames the first and the last, of many errors that came of each other the nearest.
"""

import itertools
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from types import FrameType, TracebackType

FIRST = 5
"""Frames that are shown from where it began."""

LAST = 15
"""Frames that are shown up to where it failed."""

ERRORS_MAX = 4
"""Errors that are shown: it, what it came of, and what it holds."""

MESSAGE_MAX = 1000
"""Characters of what an error says."""

LINE_MAX = 200
"""Characters of a line of code, and of a file's name, of which the end is shown."""


def shown(error: BaseException, trace: TracebackType | None = None) -> str:
    """It first, then what it came of; trace is how it came about where that isn't its own."""
    parts: list[str] = []
    waiting = deque([("", error, trace or error.__traceback__)])
    met = {id(error)}
    while waiting and len(parts) < ERRORS_MAX:
        reason, each, way = waiting.popleft()
        parts.append("\n".join([*([reason] if reason else []), *_lines(each, way)]))
        for origin, other in itertools.islice(_origins(each), ERRORS_MAX):
            if id(other) not in met:
                met.add(id(other))
                waiting.append((origin, other, other.__traceback__))
    if waiting:
        parts.append("(and more errors)")
    return "\n".join(parts)


def said(error: BaseException) -> str:
    """Its type and the beginning of what it says; also of one that fails at saying it."""
    kind = type(error)
    try:
        text = str(error)[:MESSAGE_MAX]
    except Exception:  # noqa: BLE001 - it is in the midst of failing
        text = "it can't say what it is"
    return f"{kind.__name__}: {text}" if text else kind.__name__


def place(error: BaseException) -> tuple[str, int]:
    """The file and the line where it was raised; none where it wasn't."""
    last = deque(traceback.walk_tb(error.__traceback__), maxlen=1)
    return next(((frame.f_code.co_filename, line) for frame, line in last), ("", 0))


def _origins(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """What it holds and what it came of."""
    if isinstance(error, BaseExceptionGroup):
        yield from (("One of them:", each) for each in error.exceptions)
    if error.__cause__ is not None:
        yield "Caused by:", error.__cause__
    elif error.__context__ is not None and not error.__suppress_context__:
        yield "While handling:", error.__context__


def _lines(error: BaseException, trace: TracebackType | None) -> Iterator[str]:
    """One error."""
    if trace is not None:
        yield "Traceback (most recent call last):"
        frames = traceback.walk_tb(trace)
        yield from _frames(itertools.islice(frames, FIRST))
        count = itertools.count()
        rest = deque(zip(frames, count, strict=False), maxlen=LAST)
        left_out = next(count) - len(rest)
        if left_out > 0:
            yield f"  ... {left_out} frames ..."
        yield from _frames(frame for frame, _ in rest)
    yield said(error)


def _frames(frames: Iterable[tuple[FrameType, int]]) -> Iterator[str]:
    """Where the code was, as Python shows it, without the values that it had there."""
    for each in traceback.StackSummary.extract(frames):
        yield f'  File "{each.filename[-LINE_MAX:]}", line {each.lineno}, in {each.name[:LINE_MAX]}'
        if each.line:
            yield f"    {each.line[:LINE_MAX]}"
