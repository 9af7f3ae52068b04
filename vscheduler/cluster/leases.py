"""Client for Leases (coordination.k8s.io/v1), used by leader election.

The client has its own connection in the event loop of its caller. Work in the daemon's main loop
therefore cannot delay a renewal. Requests use the Kubernetes client library as transport only:
bodies are encoded and decoded here, without the library's models.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import aiohttp
from kubernetes.aio import client
from kubernetes.aio.config import ConfigException

from vscheduler.cluster import lease_records
from vscheduler.cluster.http import connection, responses
from vscheduler.cluster.http.connection import Access, Connection, NotFound, Unavailable
from vscheduler.cluster.lease_records import (
    Configuration,
    Object,
    Record,
    Stored,
    no_configuration,
)


class Leases:
    """Reads and writes the Leases of one namespace."""

    def __init__(
        self,
        api: client.CoordinationV1Api,
        namespace: str,
        *,
        call_seconds: float,
        configuration: Configuration = no_configuration,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._call_seconds = call_seconds
        self._configuration = configuration

    async def get(self, name: str) -> Stored | None:
        """Return the Lease of this name, or None when there is none. Raises connection.ApiError."""
        try:
            return await self._call(
                self._api.read_namespaced_lease_without_preload_content(
                    name, self._namespace, _request_timeout=self._call_seconds
                )
            )
        except NotFound:
            return None

    async def create(self, name: str, record: Record) -> Stored:
        """Create a Lease and return the stored object. Raises connection.ApiError.

        Conflict: the Lease already exists. NotFound: the namespace does not exist. Unavailable: no
        usable answer came, and the Lease may have been created or not.
        """
        body = lease_records.made(self._namespace, name, record, self._configuration(name))
        return await self._call(
            self._api.create_namespaced_lease_without_preload_content(
                self._namespace, _Body.of(body), _request_timeout=self._call_seconds
            )
        )

    async def replace(self, over: Stored, record: Record) -> Stored:
        """Replace the record of a Lease if nobody changed the Lease since `over` was read.

        Raises connection.ApiError. Conflict: the Lease was changed since. NotFound: the Lease was
        deleted. Unavailable: no usable answer came, and the record may have been written or not.
        """
        body = lease_records.changed(over, record, self._configuration(over.name))
        return await self._call(
            self._api.replace_namespaced_lease_without_preload_content(
                over.name, self._namespace, _Body.of(body), _request_timeout=self._call_seconds
            )
        )

    async def _call(self, sending: Awaitable[aiohttp.ClientResponse]) -> Stored:
        """Wait for the response and return the Lease in the body. Raises connection.ApiError."""
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
            raise Unavailable("the answer is no Lease", status=response.status)
        return stored


class _Body(client.V1Lease):
    """A request body for the client library.

    The library's own model would drop fields unknown to the library.
    """

    _whole: Object

    @classmethod
    def of(cls, whole: Object) -> "_Body":
        body = cls.model_construct()
        body._whole = whole  # noqa: SLF001 - a private attribute of this class
        return body

    def to_dict(self, serialize: bool = False) -> Object:
        """Return the object as sent to the API server."""
        del serialize  # the object is already in its serialized form
        return self._whole


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
    link = await Connection.open(access, _send_writes_once)
    refreshing = asyncio.create_task(link.refresh_credentials(), name="refresh credentials")
    try:
        yield Leases(
            link.coordination(), namespace, call_seconds=call_seconds, configuration=configuration
        )
    finally:
        refreshing.cancel()
        # Errors of the refresh are ignored: the daemon's own connection logs the same problem.
        await asyncio.gather(refreshing, return_exceptions=True)
        await link.close()


async def _send_writes_once(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating a write when a keep-alive connection breaks.

    The first request may already have been executed. A repeated request would then get a Conflict,
    as if another candidate had written the Lease. aiohttp repeats a request after
    ServerDisconnectedError and ClientOSError, so both errors are raised as connection.Unavailable
    instead.
    """
    try:
        return await send(request)
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
        if request.method == "GET":
            raise
        raise connection.unavailable(error) from error
