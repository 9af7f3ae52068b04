"""Leases in memory, as an API server keeps them, for candidates that live in any thread."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from vscheduler.cluster import lease_records
from vscheduler.cluster.http.connection import ApiError, Conflict, NotFound, Unavailable
from vscheduler.cluster.lease_records import Record, Stored

NAMESPACE = "volcano-system"


class Store:
    """A `candidates.Transport`, and what somebody with kubectl may do."""

    def __init__(self) -> None:
        self.leases: dict[str, Stored] = {}
        self.calls: list[str] = []
        """The verb of each call."""
        self.refusal: ApiError | None = None
        """What every call is answered with."""
        self.unanswered = 0
        """How many writes are still to be done and not answered."""
        self.configuration = ""
        """The digest that comes with each write."""
        self._version = 0

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["Store"]:
        """As `leases.opened` does."""
        yield self

    async def get(self, name: str) -> Stored | None:
        """The Lease of this name; None where there is none."""
        self._called("get")
        return self.leases.get(name)

    async def create(self, name: str, record: Record) -> Stored:
        """Make this Lease."""
        self._called("create")
        if name in self.leases:
            raise Conflict("there is one", status=409, reason="AlreadyExists")
        return self._answered(self.put(name, record))

    async def replace(self, over: Stored, record: Record) -> Stored:
        """Put a record into this Lease, if it is still as it was read."""
        self._called("update")
        now = self.leases.get(over.name)
        if now is None:
            raise NotFound("there is none", status=404)
        if (now.uid, now.version) != (over.uid, over.version):
            raise Conflict("it has changed", status=409)
        return self._answered(self.put(over.name, record))

    def put(self, name: str, record: Record) -> Stored:
        """Store a record, whatever is there."""
        self._version += 1
        before = self.leases.get(name)
        body = lease_records.made(NAMESPACE, name, record, self.configuration)
        body["metadata"]["uid"] = before.uid if before else f"uid-{self._version}"
        body["metadata"]["resourceVersion"] = str(self._version)
        stored = lease_records.read(msgspec.json.encode(body))
        assert stored is not None
        self.leases[name] = stored
        return stored

    def holder(self, name: str) -> str:
        """Who has it."""
        stored = self.leases.get(name)
        return "" if stored is None else stored.record.holder

    def _called(self, verb: str) -> None:
        self.calls.append(verb)
        if self.refusal is not None:
            raise self.refusal

    def _answered(self, stored: Stored) -> Stored:
        if self.unanswered:
            self.unanswered -= 1
            raise Unavailable("no answer")
        return stored
