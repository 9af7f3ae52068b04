"""The values that go in and out of the API server, and the Status bodies of refusals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import msgspec

from tests.simulation.api_server.kinds import Kind

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
    manager: str = ""
    """The field manager that the request names."""


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


def _details(kind: Kind, name: str, shown: str) -> Object:
    group = {"group": kind.group} if kind.group else {}
    return {**({"name": name} if name else {}), **group, "kind": shown}


def not_found(kind: Kind, name: str) -> RefusedError:
    """404 for an object."""
    message = f'{kind.resource} "{name}" not found'
    return RefusedError(404, "NotFound", message, details=_details(kind, name, kind.plural))


def unknown_path() -> RefusedError:
    """404 for a resource that isn't served."""
    message = "the server could not find the requested resource"
    return RefusedError(404, "NotFound", message, details={})


def conflict(kind: Kind, name: str, why: str, *, part: str = "") -> RefusedError:
    """409 for an object, or a part of it, that isn't as the request needs it."""
    message = f'Operation cannot be fulfilled on {kind.resource}{part} "{name}": {why}'
    details = _details(kind, name, f"{kind.plural}{part}")
    return RefusedError(409, "Conflict", message, details=details)


def unlike(kind: Kind, name: str, why: str) -> RefusedError:
    """409 for a precondition of a deletion, which names the kind instead of the resource."""
    message = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}'
    details = _details(kind, name, kind.kind)
    return RefusedError(409, "Conflict", message, details=details)


def apply_conflict(causes: Sequence[Cause]) -> RefusedError:
    """409 for fields that belong to other managers."""
    texts = [f"{cause.message}: {cause.field}" for cause in causes]
    count = f"{len(causes)} conflict{'s' * (len(causes) > 1)}"
    message = f"Apply failed with {count}: {', '.join(texts)}"
    return RefusedError(409, "Conflict", message, details={"causes": _listed(causes)})


def already_exists(kind: Kind, name: str) -> RefusedError:
    """409 for a name that is taken."""
    message = f'{kind.resource} "{name}" already exists'
    details = _details(kind, name, kind.plural)
    return RefusedError(409, "AlreadyExists", message, details=details)


def forbidden(kind: Kind, name: str, why: str) -> RefusedError:
    """403 by admission or for want of a right."""
    message = f'{kind.resource} "{name}" is forbidden: {why}'
    return RefusedError(403, "Forbidden", message, details=_details(kind, name, kind.plural))


def invalid(kind: Kind, name: str, causes: Sequence[Cause]) -> RefusedError:
    """422 with what is wrong."""
    details = {**_details(kind, name, kind.kind), "causes": _listed(causes)}
    message = f'{kind.qualified} "{name}" is invalid: {_joined(causes)}'
    return RefusedError(422, "Invalid", message, details=details)


def invalid_update(kind: Kind, name: str, cause: Cause) -> RefusedError:
    """422 for an update that lacks a version; here the message names the resource."""
    details = {**_details(kind, name, kind.plural), "causes": _listed([cause])}
    message = f'{kind.resource} "{name}" is invalid: {_joined([cause])}'
    return RefusedError(422, "Invalid", message, details=details)


def precondition(what: str, given: str, stored: str) -> str:
    """Why an object isn't the one that is meant."""
    return (
        "StorageError: invalid object, Code: 4, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: {what} in precondition: {given}, {what} in object meta: {stored}"
    )


def invalid_options(causes: Sequence[Cause]) -> RefusedError:
    """422 for the query of a patch."""
    details = {"group": "meta.k8s.io", "kind": "PatchOptions", "causes": _listed(causes)}
    message = f'PatchOptions.meta.k8s.io "" is invalid: {_joined(causes)}'
    return RefusedError(422, "Invalid", message, details=details)


def _joined(causes: Sequence[Cause]) -> str:
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _listed(causes: Sequence[Cause]) -> list[Object]:
    return [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]


def expired(message: str) -> RefusedError:
    """410 for a version or a continue token that is too old."""
    return RefusedError(410, "Expired", message)
