"""The annotation by which a queue is limited in groups of nodes: text → amounts.

`volcano.sh/nodegroup-resource-limits: {"group1": {"cpu": "3", "memory": "8Gi"}}`.
"""

from collections.abc import Mapping

from vscheduler.core.model import queues, resources
from vscheduler.mirror.decode import fields

ANNOTATION = "volcano.sh/nodegroup-resource-limits"


def read(annotations: Mapping[str, str]) -> queues.GroupLimits | None:
    """The limits of a queue, if it has any.

    A text that can't be read doesn't reject the queue: only plugin nodegroup looks at it, and it
    lets the queue use no node at all (Volcano: parseNodeGroupResourceLimits).
    """
    text = annotations.get(ANNOTATION)
    if not text:
        return None
    try:
        return queues.GroupLimits(by_group=_parse(text))
    except fields.FieldError as error:
        where = f"{error.field}: " if error.field else ""
        return queues.GroupLimits(problem=f"{where}{error.message}")


def _parse(text: str) -> dict[str, resources.Amounts]:
    groups = fields.json_object(text, "amounts by group of nodes")
    limits: dict[str, resources.Amounts] = {}
    for group, amounts in groups.items():
        if not isinstance(amounts, dict):
            raise fields.FieldError(group, "must be an object: amounts by resource")
        for name, amount in amounts.items():
            fields.check_quantity(f"{group}.{name}", amount)
        limits[group] = fields.totals(amounts, group)
    return limits
