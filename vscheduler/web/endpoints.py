"""Endpoints of the page: files, sign-in, and JSON of what a visitor may see.

Foreign hosts and origins are refused before anything is looked up. Files are a fixed list, read
once, so that no request leads to any other file.
"""

import asyncio
import hashlib
import ipaddress
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from importlib import resources
from typing import Any

import msgspec
import structlog
from aiohttp import web

from vscheduler.containment import Failures
from vscheduler.history.answers import BadQueryError, Parameters
from vscheduler.mirror import paths
from vscheduler.mirror.wording import phrases, plain_text
from vscheduler.model.decisions import ReasonCode
from vscheduler.web import access, documents, sessions
from vscheduler.web.access import AccessTable, ReviewError, TooOftenError, UnknownTokenError
from vscheduler.web.allowances import Attempts, TooManyError
from vscheduler.web.cluster_view import View
from vscheduler.web.connections import Guard
from vscheduler.web.documents import Access, Query
from vscheduler.web.job_history import (
    JobHistory,
    NoHistoryError,
    OftenError,
    UnreadableError,
)
from vscheduler.web.refresher import Refresher
from vscheduler.web.remedies import BusyError, Finder, FinderError, Found, RemedyDesk
from vscheduler.web.sessions import Sessions
from vscheduler.web.streams import Streams, VisitorVersions

log = structlog.get_logger(__name__)

ROOT = paths.PAGE
BODY_MAX = access.TOKEN_MAX + 4096
BODY_SECONDS = 10.0
COMPRESS_BYTES = 2048
SEARCH_MAX = 100
NAMESPACES_MAX = 20
"""How many namespaces a visitor may name when signing in."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "Server": "vscheduler",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

SIGN_IN = "Sign in with a Kubernetes token."
UNKNOWN = "The API server doesn't know this token."
NOT_THERE = "There is no such job, or you may not see it."
NO_QUEUE = "There is no such queue, or you may not list queues."
NOT_ALL = "This is for those who may list queues, and PodGroups in all namespaces."
TOO_MANY = "Too many pages are open, or browsers signed in, by you or from your namespace."
NOT_WAITING = "There is no such job, or it doesn't wait, or you may not see it."

REFUSALS: Mapping[type[Exception], tuple[HTTPStatus, str]] = {
    UnknownTokenError: (HTTPStatus.UNAUTHORIZED, UNKNOWN),
    TooOftenError: (HTTPStatus.TOO_MANY_REQUESTS, ""),
    ReviewError: (HTTPStatus.SERVICE_UNAVAILABLE, ""),
    TooManyError: (HTTPStatus.TOO_MANY_REQUESTS, TOO_MANY),
    NoHistoryError: (HTTPStatus.NOT_FOUND, ""),
    BadQueryError: (HTTPStatus.BAD_REQUEST, ""),
    UnreadableError: (HTTPStatus.SERVICE_UNAVAILABLE, ""),
    OftenError: (HTTPStatus.TOO_MANY_REQUESTS, ""),
}
"""Status and sentence for errors; without a sentence, the error's own."""

