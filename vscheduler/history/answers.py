"""Questions about history, as parameters with texts, and the answers: the same for the page and for
commands that read a file.
"""

from collections.abc import Iterable, Mapping, Sequence

from vscheduler.history import documents
from vscheduler.history.documents import Document
from vscheduler.history.queries import ROWS_MAX, SERIES_BY, STEPS_MAX, By, Filter, Reader, Visible
from vscheduler.history.records import JobState

JOBS_MAX = 1000
"""How many jobs one answer has at most."""

VALUES_MAX = 100
"""How many values a filter names at most."""

STEP_LEAST = 10
"""Seconds of the shortest step."""

Parameters = Mapping[str, Sequence[str]]
"""The values of each parameter."""


class BadQueryError(Exception):
    """A parameter makes no sense. The message is a sentence."""


def jobs(reader: Reader, seen: Visible, given: Parameters, now: float) -> Document:
    """Return jobs, the latest first; `seen` are the namespaces that the asker may see.

    Raises BadQueryError, and what the reader raises; so do the others.
    """
    limit = _number(given, "limit", 100, JOBS_MAX)
    try:
        before = documents.place(_one(given, "before", ""))
    except ValueError as error:
        raise BadQueryError(str(error)) from None
    wanted = Filter(
        visible=_within(seen, given),
        since=_instant(given, "since", "0", now),
        until=_instant(given, "until", str(int(now) + 1), now),
        queues=_several(given, "queue"),
        users=_several(given, "user"),
        owners=_several(given, "owner"),
        names=_several(given, "name"),
        states=[_state(text) for text in _several(given, "state")],
    )
    found = reader.jobs(wanted, int(now), limit=limit, before=before)
    return documents.jobs_of(found, limit, int(now))


def report(reader: Reader, seen: Visible, given: Parameters, now: float) -> Document:
    """Return sums."""
    by, wanted = _by(given, By), _part(seen, given, now)
    limit = _number(given, "limit", ROWS_MAX, JOBS_MAX)
    found = reader.report(by, wanted, int(now), limit)
    return documents.report(found, by, wanted.since, wanted.until)


def usage(
    reader: Reader, seen: Visible, given: Parameters, now: float, *, queues: bool = False
) -> Document:
    """Return use over time. `queues`: whether the asker may see all that queues use."""
    by, wanted = _by(given, SERIES_BY), _part(seen, given, now)
    if by is By.QUEUE and queues and not _several(given, "namespace"):
        wanted = Filter(since=wanted.since, until=wanted.until, queues=wanted.queues)
    span = wanted.until - wanted.since
    step = _number(given, "step", max(STEP_LEAST, span // 200), 1 << 40)
    if step < STEP_LEAST or span / step > STEPS_MAX:
        raise BadQueryError(
            f"step is in seconds, at least {STEP_LEAST}, and there are at most {STEPS_MAX}"
        )
    return documents.usage(reader.usage(by, wanted, step, int(now)), by, step)


def _within(seen: Visible, given: Parameters) -> Visible:
    """Return the namespaces that are asked for, as far as they may be seen."""
    namespaces = _several(given, "namespace")
    return seen.within(namespaces) if namespaces else seen


def _part(seen: Visible, given: Parameters, now: float) -> Filter:
    """Return what sums are over."""
    since = _instant(given, "since", "1d", now)
    until = min(int(now), _instant(given, "until", str(int(now)), now))
    if since >= until:
        raise BadQueryError("since must be before until, and in the past")
    return Filter(
        visible=_within(seen, given),
        since=since,
        until=until,
        queues=_several(given, "queue"),
        users=_several(given, "user"),
    )


def _several(given: Parameters, name: str) -> Sequence[str]:
    found = given.get(name, ())
    if len(found) > VALUES_MAX:
        raise BadQueryError(f"{name} has more than {VALUES_MAX} values")
    return found


def _one(given: Parameters, name: str, default: str) -> str:
    found = given.get(name, ())
    return found[0] if found else default


def _number(given: Parameters, name: str, default: int, most: int) -> int:
    text = _one(given, name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) <= 12 and int(text)):
        raise BadQueryError(f"{name} is no number above 0")
    return min(int(text), most)


def _instant(given: Parameters, name: str, default: str, now: float) -> int:
    try:
        return documents.instant(_one(given, name, default), now)
    except ValueError as error:
        raise BadQueryError(f"{name}: {error}") from None


def _by(given: Parameters, known: Iterable[By]) -> By:
    text = _one(given, "by", By.QUEUE)
    if text not in set(known):
        raise BadQueryError(f"by is none of {', '.join(known)}")
    return By(text)


def _state(text: str) -> JobState:
    found = {state.lower(): state for state in JobState}.get(text.lower())
    if found is None:
        raise BadQueryError(f"state is none of {', '.join(JobState)}")
    return found
