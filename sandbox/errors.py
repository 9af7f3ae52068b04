"""Errors of the sandbox. Every message says how to fix the problem."""

# ruff: noqa: N818  # names describe the event, as `Conflict` and `Gone` do elsewhere

from __future__ import annotations


class SandboxError(Exception):
    """The sandbox could not do the requested work."""


class BinariesMissing(SandboxError):
    """A program is missing on this machine and can't be built here."""


class BuildFailed(SandboxError):
    """The Go toolchain failed to build a program."""


class StartFailed(SandboxError):
    """A process ended, or was not ready in time."""


class TimedOut(SandboxError):
    """An expected state was not reached in time."""


class ApiError(SandboxError):
    """The API server responded with an error status."""

    def __init__(self, *, status: int, method: str, path: str, message: str) -> None:
        super().__init__(f"{method} {path}: {status}: {message}")
        self.status = status
        self.message = message
