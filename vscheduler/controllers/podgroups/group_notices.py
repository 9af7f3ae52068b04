"""Pods that can't have their PodGroup are told so, for those who own them see no log of ours."""

from collections.abc import Callable, Iterable

from vscheduler.controllers import ports
from vscheduler.controllers.podgroups import auto_groups
from vscheduler.mirror import statuses

LASTING = (ports.Trouble.FORBIDDEN, ports.Trouble.INVALID)
"""A quota, a policy or a webhook has refused it, and will again."""

ENDING = "is being terminated"
"""What the API server says of a namespace in which nothing new is taken, events included."""

TOLD_MAX = 10_000
"""Pods whose refusals are remembered; past them all are told once more."""


def subject_of(member: auto_groups.Member) -> statuses.Subject:
    """The pod, as what an event is about."""
    return statuses.Subject(
        kind="Pod", namespace=member.namespace, name=member.name, uid=member.uid
    )


class Notices:
    """Tells pods of a refusal once, and again when it is another."""

    def __init__(self, notify: Callable[[statuses.Notice], None]) -> None:
        self._notify = notify
        self._told: dict[str, str] = {}

    def refused(self, members: Iterable[auto_groups.Member], error: ports.RefusedError) -> None:
        """Their PodGroup, or their place in it, was refused."""
        message = str(error)
        if error.trouble not in LASTING or ENDING in message:
            return
        if len(self._told) > TOLD_MAX:
            self._told.clear()
        for member in members:
            if self._told.get(member.uid) != message:
                self._told[member.uid] = message
                self._notify(statuses.refused_notice(subject_of(member), message))

    def settled(self, member: auto_groups.Member) -> None:
        """It is in its PodGroup, or gone."""
        self._told.pop(member.uid, None)
