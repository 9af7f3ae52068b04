"""What becomes of writes that only tell people something, when the API server refuses them."""

from collections.abc import Callable

import structlog

from vscheduler.cluster.http import connection

log = structlog.get_logger(__name__)


class Complaints:
    """Counts writes that failed, and tells of each kind once: scheduling goes on without them."""

    def __init__(self, observe: Callable[[str, str], None]) -> None:
        self._observe = observe
        self._told: set[tuple[str, str]] = set()

    def failed(self, written: str, error: connection.ApiError) -> bool:
        """Count and, the first time of its kind, log a failed write; True if it is worth another.

        An object that is gone, or a namespace that is being deleted, is nobody's mistake.
        """
        kind = type(error).__name__
        self._observe(written, kind.lower())
        again = isinstance(
            error, connection.Conflict | connection.Throttled | connection.Unavailable
        )
        if not again and not isinstance(error, connection.NotFound):
            if (written, kind) not in self._told:
                log.warning("write.failed", object=written, message=str(error))
            self._told.add((written, kind))
        return again
