"""A visitor of the page who speaks HTTP, and the page in the test's own event loop."""

import contextlib
import functools
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
from aiohttp import test_utils, web

from tests.web import clusters
from tests.web.stage import Stage
from vscheduler.containment import Failures
from vscheduler.web.access import AccessTable, Populated
from vscheduler.web.cluster_view import ViewMaker
from vscheduler.web.endpoints import Endpoints
from vscheduler.web.job_history import JobHistory
from vscheduler.web.refresher import Refresher

Client = test_utils.TestClient[web.Request, web.Application]


@contextlib.asynccontextmanager
async def visited(
    made: Stage, *, secure: bool = False, history: Path | None = None
) -> AsyncIterator[tuple[Client, Endpoints]]:
    """A client without cookies, and the endpoints that answer it."""
    sources = made.sources()
    failures = Failures()
    maker = ViewMaker(sources.places, sources.domains, sources.node_domains)
    views = Refresher(sources.look, maker, failures, sources.version)

    past = JobHistory(history)

    async def namespaces() -> Populated:
        return await past.populated(await views.view())

    table = AccessTable(made.reviewer, namespaces)
    page = Endpoints(views, table, failures, made.finder, secure=secure)
    server = test_utils.TestServer(page.application(past))
    async with test_utils.TestClient(server, cookie_jar=aiohttp.DummyCookieJar()) as client:
        yield client, page


def bearer(token: str) -> dict[str, str]:
    """The header with a token."""
    return {"Authorization": f"Bearer {token}"}


@functools.cache
def three_queues() -> Stage:
    """A cluster that tests only look at."""
    return Stage(clusters.three_queues(time.time()))
