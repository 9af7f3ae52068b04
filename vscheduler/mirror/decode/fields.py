"""Checked fields of objects: amounts, numbers, times, with the path of a bad field.

Numbers in annotations, labels and names of pods are checked here, too: users may write anything
there.
"""

import datetime as dt
import json
import re
from collections.abc import Mapping
from typing import Any

from vscheduler.mirror.decode import quantities
from vscheduler.mirror.decode.quantities import Quantity, QuantityError
from vscheduler.mirror.decode.wire import Metadata, Pod
from vscheduler.model import durations, resources
from vscheduler.model.durations import RangeError

INT32_MAX = 2**31 - 1
DIGITS_MAX = 1000
"""Longer numbers are refused, even with leading zeros."""

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)

QUOTA_PREFIX = "count/"
"""Prefix of object counts in a quota, not resources of pods or nodes (Volcano: NewResource)."""

PRIORITY = "volcano.sh/task-priority"
COOLDOWN = "volcano.sh/cooldown-time"
"""Label, else annotation: how long a running pod is protected from eviction (Volcano: cdp)."""

WEIGHTS = "volcano.sh/resource-strategy-weight"
"""Annotation: weights of resources as JSON (Volcano: resource-strategy-fit)."""

INDEX_DIGITS_MAX = 18


class FieldError(ValueError):
    """A field of an object is unusable: the path of the field, and the defect."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)
        self.field = field
        self.message = message


def check_named(name: str) -> None:
    """Raise FieldError for an object without a name."""
    if not name:
        raise FieldError("metadata.name", "is missing")


def amounts(quantities_by_name: Mapping[str, Quantity], field: str, limit: int) -> dict[str, int]:
    """Return amounts by resource in the units of resources.ResourceMap, capped at `limit`; zeros
    stay.

    The path of a FieldError is the resource below `field`.
    """
    parsed = {}
    for name, quantity in quantities_by_name.items():
        if name.startswith(QUOTA_PREFIX):
            continue
        try:
            amount = quantities.parse(name, quantity)
        except QuantityError as error:
            raise FieldError(f"{field}.{name}", str(error)) from error
        if amount < 0:
            raise FieldError(f"{field}.{name}", f"{quantity} must not be negative")
        parsed[name] = min(amount, limit)
    return parsed


def check_int32(number: int, field: str) -> None:
    """Raise FieldError for a number beyond the 32 bits that API servers store."""
    if not -INT32_MAX - 1 <= number <= INT32_MAX:
        shown_number = str(number) if abs(number) < 2**64 else "a number of more than 64 bits"
        raise FieldError(field, f"{shown_number} is out of range: 32 bits, at most {INT32_MAX}")


def int32(text: str, field: str) -> int:
    """Return the integer in an annotation, parsed as in Go; raises FieldError for any other
    text.
    """
    if not _INTEGER.fullmatch(text):
        raise FieldError(field, f"{durations.shown(text)} is not an integer")
    number = 2 * INT32_MAX if len(text) > DIGITS_MAX else int(text)
    if abs(number) > INT32_MAX:
        message = f"{durations.shown(text)} is out of range: 32 bits, at most {INT32_MAX}"
        raise FieldError(field, message)
    return number


def allocatable(quantities_by_name: Mapping[str, Quantity], field: str) -> dict[str, int]:
    """Return the amounts of a node."""
    return amounts(quantities_by_name, field, resources.ALLOCATABLE_MAX)


def totals(quantities_by_name: Mapping[str, Quantity], field: str) -> dict[str, int]:
    """Return the limits of a queue or namespace, or the amounts that a whole group needs."""
    return amounts(quantities_by_name, field, resources.TOTAL_MAX)


def json_object(text: str, what: str) -> dict[str, Any]:
    """Return the JSON object in an annotation.

    Raises FieldError for any other text; `what` says in the message how the object should look.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FieldError("", f"is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise FieldError("", f"must be an object: {what}")
    return value


def check_quantity(field: str, quantity: object) -> None:
    """Raise FieldError for a JSON value that can't be a quantity."""
    if not isinstance(quantity, str | int | float):
        raise FieldError(field, "must be a quantity: 500m, 4 or 16Gi")


def seconds(instant: dt.datetime | None) -> float:
    """Return seconds since the epoch; 0.0 without a time. A time without a zone is UTC."""
    if instant is None:
        return 0.0
    return (instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC)).timestamp()


def check_pod_numbers(metadata: Metadata) -> None:
    """Raise FieldError for a number in the pod's annotations that is out of range.

    Text without any number is left to its readers, which ignore the text as Volcano does.
    """
    for kind, texts in (("labels", metadata.labels), ("annotations", metadata.annotations)):
        if COOLDOWN in texts:
            try:
                durations.seconds(texts[COOLDOWN])
            except RangeError as error:
                raise FieldError(f"metadata.{kind}[{COOLDOWN}]", str(error)) from error
            except ValueError:
                pass
    written = metadata.annotations.get(WEIGHTS)
    if written:
        place = f"metadata.annotations[{WEIGHTS}]"
        try:
            weights = json_object(written, "weights by resource")
        except FieldError:
            return
        for name, weight in weights.items():
            if type(weight) is int:
                check_int32(weight, f"{place}.{name}")


def pod_priority(pod: Pod) -> int:
    """Return the priority of a pod in its job: the annotation, else spec.priority, else 1.

    Volcano ignores an annotation without a 32-bit number. Here the annotation is ignored only for
    pods with a node; a pod without a node is refused with a FieldError.
    """
    text = pod.metadata.annotations.get(PRIORITY)
    if text is not None:
        try:
            return int32(text, f"metadata.annotations[{PRIORITY}]")
        except FieldError:
            if not pod.spec.node_name:
                raise
    if pod.spec.priority is None:
        return 1
    check_int32(pod.spec.priority, "spec.priority")
    return pod.spec.priority


def pod_index(name: str) -> int:
    """Return the trailing number of a pod name with at least two dashes, else -1.

    Numbers longer than any controller's index don't count.
    """
    before, _, last = name.rpartition("-")
    numbered = "-" in before and last.isascii() and last.isdigit()
    return int(last) if numbered and len(last) <= INDEX_DIGITS_MAX else -1