REMEDY_SECONDS = 150.0
"""How long a visitor may be in line to be told what would start a job."""

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class SignIn(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a sign-in: a token or a code."""

    token: str = ""
    code: str = ""
    namespaces: list[str] = []


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """The token of a request, and where it comes from."""

    token: str
    identifier: str = ""
    """The session's identifier; empty without a session."""
    hints: tuple[str, ...] = ()
    """Namespaces to ask about first."""


class Endpoints:
    """The page's HTTP application. Belongs to one event loop."""

    def __init__(
        self,
        views: Refresher,
        table: AccessTable,
        failures: Failures,
        finder: Finder,
        *,
        secure: bool,
    ) -> None:
        """`secure` means TLS; without it only loopback addresses are answered."""
        self._views = views
        self._table = table
        self._failures = failures
        self._secure = secure
        self._cookie = "__Host-vscheduler" if secure else "vscheduler"
        self._sessions = Sessions()
        self._guesses = Attempts()
        self._versions = VisitorVersions()
        self._assets = load_assets()
        self.streams = Streams()
        self._desk = RemedyDesk(finder)
        self._held: tuple[tuple[int, int], documents.Holdings] | None = None
        """What jobs hold on each node, and the versions of jobs and nodes that this is of."""

    def application(self, past: JobHistory) -> web.Application:
        """Return the application; `past` answers about the history."""
        made = web.Application(middlewares=[self._contain], client_max_size=BODY_MAX)
        made.on_response_prepare.append(_add_headers)
        router = made.router
        router.add_get("/", self._file)
        router.add_get("/{name}", self._file)
        router.add_post(f"{ROOT}/session", self._sign_in)
        router.add_delete(f"{ROOT}/session", self._sign_out)
        router.add_post(f"{ROOT}/sign-in-codes", self._code)
        router.add_get(f"{ROOT}/summary", self._summary)
        router.add_get(f"{ROOT}/queues", self._queues)
        router.add_get(f"{ROOT}/queues/{{name}}", self._queue)
        router.add_get(f"{ROOT}/queues/{{name}}/what-if", self._what_if)
        router.add_get(f"{ROOT}/nodes", self._nodes)
        router.add_get(f"{ROOT}/jobs", self._jobs)
        router.add_get(f"{ROOT}/jobs/{{namespace}}/{{name}}", self._job)
        router.add_get(f"{ROOT}/jobs/{{namespace}}/{{name}}/remedies", self._remedies)
        router.add_get(f"{ROOT}/decisions", self._decisions)
        router.add_get(f"{ROOT}/fairness", self._fairness)
        router.add_get(f"{ROOT}/stream", self._stream)
        for name, ask in (("jobs", past.jobs), ("report", past.report), ("usage", past.usage)):
            router.add_get(f"{ROOT}/history/{name}", partial(self._past, ask))
        return made

    def close(self) -> None:
        """End everything that is under way."""
        self.streams.close()
        self._desk.close()

    @web.middleware
    async def _contain(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Bound the time of a request, refuse foreign hosts, and turn errors into sentences."""
        guard = _guard(request)
        if guard is not None:
            guard.begin()
        try:
            self._refuse_foreign_host(request)
            return await handler(request)
        except Problem as problem:
            return _problem(problem.status, str(problem))
        except tuple(REFUSALS) as error:
            status, message = REFUSALS[type(error)]
            return _problem(status, message or str(error))
        except web.HTTPException as error:
            return _problem(HTTPStatus(error.status), HTTPStatus(error.status).phrase)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - one request must not end the page
            route = request.match_info.route.resource
            self._failures.failed("web", route.canonical if route else "", error)
            return _problem(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "The page has failed on this request; the scheduler's log has the details.",
            )

    def _refuse_foreign_host(self, request: web.Request) -> None:
        """Refuse names that an attacker's DNS may lead to this machine. Raises Problem."""
        if not (self._secure or is_loopback(request.host)):
            raise Problem(
                HTTPStatus.MISDIRECTED_REQUEST,
                "Without TLS this page answers on loopback addresses only.",
            )

    async def _file(self, request: web.Request) -> web.StreamResponse:
        asset = self._assets.get(request.match_info.get("name", "index.html"))
        if asset is None:
            raise Problem(HTTPStatus.NOT_FOUND, "There is no such page.")
        headers = {"ETag": asset.etag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == asset.etag:
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        headers["Content-Type"] = asset.content_type
        return web.Response(body=asset.body, headers=headers)

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        """Check the token, and give the browser a cookie in its place."""
        given = await _body(request)
        token = self._sessions.redeem(given.code) or "" if given.code else given.token.strip()
        if given.code and not token:
            raise Problem(HTTPStatus.UNAUTHORIZED, "This link was used, or is too old.")
        named = tuple(given.namespaces[:NAMESPACES_MAX])
        found = await self._access(request, Visit(token=token, hints=named))
        response = _json({"apiVersion": documents.VERSION, "name": plain_text.shown(found.name)})
        response.set_cookie(
            self._cookie,
            self._sessions.open(token, found.name, named),
            path="/",
            secure=self._secure,
            httponly=True,
            samesite="Strict",
        )
        log.info("web.signed_in", user=plain_text.shown(found.name), address=_address(request))
        return response

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        refuse_foreign(request)
        self._sessions.close(request.cookies.get(self._cookie, ""))
        response = web.Response(status=HTTPStatus.NO_CONTENT)
        response.del_cookie(self._cookie, path="/", secure=self._secure, httponly=True)
        return response

    async def _code(self, request: web.Request) -> web.StreamResponse:
        """Return a code that stands for the visitor's own token, once."""
        refuse_foreign(request)
        visit = self._visit(request)
        found = await self._access(request, visit)
        code = self._sessions.code(visit.token, found.name)
        return _json(
            {
                "apiVersion": documents.VERSION,
                "code": code,
                "seconds": round(sessions.CODE_SECONDS),
            },
            HTTPStatus.CREATED,
        )

    async def _summary(self, request: web.Request) -> web.StreamResponse:
        found = await self._access(request, self._visit(request))
        return _json(documents.summary(await self._view(found), found))

    async def _queues(self, request: web.Request) -> web.StreamResponse:
        found = await self._access(request, self._visit(request))
        offset, limit = window_of(request, documents.PAGE_MAX)
        view = await self._view(found)
        if request.query.get("order") == "amount":
            return _json(documents.holders(view, found, offset, limit))
        search = request.query.get("search", "")[:SEARCH_MAX]
        return _json(documents.queues(view, found, offset, limit, search))

    async def _queue(self, request: web.Request) -> web.StreamResponse:
        found = await self._access(request, self._visit(request))
        made = documents.queue(await self._view(found), found, request.match_info["name"])
        if made is None:
            raise Problem(HTTPStatus.NOT_FOUND, NO_QUEUE)
        return _json(made)

    async def _what_if(self, request: web.Request) -> web.StreamResponse:
        """Return what other settings of a queue would do, to those who may see all jobs."""
        found = await self._access(request, self._visit(request))
        view, name = await self._view(found), request.match_info["name"]
        if not found.queues or found.namespaces is not None:
            raise Problem(HTTPStatus.FORBIDDEN, NOT_ALL)
        if documents.queue(view, found, name) is None:
            raise Problem(HTTPStatus.NOT_FOUND, NO_QUEUE)
        flags = flags_of(request.query)
        version = (view.versions["queues"], view.versions["jobs"], view.versions["nodes"])
        return _json(
            documents.what_if(
                await self._asked(
                    request, lambda: self._desk.what_if(name, flags, version, found.name)
                )
            )
        )

    async def _asked(self, request: web.Request, ask: Callable[[], Awaitable[Found]]) -> Found:
        """Return the answer of the desk. Raises Problem."""
        guard = _guard(request)
        if guard is not None:
            guard.begin(REMEDY_SECONDS)
        try:
            return await ask()
        except BusyError as error:
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, str(error)) from None
        except FinderError as error:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None

    async def _nodes(self, request: web.Request) -> web.StreamResponse:
        found = await self._access(request, self._visit(request))
        latest = await self._views.view()
        view = self._versions.of(latest, found)
        stamp = (latest.versions["jobs"], latest.versions["nodes"])
        if self._held is None or self._held[0] != stamp:
            self._held = (stamp, documents.holdings(view))
        return _json(documents.nodes(view, found, self._held[1]))

    async def _jobs(self, request: web.Request) -> web.StreamResponse:
        found = await self._access(request, self._visit(request))
        offset, limit = window_of(request, 50)
        state = request.query.get("state", "waiting")
        if state not in documents.STATES:
            said = f"state is none of {', '.join(documents.STATES)}"
            raise Problem(HTTPStatus.BAD_REQUEST, said)
        query = Query(
            state=state,
            queue=request.query.get("queue", ""),
            namespace=request.query.get("namespace", ""),
            search=request.query.get("search", "")[:SEARCH_MAX],
            reason=request.query.get("reason", ""),
            offset=offset,
            limit=limit,
        )
        return _json(documents.jobs_of(await self._view(found), found, query))

    async def _job(self, request: web.Request) -> web.StreamResponse:
        found = await self._access(request, self._visit(request))
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        made = documents.job(await self._views.view(), found, namespace, name)
        if made is None:
            raise Problem(HTTPStatus.NOT_FOUND, NOT_THERE)
        return _json(made)

    async def _remedies(self, request: web.Request) -> web.StreamResponse:
        """Return what would start a waiting job, by the rights of the visitor."""
        found = await self._access(request, self._visit(request))
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        view = await self._views.view()
        row = documents.waiting(view, found, namespace, name)
        if row is None or (not row.total and row.reason == ReasonCode.TOO_FEW_PODS):
            said = NOT_WAITING if row is None else phrases.without_pods(row.minimum, row.owner)
            raise Problem(HTTPStatus.NOT_FOUND, said)
        version = (view.versions["queues"], view.versions["jobs"])
        tree = await self._asked(
            request, lambda: self._desk.of(namespace, name, version, found.name)
        )
        return _json(documents.remedies(tree, found))

    async def _decisions(self, request: web.Request) -> web.StreamResponse:
        found = await self._access(request, self._visit(request))
        _, limit = window_of(request, 50)
        return _json(documents.decisions(await self._view(found), found, limit))

    async def _fairness(self, request: web.Request) -> web.StreamResponse:
        found = await self._access(request, self._visit(request))
        wanted = request.query.getall("queue", [])[: documents.LINES_MAX]
        return _json(documents.fairness(await self._view(found), found, wanted))

    async def _past(
        self,
        ask: Callable[[Access, Parameters], Awaitable[Mapping[str, Any]]],
        request: web.Request,
    ) -> web.StreamResponse:
        """Return an answer about the history."""
        found = await self._access(request, self._visit(request))
        given = {name: request.query.getall(name) for name in request.query}
        return _json(await ask(found, given))

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        visit = self._visit(request)
        found = await self._access(request, visit)
        response = web.StreamResponse(
            headers={
                "Cache-Control": "no-store",
                "Content-Type": "text/event-stream",
                "X-Accel-Buffering": "no",
            }
        )

        async def authorize() -> Access:
            if visit.identifier and self._sessions.find(visit.identifier) is None:
                raise UnknownTokenError
            return await self._table.of(visit.token, visit.hints)

        try:
            with self.streams.entered(found.name):
                guard = _guard(request)
                if guard is not None:
                    guard.begin(None)
                await response.prepare(request)
                await self.streams.serve(response, self._view, authorize)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _view(self, found: Access) -> View:
        """Return the latest view, with the versions of this visitor."""
        return self._versions.of(await self._views.view(), found)

    def _visit(self, request: web.Request) -> Visit:
        """Return the token of a request. Raises Problem without one."""
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and bearer:
            return Visit(token=bearer.strip())
        identifier = request.cookies.get(self._cookie, "")
        session = self._sessions.find(identifier)
        if session is None:
            raise Problem(HTTPStatus.UNAUTHORIZED, SIGN_IN)
        return Visit(token=session.token, identifier=identifier, hints=session.namespaces)

    async def _access(self, request: web.Request, visit: Visit) -> Access:
        """Return what the visitor may see.

        Raises Problem, UnknownTokenError, TooOftenError and ReviewError. Only unknown tokens count
        as attempts of their address: behind a proxy, all visitors have one.
        """
        if not visit.token or len(visit.token) > access.TOKEN_MAX or not visit.token.isascii():
            raise Problem(HTTPStatus.UNAUTHORIZED, UNKNOWN if visit.token else SIGN_IN)
        fresh = not (visit.identifier or self._table.knows(visit.token))
        address = _address(request)
        if fresh and not self._guesses.allows(address):
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "Too many attempts; try again in a minute.")
        try:
            return await self._table.of(visit.token, visit.hints)
        except UnknownTokenError:
            if fresh:
                self._guesses.spend(address)
            raise


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers[name] = value
    response.headers.setdefault("Cache-Control", "no-store")


async def _body(request: web.Request) -> SignIn:
    """Return the body of a sign-in. Raises Problem."""
    refuse_foreign(request)
    if request.content_type != "application/json":
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "A sign-in is JSON.")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return msgspec.json.decode(await request.read(), type=SignIn)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Problem(HTTPStatus.BAD_REQUEST, "This isn't a sign-in.") from None
    except TimeoutError:
        raise Problem(HTTPStatus.REQUEST_TIMEOUT, "This took too long.") from None


