"""Client for Leases (coordination.k8s.io/v1), used by leader election.

The client has its own connection in the event loop of its caller. Work in the daemon's main loop
therefore cannot delay a renewal.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from vscheduler.cluster import lease_records
from vscheduler.cluster.http import responses
from vscheduler.cluster.http.connection import Access, Connection, NotFound, Unavailable
from vscheduler.cluster.lease_records import (
    Configuration,
    Object,
    Record,
    Stored,
    no_configuration,
)
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path


class Leases:
    """Reads and writes the Leases of one namespace."""

    def __init__(
        self,
        connection: Connection,
        namespace: str,
        *,
        call_seconds: float,
        configuration: Configuration = no_configuration,
    ) -> None:
        self._connection = connection
        self._namespace = namespace
        self._call_seconds = call_seconds
        self._configuration = configuration

    async def get(self, name: str) -> Stored | None:
        """Return the Lease of this name, or None when there is none. Raises connection.ApiError."""
        try:
            return await self._call("GET", paths.LEASES.at(name, self._namespace))
        except NotFound:
            return None

    async def create(self, name: str, record: Record) -> Stored:
        """Create a Lease and return the stored object. Raises connection.ApiError.

        Conflict: the Lease already exists. NotFound: the namespace does not exist. Unavailable: no
        usable answer came, and the Lease may have been created or not.
        """
        body = lease_records.made(self._namespace, name, record, self._configuration(name))
        return await self._call("POST", paths.LEASES.within(self._namespace), body)

    async def replace(self, over: Stored, record: Record) -> Stored:
        """Replace the record of a Lease if nobody changed the Lease since `over` was read.

        Raises connection.ApiError. Conflict: the Lease was changed since. NotFound: the Lease was
        deleted. Unavailable: no usable answer came, and the record may have been written or not.
        """
        body = lease_records.changed(over, record, self._configuration(over.name))
        return await self._call("PUT", paths.LEASES.at(over.name, self._namespace), body)

    async def _call(self, method: str, path: Path, body: Object | None = None) -> Stored:
        """Return the Lease in the answer. Raises connection.ApiError."""
        answer = await self._connection.call(
            method,
            path,
            None if body is None else msgspec.json.encode(body),
            most_bytes=responses.WRITTEN_MAX_BYTES,
            seconds=self._call_seconds,
        )
        stored = lease_records.read(answer)
        if stored is None:
            raise Unavailable("the answer is no Lease")
        return stored


@asynccontextmanager
async def opened(
    access: Access,
    namespace: str,
    *,
    call_seconds: float,
    configuration: Configuration = no_configuration,
) -> AsyncIterator[Leases]:
    """Open the Leases of a namespace over a separate connection with refreshed credentials.

    Raises connection.CredentialsError.
    """
    connection = await Connection.open(access)
    refreshing = asyncio.create_task(connection.refresh_credentials(), name="refresh credentials")
    try:
        yield Leases(connection, namespace, call_seconds=call_seconds, configuration=configuration)
    finally:
        refreshing.cancel()
        # Errors of the refresh are ignored: the daemon's own connection logs the same problem.
        await asyncio.gather(refreshing, return_exceptions=True)
        await connection.close()
