"""A cluster whose history is kept: a Mirror, and a writer whose turns the test takes itself."""

import datetime as dt
from pathlib import Path
from typing import Any

from tests.unit.mirror import manifests
from tests.unit.mirror.manifests import Document
from vscheduler.containment import Failures
from vscheduler.history.queries import EVERYTHING, By, Filter, PastJob, Reader, Row
from vscheduler.history.recorder import Listing
from vscheduler.history.store import Limits
from vscheduler.history.writer import Writer

START = 1_700_000_000
QUEUES = ("gold", "lead")


def stamp(seconds: float) -> str:
    """A time after START, as Kubernetes writes it."""
    return dt.datetime.fromtimestamp(START + int(seconds), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def group(name: str, queue: str = "gold", phase: str = "Inqueue", **rest: Any) -> Document:
    """A PodGroup; `rest`: created, uid, labels."""
    made = manifests.group(name, {"queue": queue}, status={"phase": phase}, uid=rest.get("uid", ""))
    made["metadata"] |= {
        "uid": rest.get("uid", f"{name}-uid"),
        "creationTimestamp": stamp(rest.get("created", 0)),
        "labels": rest.get("labels", {}),
    }
    return made


def pod(name: str, job: str, **rest: Any) -> Document:
    """A pod of a job; `rest`: bound, ended, failed, requests, labels, uid."""
    bound, ended = rest.get("bound"), rest.get("ended")
    phase = "Pending" if bound is None else "Running"
    status: Document = {}
    if bound is not None:
        status["conditions"] = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(bound)}
        ]
    if ended is not None:
        phase = "Failed" if rest.get("failed") else "Succeeded"
        done = {"terminated": {"finishedAt": stamp(ended)}}
        status["containerStatuses"] = [{"name": "main", "state": done}]
    return manifests.pod(
        name,
        group=job,
        node="" if bound is None else rest.get("node", "n1"),
        phase=phase,
        requests=rest.get("requests", {"cpu": "1"}),
        status=status,
        uid=rest.get("uid", f"{name}-uid"),
        metadata={"labels": rest["labels"]} if "labels" in rest else {},
    )


class Cluster:
    """A cluster, and whoever keeps its history. Times are seconds after START."""

    def __init__(self, path: Path, limits: Limits | None = None) -> None:
        self.path = path
        self.limits = limits or Limits()
        self.now = 0.0
        self.mirror = manifests.mirror(*(manifests.queue(name) for name in QUEUES))
        self.writer = self._opened()

    def _opened(self) -> Writer:
        made = Writer(self.path, self.limits, Failures(), clock=lambda: START + self.now)
        made._started = True  # so that no thread starts
        return made

    def begin(self) -> None:
        """Let this instance lead."""
        self.mirror.follow(self.writer)
        self.writer.begin([manifests.OURS], self._list)
        self.turn()

    def end(self) -> None:
        """Let it stand by."""
        self.mirror.follow(None)
        self.writer.end()
        self.turn()

    def crash(self) -> None:
        """Let the process end at once, without a last turn, and another one begin."""
        self.mirror.follow(None)
        store = self.writer._work._store
        if store is not None:
            store.close()
        self.writer = self._opened()

    def turn(self) -> None:
        """Let the writer take its turn."""
        self.writer._work.turn(self.writer._changes)

    def show(self, *documents: Document) -> None:
        """Let watches show these objects."""
        for document in documents:
            self.mirror.apply(manifests.event_of(document))

    def remove(self, *documents: Document) -> None:
        """Let watches show that these objects are gone."""
        for document in documents:
            self.mirror.apply(manifests.removal_of(document))

    def jobs(self, **wanted: Any) -> dict[str, PastJob]:
        """What the history says of jobs, by name."""
        now = int(START + self.now)
        found = Reader(self.path).jobs(Filter(**wanted), now, limit=1000)
        return {job.job.partition("/")[2]: job for job in found}

    def report(self, by: By = By.QUEUE, since: int = 0, until: int = 10**9) -> dict[str, Row]:
        """A report, by name."""
        wanted = Filter(since=START + since, until=START + until, visible=EVERYTHING)
        rows = Reader(self.path).report(by, wanted, int(START + self.now))
        return {row.name: row for row in rows}

    def _list(self) -> Listing:
        pods, groups = self.mirror.told_of()
        return Listing(pods=pods, groups=groups)
