"""Tracebacks as text for the log, with bounded length and cost.

Frames of a scheduler hold whole clusters, so values are never shown, only code locations. Of many
frames the first and last are shown, of many chained errors the nearest.
"""

import itertools
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from types import FrameType, TracebackType

FIRST = 5
"""How many outermost frames are shown."""

LAST = 15
"""How many innermost frames are shown."""

ERRORS_MAX = 4
"""How many errors are shown: the error, its causes, and the members of groups."""

MESSAGE_MAX = 1000
"""Maximal characters of an error message."""

LINE_MAX = 200
"""Maximal characters of a code line, and of a file name, of which the end is shown."""


def shown(error: BaseException, trace: TracebackType | None = None) -> str:
    """Return an error with its causes as text; `trace` replaces the error's own traceback."""
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
    """Return the error's type and the start of its message, even if the message itself fails."""
    kind = type(error)
    try:
        text = str(error)[:MESSAGE_MAX]
    except Exception:  # noqa: BLE001 - it is in the midst of failing
        text = "it can't say what it is"
    return f"{kind.__name__}: {text}" if text else kind.__name__


def place(error: BaseException) -> tuple[str, int]:
    """Return the file and line where the error was raised; empty if the error was never raised."""
    last = deque(traceback.walk_tb(error.__traceback__), maxlen=1)
    return next(((frame.f_code.co_filename, line) for frame, line in last), ("", 0))


def _origins(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """Iterate over the members and causes of an error."""
    if isinstance(error, BaseExceptionGroup):
        yield from (("One of them:", exception) for exception in error.exceptions)
    if error.__cause__ is not None:
        yield "Caused by:", error.__cause__
    elif error.__context__ is not None and not error.__suppress_context__:
        yield "While handling:", error.__context__


def _lines(error: BaseException, trace: TracebackType | None) -> Iterator[str]:
    """Iterate over the lines of a single error."""
    if trace is not None:
        yield "Traceback (most recent call last):"
        # Frames are walked lazily and only the ends kept: a RecursionError has thousands.
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
    """Iterate over the lines of frames as Python prints them, without values."""
    for each in traceback.StackSummary.extract(frames):
        yield f'  File "{each.filename[-LINE_MAX:]}", line {each.lineno}, in {each.name[:LINE_MAX]}'
        if each.line:
            yield f"    {each.line[:LINE_MAX]}"
