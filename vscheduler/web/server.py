"""The page's thread: serves the page on an event loop of its own, so that no visitor delays the
daemon's loop.
"""

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast

import msgspec
import structlog
from aiohttp import web

from vscheduler.containment import Failures
from vscheduler.web import access
from vscheduler.web.access import AccessTable, Populated, Reviewer
from vscheduler.web.cluster_view import Domains, Look, NodeDomains, Places, ViewMaker
from vscheduler.web.connections import Guard, Limits
from vscheduler.web.endpoints import Endpoints
from vscheduler.web.job_history import JobHistory
from vscheduler.web.refresher import Refresher
from vscheduler.web.remedies import Finder

log = structlog.get_logger(__name__)

QUIET = logging.getLogger("vscheduler.web.http")
"""For aiohttp, which would log headers that it can't read, and these may hold a token."""

BACKLOG = 64
KEEP_ALIVE_SECONDS = 15.0
HANDSHAKE_SECONDS = 10.0
CERTIFICATE_SECONDS = 10.0
"""How often the files of the certificate are looked at."""

CLOSE_SECONDS = 0.5
"""How long the end waits for answers that are being sent."""

JOIN_SECONDS = 3.0


class TlsError(Exception):
    """The files of the certificate can't be used: a sentence."""


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """Files with a certificate and its private key, in PEM."""

    certificate: str
    private_key: str

    def context(self) -> ssl.SSLContext:
        """Return a TLS context with these files. Raises TlsError."""
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        self.read_into(made)
        return made

    def read_into(self, context: ssl.SSLContext) -> None:
        """Use what the files contain now, for new connections. Raises TlsError."""
        try:
            context.load_cert_chain(self.certificate, self.private_key, password=_no_password)
        except (OSError, ValueError) as error:  # SSLError is an OSError
            files = f"{self.certificate} and {self.private_key}"
            raise TlsError(f"{files} can't be used as certificate and key: {error}") from error

    def stamp(self) -> tuple[int, ...]:
        """Return what changes with the files."""
        with suppress(OSError):
            found = [Path(each).stat() for each in (self.certificate, self.private_key)]
            parts = ((each.st_mtime_ns, each.st_ino, each.st_size) for each in found)
            return tuple(part for each in parts for part in each)
        return ()


def _no_password() -> str:
    raise ValueError("the key has a password")


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Where the page has everything from. The functions are called in the page's thread."""

    look: Callable[[], Awaitable[Look]]
    version: Callable[[], object]
    """Another one after each cycle and decision."""
    places: Places
    domains: Domains
    node_domains: NodeDomains
    reviewer: Reviewer
    failures: Failures
    finder: Finder
    history: Path | None = None
    """The file of the history of jobs; None: none is kept."""


class Server:
    """Serves the page from `start` to `stop`."""

    def __init__(
        self, sources: Sources, host: str, port: int, certificate: Certificate | None
    ) -> None:
        """Listen at once, so that what is wrong with the address or the files is known at once.

        Raises OSError and TlsError.
        """
        self._sources = sources
        self._certificate = certificate
        self._context = None if certificate is None else certificate.context()
        self._socket = _listening(host, port)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._live, name="page", daemon=True)

    @property
    def port(self) -> int:
        """The port that visitors connect to."""
        return int(self._socket.getsockname()[1])

    def start(self) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._thread.start()

    async def stop(self) -> None:
        """End all connections and the thread; returns soon, whatever visitors do."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the thread has ended
                self._loop.call_soon_threadsafe(self._stop.set)
            await asyncio.to_thread(self._thread.join, JOIN_SECONDS)
        self._socket.close()

    def _live(self) -> None:
        loop = cast("asyncio.AbstractEventLoop", self._loop)
        serve = partial(self._sources.failures.keep_on, "web", self._serve)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    async def _serve(self) -> None:
        """Serve until told to stop."""
        sources = self._sources
        maker = ViewMaker(sources.places, sources.domains, sources.node_domains)
        views = Refresher(sources.look, maker, sources.failures, sources.version)

        past = JobHistory(sources.history)

        async def namespaces() -> Populated:
            return await past.populated(await views.view())

        page = Endpoints(
            views,
            AccessTable(sources.reviewer, namespaces),
            sources.failures,
            sources.finder,
            secure=self._context is not None,
        )
        runner = web.AppRunner(
            page.application(past),
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            lingering_time=1.0,
            logger=QUIET,
            max_field_size=access.TOKEN_MAX + 64,
            shutdown_timeout=CLOSE_SECONDS,
        )
        QUIET.disabled = True
        await runner.setup()
        assert runner.server is not None
        loop, limits = asyncio.get_running_loop(), Limits()
        serve = cast("Callable[[], asyncio.Protocol]", runner.server)
        listener = await loop.create_server(
            lambda: Guard(serve, limits),
            sock=self._socket.dup(),
            ssl=self._context,
            ssl_handshake_timeout=None if self._context is None else HANDSHAKE_SECONDS,
        )
        renewing = asyncio.create_task(self._renew_certificate(), name="renew the certificate")
        try:
            await self._stop.wait()
        finally:
            renewing.cancel()
            page.close()
            listener.close()
            await runner.cleanup()
            await limits.abort()

    async def _renew_certificate(self) -> None:
        """Read the files of the certificate again when they change; keep the last good ones."""
        given, context = self._certificate, self._context
        if given is None or context is None:
            return
        known = given.stamp()
        while True:
            await asyncio.sleep(CERTIFICATE_SECONDS)
            stamp = given.stamp()
            if stamp == known or not stamp:
                continue
            try:
                given.context()  # tried first: a failure in the middle would leave half of each
                given.read_into(context)
            except TlsError as error:
                log.warning("web.certificate_kept", message=str(error))
            else:
                log.info("web.certificate_renewed")
            known = stamp


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
