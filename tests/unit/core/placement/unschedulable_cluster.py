"""A cluster where jobs wait, whose cycles are compared with cycles that go through all jobs."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tests import running
from tests.running import Document
from vscheduler.core import cycle
from vscheduler.core.session.session import Session
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Remove
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import JobId
from vscheduler.model.snapshot import FRESH
from vscheduler.testing import pictures

TREE: Mapping[str, Any] = {
    "actions": "enqueue, allocate, backfill",
    "tiers": running.tiers(
        "priority gang | overcommit drf predicates proportion nodeorder binpack"
    ),
}

PICTURE = """
    node n1 cpu=8   node n2 cpu=8   node n3 cpu=8
    queue q   queue r
    job r/there min=1 cpu=2 phase=Running n1*2 n2*2 n3*2
    job q/a1 min=1 cpu=6 phase=Inqueue -   job q/a2 min=1 cpu=6 phase=Inqueue -
    job q/b1 min=2 cpu=5 phase=Inqueue - -
"""
WAITING = {"default/a1", "default/a2", "default/b1"}


class Around:
    """A Mirror, and what its cycles carry."""

    def __init__(self, picture: str = PICTURE, tree: Mapping[str, Any] = TREE) -> None:
        self.mirror = Mirror(Options(scheduler_names=(pictures.SCHEDULER,)))
        self.policy = running.policy_of(dict(tree))
        self.documents = {
            (document["kind"], document["metadata"]["name"]): document
            for document in pictures.documents(picture)
        }
        for document in self.documents.values():
            self.show(document)
        self.now = pictures.NOW.timestamp()
        self.carried = FRESH

    def show(self, document: Document) -> None:
        """Show an object as it is now."""
        kind = events.kind_of(document)
        assert kind is not None
        self.mirror.apply(events.convert(kind, document))

    def change(self, kind: str, name: str, **parts: Any) -> None:
        """Replace parts of an object."""
        self.documents[kind, name] |= parts
        self.show(self.documents[kind, name])

    def remove(self, kind: str, name: str) -> None:
        """Delete an object."""
        uid = self.documents[kind, name]["metadata"]["uid"]
        found = events.kind_of(self.documents[kind, name])
        assert found is not None
        self.mirror.apply(Remove(kind=found, namespace="", name=name, uid=uid))

    def end(self, *pods: str) -> None:
        """Let pods end."""
        for pod in pods:
            self.change("Pod", pod, status={"phase": "Succeeded"})

    def cycle(self, budget: int | None = None) -> CycleResult:
        """Run a cycle, whose result is the one of all jobs if it has no budget."""
        taken = self.mirror.snapshot(self.now, self.carried)
        result = cycle.run_cycle(taken, self.policy, budget)
        if budget is None:
            anew = running.forgetful(taken.carried)
            every = cycle.run_cycle(msgspec.structs.replace(taken, carried=anew), self.policy)
            assert running.digest(free(result)) == running.digest(free(every))
        self.carried = result.carried
        return result

    @property
    def unschedulable(self) -> set[JobId]:
        """The jobs that the next cycle would leave out, as things stand."""
        return set(self.opened().unschedulable.found.jobs)

    def opened(self) -> Session:
        """The session of the next cycle."""
        return cycle.open_session(self.mirror.snapshot(self.now, self.carried), self.policy)


def free(result: CycleResult) -> CycleResult:
    """A result, whatever it cost."""
    return msgspec.structs.replace(result, work={}, costs={}, spent=0)


def waiting(picture: str = PICTURE, tree: Mapping[str, Any] = TREE) -> Around:
    """A cluster after its first cycle."""
    around = Around(picture, tree)
    around.cycle()
    return around
