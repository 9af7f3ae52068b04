"""Reads and writes Leases: the way of an election to the API server.

It has a connection of its own, in the event loop of whoever opens it, so that nothing that keeps
the daemon's loop busy holds up a renewal. The client library's own functions are its transport;
bodies go in and out as they are.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import aiohttp
from kubernetes.aio import client
from kubernetes.aio.config import ConfigException

from vscheduler.cluster import lease_records
from vscheduler.cluster.http import connection, responses


class Leases:
    """The Leases of one namespace."""

    def __init__(
        self, api: client.CoordinationV1Api, namespace: str, *, call_seconds: float
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._call_seconds = call_seconds

    async def get(self, name: str) -> lease_records.Stored | None:
        """The Lease of this name; None where there is none. Raises connection.ApiError."""
        try:
            return await self._call(
                self._api.read_namespaced_lease_without_preload_content(
                    name, self._namespace, _request_timeout=self._call_seconds
                )
            )
        except connection.NotFound:
            return None

    async def create(self, name: str, record: lease_records.Record) -> lease_records.Stored:
        """Make this Lease. Raises connection.ApiError.

        Conflict is that there is one, NotFound that there is no such namespace, and Unavailable
        that it may be made or not.
        """
        body = lease_records.made(self._namespace, name, record)
        return await self._call(
            self._api.create_namespaced_lease_without_preload_content(
                self._namespace, _Body.of(body), _request_timeout=self._call_seconds
            )
        )

    async def replace(
        self, over: lease_records.Stored, record: lease_records.Record
    ) -> lease_records.Stored:
        """Put a record into this Lease, if it is still as it was read. Raises connection.ApiError.

        Conflict is that it isn't, NotFound that it is gone, and Unavailable that it may be written
        or not.
        """
        body = lease_records.changed(over, record)
        return await self._call(
            self._api.replace_namespaced_lease_without_preload_content(
                over.name, self._namespace, _Body.of(body), _request_timeout=self._call_seconds
            )
        )

    async def _call(self, sending: Awaitable[aiohttp.ClientResponse]) -> lease_records.Stored:
        """The Lease that a request is answered with."""
        try:
            async with await sending as response:
                answer = await responses.body(response, responses.WRITTEN_MAX_BYTES)
        except (aiohttp.ClientError, TimeoutError, OSError, ConfigException) as error:
            raise connection.unavailable(error) from error
        if response.status >= 300:
            retry_after = response.headers.get("Retry-After")
            raise connection.error_of(response.status, answer, retry_after)
        stored = lease_records.read(answer)
        if stored is None:
            raise connection.Unavailable("the answer is no Lease", status=response.status)
        return stored


class _Body(client.V1Lease):
    """What a write sends: the library's own model would drop the fields that it doesn't know."""

    _whole: lease_records.Object

    @classmethod
    def of(cls, whole: lease_records.Object) -> "_Body":
        body = cls.model_construct()
        body._whole = whole  # noqa: SLF001 - ours
        return body

    def to_dict(self, serialize: bool = False) -> lease_records.Object:
        """As it is sent."""
        del serialize  # it is the same both ways
        return self._whole


@asynccontextmanager
async def opened(
    access: connection.Access, namespace: str, *, call_seconds: float
) -> AsyncIterator[Leases]:
    """The Leases of a namespace over a connection of their own, whose credentials stay fresh.

    Raises connection.CredentialsError.
    """
    link = await connection.Connection.open(access, _send_writes_once)
    refreshing = asyncio.create_task(link.refresh_credentials(), name="refresh credentials")
    try:
        yield Leases(link.coordination(), namespace, call_seconds=call_seconds)
    finally:
        refreshing.cancel()
        # What it may have died of, the daemon's own connection tells.
        await asyncio.gather(refreshing, return_exceptions=True)
        await link.close()


async def _send_writes_once(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep aiohttp from sending a PUT again by itself when a keep-alive connection breaks.

    The first one may have been done: the second would then be answered with a conflict, and look
    as if another had written. It repeats after two of its own errors, which this makes another.
    """
    try:
        return await send(request)
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
        if request.method == "GET":
            raise
        raise connection.unavailable(error) from error
