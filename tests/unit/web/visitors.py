"""A visitor of the page who speaks HTTP, and the page in the test's own event loop."""

import contextlib
import functools
import time
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import test_utils, web

from tests.web import clusters, stage
from vscheduler import containment
from vscheduler.web import access, cluster_view, endpoints, refresher

Client = test_utils.TestClient[web.Request, web.Application]


@contextlib.asynccontextmanager
async def visited(
    made: stage.Stage, *, secure: bool = False
) -> AsyncIterator[tuple[Client, endpoints.Endpoints]]:
    """A client without cookies, and the endpoints that answer it."""
    sources = made.sources()
    failures = containment.Failures()
    views = refresher.Refresher(sources.look, cluster_view.ViewMaker(sources.places), failures)

    async def namespaces() -> frozenset[str]:
        return (await views.view()).namespaces

    table = access.AccessTable(made.reviewer, namespaces)
    page = endpoints.Endpoints(views, table, failures, made.finder, secure=secure)
    server = test_utils.TestServer(page.application())
    async with test_utils.TestClient(server, cookie_jar=aiohttp.DummyCookieJar()) as client:
        yield client, page


def bearer(token: str) -> dict[str, str]:
    """The header with a token."""
    return {"Authorization": f"Bearer {token}"}


@functools.cache
def three_queues() -> stage.Stage:
    """A cluster that tests only look at."""
    return stage.Stage(clusters.three_queues(time.time()))
