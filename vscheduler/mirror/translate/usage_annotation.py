"""The annotation that stores the past usage of a queue, between its JSON text and the model.

    vscheduler/fair-share-usage: {"version":1,"time":"2026-01-01T12:00:00.000000Z","usage":86400.0,
      "rate":24.0,"namespaces":{"team-a":{"usage":86400.0,"rate":24.0}}}

The prefix is the scheduler's name. `usage` is in unit-seconds, decayed to `time`, and grows by
`rate` each second from then on.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from vscheduler.mirror.decode import fields
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.model.queues import NUMBER_MAX, OURS, Account, Usage

SUFFIX = "/fair-share-usage"
VERSION = 1

DIGITS = 9
"""Significant digits of a usage. A rate is written in full, so reading returns the written rate."""

_Number = Annotated[float, msgspec.Meta(ge=0, le=NUMBER_MAX)]
_Instant = Annotated[dt.datetime, msgspec.Meta(tz=True)]


class _Account(msgspec.Struct, frozen=True):
    usage: _Number
    rate: _Number


class _Record(msgspec.Struct, frozen=True):
    time: _Instant
    usage: _Number
    rate: _Number
    namespaces: dict[str, _Account] = {}


class _Versioned(msgspec.Struct, frozen=True):
    version: int


_decode_version = msgspec.json.Decoder(_Versioned).decode
_decode_record = msgspec.json.Decoder(_Record).decode


def annotation(scheduler: str) -> str:
    """Return the annotation key of a scheduler."""
    return f"{scheduler}{SUFFIX}"


def without_records(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """Return a queue's annotations without usage records."""
    if not any(key.endswith(SUFFIX) for key in annotations):
        return annotations
    return {key: text for key, text in annotations.items() if not key.endswith(SUFFIX)}


def read(annotations: Mapping[str, str], scheduler_names: Sequence[str]) -> dict[str, Usage]:
    """Return a queue's records by scheduler name, our own as queues.OURS; unreadable records are
    left out.

    A scheduler with several names writes under the first name and reads from the first name with a
    record: further records would count the same pods twice.
    """
    by_queue: dict[str, Usage] = {}
    for scheduler, text in _texts(annotations).items():
        try:
            by_queue[scheduler] = parse(text)
        except ValueError:
            continue
    ours = [by_queue.pop(name) for name in scheduler_names if name in by_queue]
    return by_queue | {OURS: ours[0]} if ours else by_queue


def problem(annotations: Mapping[str, str]) -> FieldError | None:
    """Return an error for the first unreadable record, or None."""
    for scheduler, text in sorted(_texts(annotations).items()):
        try:
            parse(text)
        except ValueError as error:
            place = f"metadata.annotations[{annotation(scheduler)}]"
            return FieldError(place, f"counts as nothing: {error}")
    return None


def _texts(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotation texts by scheduler name."""
    return {
        key.removesuffix(SUFFIX): text
        for key, text in annotations.items()
        if key.endswith(SUFFIX) and key != SUFFIX
    }


def parse(text: str) -> Usage:
    """Parse a record; raises ValueError for any other text."""
    try:
        version = _decode_version(text).version
        if version != VERSION:
            raise ValueError(f"version {version} isn't known, only {VERSION}")
        record = _decode_record(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    return Usage(
        time=fields.seconds(record.time),
        queue=Account(used=record.usage, rate=record.rate),
        namespaces={
            name: Account(used=account.usage, rate=account.rate)
            for name, account in sorted(record.namespaces.items())
        },
    )


def text(usage: Usage) -> str:
    """Return a record as annotation text."""
    instant = dt.datetime.fromtimestamp(usage.time, dt.UTC)
    record = {
        "version": VERSION,
        "time": instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        **_written(usage.queue),
        "namespaces": {name: _written(each) for name, each in usage.namespaces.items()},
    }
    return msgspec.json.encode(record).decode()


def _written(account: Account) -> dict[str, float]:
    return {"usage": float(f"{account.used:.{DIGITS}g}"), "rate": account.rate}
