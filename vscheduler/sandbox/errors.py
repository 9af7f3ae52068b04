"""What can go wrong in the sandbox; every message says what to do about it."""

# ruff: noqa: N818  # the names say what happened, as `Conflict` and `Gone` do elsewhere

from __future__ import annotations


class SandboxError(Exception):
    """The sandbox could not do what was asked."""


class BinariesMissing(SandboxError):
    """A program is neither on this machine nor can it be built here."""


class BuildFailed(SandboxError):
    """The Go toolchain refused to build a program."""


class StartFailed(SandboxError):
    """A process ended, or did not become ready in time."""


class TimedOut(SandboxError):
    """Something that was waited for did not come about."""


class ApiError(SandboxError):
    """The API server answered with an error status."""

    def __init__(self, *, status: int, method: str, path: str, message: str) -> None:
        super().__init__(f"{method} {path}: {status}: {message}")
        self.status = status
        self.message = message