def _guard(request: web.Request) -> Guard | None:
    protocol = None if request.transport is None else request.transport.get_protocol()
    return protocol if isinstance(protocol, Guard) else None


def _address(request: web.Request) -> str:
    return request.remote or ""


def _json(tree: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    body = msgspec.json.encode(tree)
    response = web.Response(body=body, status=status, content_type="application/json")
    if len(body) >= COMPRESS_BYTES:
        response.enable_compression()
    return response


def _problem(status: HTTPStatus, message: str) -> web.Response:
    tree = {
        "apiVersion": documents.VERSION,
        "error": {"reason": status.phrase, "message": message},
    }
    response = _json(tree, status)
    if status is HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = "Bearer"
    if status in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}:
        response.headers["Retry-After"] = "5"
    return response


class Asset(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the page."""

    body: bytes
    content_type: str
    etag: str


def load_assets() -> Mapping[str, Asset]:
    """Return all files by name."""
    found = {}
    for file in (resources.files("vscheduler.web") / "pages").iterdir():
        suffix = file.name[file.name.rindex(".") :]
        body = file.read_bytes()
        digest = hashlib.sha256(body).hexdigest()[:16]
        found[file.name] = Asset(body=body, content_type=TYPES[suffix], etag=f'"{digest}"')
    return found


class Problem(Exception):  # noqa: N818 - what the visitor is told
    """A request that can't be answered: a status and a sentence."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def refuse_foreign(request: web.Request) -> None:
    """Refuse what a page of another origin asks for. Raises Problem.

    Browsers always name the origin of a POST or a DELETE.
    """
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
    own = f"{request.scheme}://{request.host}"
    if (origin is not None and origin != own) or site not in {None, "same-origin", "none"}:
        raise Problem(HTTPStatus.FORBIDDEN, "Only this page itself may ask for that.")


def window_of(request: web.Request, usual: int) -> tuple[int, int]:
    """Return the offset and the limit of a list. Raises Problem."""
    found = []
    for name, default in (("offset", 0), ("limit", usual)):
        text = request.query.get(name, str(default))
        if not (text.isascii() and text.isdecimal() and len(text) <= 9):
            raise Problem(HTTPStatus.BAD_REQUEST, f"{name} is no number")
        found.append(int(text))
    return found[0], max(1, min(found[1], documents.PAGE_MAX))


AMOUNTS = re.compile(r"[a-zA-Z0-9./_-]{1,120}=[0-9a-zA-Z.]{0,30}")
COUNT = re.compile(r"[0-9]{1,9}")


def flags_of(given: Mapping[str, str]) -> list[str]:
    """Return the flags of `vscheduler what-if` for the parameters of a request. Raises Problem."""
    made = []
    for name, text in given.items():
        amounts = name in {"capability", "deserved", "guarantee"} and AMOUNTS.fullmatch(text)
        if amounts or (name in {"weight", "priority"} and COUNT.fullmatch(text)):
            made.append(f"--{name}={text}")
        elif name == "reclaimable" and text in {"true", "false"}:
            made.append("--reclaimable" if text == "true" else "--not-reclaimable")
        else:
            raise Problem(HTTPStatus.BAD_REQUEST, f"{name} has no such value, or isn't known")
    if not made:
        raise Problem(HTTPStatus.BAD_REQUEST, "name a setting, such as weight")
    return sorted(made)


def is_loopback(host: str) -> bool:
    """Whether a Host header names this machine, so that no page of another name gets an answer."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
