"""Whether the kinds Queue and PodGroup are there to stay, or are being taken away.

An API server deletes all objects of a definition before it lets it go, and waits for their
finalizers. It offers no `create` for such a kind any more, which everybody may read who may log in:
no right to the definitions themselves is needed.
"""

from collections.abc import Mapping

from vscheduler.controllers import ports
from vscheduler.controllers.queues import queue_objects
from vscheduler.mirror import paths

KINDS: Mapping[queue_objects.Kind, paths.Collection] = {
    queue_objects.Kind.QUEUE: paths.QUEUES,
    queue_objects.Kind.POD_GROUP: paths.POD_GROUPS,
}

Kinds = frozenset[queue_objects.Kind]


class Served:
    """What the API server offers, as of the last question; at first, all."""

    def __init__(self, api: ports.Api) -> None:
        self._api = api
        self._missed: Kinds = frozenset()
        """Not there when it was last asked: a server that starts doesn't know all at once."""
        self.absent: Kinds = frozenset()
        """Not there, and not there before: there are no objects of it."""
        self.leaving: Kinds = frozenset()
        """On their way out; their objects are being deleted."""

    @property
    def whole(self) -> bool:
        """Whether all is as it should be."""
        return not (self._missed or self.leaving)

    @property
    def goes(self) -> bool:
        """Whether Queues go, all of them."""
        return queue_objects.Kind.QUEUE in self.leaving | self._missed

    async def ask(self) -> None:
        """Ask the API server. Raises ports.RefusedError."""
        try:
            answer = await self._api.get(paths.version(paths.VOLCANO))
        except ports.RefusedError as error:
            if error.trouble is not ports.Trouble.MISSING:
                raise
            answer = {}
        offered = {
            str(each.get("name")): each.get("verbs") or ()
            for each in answer.get("resources") or ()
            if isinstance(each, Mapping)
        }
        missed = frozenset(kind for kind in KINDS if kind not in offered)
        self.absent = missed & self._missed
        self._missed = missed
        self.leaving = frozenset(
            kind for kind in KINDS if kind in offered and "create" not in offered[kind]
        )

    async def list(self, kind: queue_objects.Kind) -> list[ports.Object]:
        """All objects of a kind; none where the kind isn't there. Raises ports.RefusedError."""
        if kind in self.absent:
            return []
        return await self._api.list(KINDS[kind].everywhere)
