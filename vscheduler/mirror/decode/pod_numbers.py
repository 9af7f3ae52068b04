"""Numbers that pods carry in annotations, labels and names, where anybody may write anything."""

from vscheduler.core.model import durations
from vscheduler.mirror.decode import fields, wire

PRIORITY = "volcano.sh/task-priority"
COOLDOWN = "volcano.sh/cooldown-time"
"""Label, else annotation: for how long a pod is protected once it runs (Volcano: cdp)."""

WEIGHTS = "volcano.sh/resource-strategy-weight"
"""Annotation: weights of resources as JSON (Volcano: resource-strategy-fit)."""

INDEX_DIGITS_MAX = 18


def check(metadata: wire.Metadata) -> None:
    """FieldError for a number of an annotation that is out of range. What is no number at all is
    passed over by those who read it, as in Volcano.
    """
    for kind, texts in (("labels", metadata.labels), ("annotations", metadata.annotations)):
        if COOLDOWN in texts:
            try:
                durations.seconds(texts[COOLDOWN])
            except durations.RangeError as error:
                raise fields.FieldError(f"metadata.{kind}[{COOLDOWN}]", str(error)) from error
            except ValueError:
                pass
    written = metadata.annotations.get(WEIGHTS)
    if written:
        place = f"metadata.annotations[{WEIGHTS}]"
        try:
            weights = fields.json_object(written, "weights by resource")
        except fields.FieldError:
            return
        for name, weight in weights.items():
            if type(weight) is int:
                fields.check_int32(weight, f"{place}.{name}")


def priority(pod: wire.Pod) -> int:
    """The annotation, else spec.priority, else 1; FieldError for what is no number of 32 bits.

    Volcano ignores such an annotation; so does this for pods that have a node, and one that waits
    is refused.
    """
    text = pod.metadata.annotations.get(PRIORITY)
    if text is not None:
        try:
            return fields.int32(text, f"metadata.annotations[{PRIORITY}]")
        except fields.FieldError:
            if not pod.spec.node_name:
                raise
    if pod.spec.priority is None:
        return 1
    fields.check_int32(pod.spec.priority, "spec.priority")
    return pod.spec.priority


def index(name: str) -> int:
    """The trailing number of a name with at least two dashes, else -1; one that is larger than any
    controller counts is none.
    """
    before, _, last = name.rpartition("-")
    numbered = "-" in before and last.isascii() and last.isdigit()
    return int(last) if numbered and len(last) <= INDEX_DIGITS_MAX else -1
