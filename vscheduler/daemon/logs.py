"""Where logs go and how they look: one event per fact, for people or for machines."""

import logging
import sys

import structlog
from structlog.typing import Processor

LIBRARIES = ("aiohttp", "asyncio", "kopf", "kubernetes")


def configure(level: str, style: str) -> None:
    """Send this program's events, and the libraries' messages, to stderr in one shape.

    level is one of settings.LOG_LEVELS; style is `json` (one object per line) or `console`.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: Processor = structlog.processors.JSONRenderer()
    if style == "console":
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            # The default one takes half a second for a traceback, in the event loop.
            exception_formatter=structlog.dev.plain_traceback,
        )
        shared.pop()  # it renders exceptions itself
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for library in LIBRARIES:
        # What they say below a warning is for whoever debugs them.
        logging.getLogger(library).setLevel("DEBUG" if level == "debug" else "WARNING")
    # It warns that it isn't in the main thread, which it is kept out of on purpose.
    logging.getLogger("kopf._core.reactor.running").setLevel("ERROR")
    # It tells of each change in a folder: a log that is kept there would feed on itself.
    logging.getLogger("watchfiles").setLevel("WARNING")
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
