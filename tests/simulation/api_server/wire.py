"""The values that go in and out of the API server, and the Status bodies of refusals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import msgspec

Object: TypeAlias = dict[str, Any]

GARBAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode

JSON_HEADERS: Mapping[str, str] = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, as it is after the transport."""

    method: str
    path: str
    """Decoded, without the query."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete answer."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Clock(Protocol):
    """Virtual time."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def after(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Call later; the answer cancels that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A request that writes, served or refused. Objects are shared and never mutated."""

    at: float
    user: str
    verb: str
    """create, update, patch, apply, delete, bind or evict."""
    resource: str
    """The plural."""
    subresource: str
    namespace: str
    name: str
    uid: str
    code: int
    before: Object | None
    after: Object | None
    """None where the object is deleted, or the request refused."""
    revision: int
    origin: str = ""
    """The process at the other end of the connection; empty for an actor."""


class RefusedError(Exception):
    """The request is answered with a Status of this code."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Object | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details
        self.headers = headers or {}

    def status(self) -> Object:
        """The Status."""
        made: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
        }
        if self.reason:
            made["reason"] = self.reason
        if self.details is not None:
            made["details"] = self.details
        return {**made, "code": self.code}

    def answer(self) -> Answer:
        """The answer to the request."""
        return Answer(
            status=self.code, body=encode(self.status()), headers={**JSON_HEADERS, **self.headers}
        )


@dataclass(frozen=True, slots=True)
class Cause:
    """A field that is wrong, and how."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


def success(code: int, details: Object | None = None) -> Object:
    """The Status of a request that was served and has no object to show."""
    made: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        made["details"] = details
    return {**made, "code": code} if code != 200 else made


def bad_request(message: str) -> RefusedError:
    """400."""
    return RefusedError(400, "BadRequest", message)


def not_found(resource: str, name: str) -> RefusedError:
    """404 for an object."""
    details = {"name": name, "kind": resource}
    return RefusedError(404, "NotFound", f'{resource} "{name}" not found', details=details)


def unknown_path() -> RefusedError:
    """404 for a resource that isn't served."""
    message = "the server could not find the requested resource"
    return RefusedError(404, "NotFound", message, details={})


def conflict(resource: str, name: str, why: str) -> RefusedError:
    """409 for a precondition that doesn't hold."""
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return RefusedError(409, "Conflict", message, details={"name": name, "kind": resource})


def already_exists(resource: str, name: str) -> RefusedError:
    """409 for a name that is taken."""
    details = {"name": name, "kind": resource}
    message = f'{resource} "{name}" already exists'
    return RefusedError(409, "AlreadyExists", message, details=details)


def forbidden(resource: str, name: str, why: str) -> RefusedError:
    """403 by admission."""
    details = {"name": name, "kind": resource}
    return RefusedError(
        403, "Forbidden", f'{resource} "{name}" is forbidden: {why}', details=details
    )


def invalid(kind: str, name: str, causes: Sequence[Cause]) -> RefusedError:
    """422 with what is wrong."""
    texts = [f"{each.field}: {each.message}" for each in causes]
    whole = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details: Object = {
        "name": name,
        "kind": kind,
        "causes": [
            {"reason": each.reason, "message": each.message, "field": each.field} for each in causes
        ],
    }
    return RefusedError(422, "Invalid", f'{kind} "{name}" is invalid: {whole}', details=details)


def expired(message: str) -> RefusedError:
    """410 for a version or a continue token that is too old."""
    return RefusedError(410, "Expired", message)
