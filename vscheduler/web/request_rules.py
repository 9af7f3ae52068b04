"""What is refused before anything is looked up: foreign hosts and origins, and bad parameters."""

import ipaddress
from http import HTTPStatus

from aiohttp import web

from vscheduler.web import documents


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


def window(request: web.Request, usual: int) -> tuple[int, int]:
    """Return the offset and the limit of a list. Raises Problem."""
    found = []
    for name, default in (("offset", 0), ("limit", usual)):
        text = request.query.get(name, str(default))
        if not (text.isascii() and text.isdecimal() and len(text) <= 9):
            raise Problem(HTTPStatus.BAD_REQUEST, f"{name} is no number")
        found.append(int(text))
    return found[0], max(1, min(found[1], documents.PAGE_MAX))


def is_loopback(host: str) -> bool:
    """Whether a Host header names this machine, so that no page of another name gets an answer."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False
