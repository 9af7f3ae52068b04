"""Entry point of the daemon: runs the scheduler's process, or that of the controllers."""

import gc
import sys
from collections.abc import Awaitable
from functools import partial

import structlog

from vscheduler.daemon import startup
from vscheduler.daemon.configuration import Loaded
from vscheduler.daemon.liveness import signals
from vscheduler.daemon.liveness.watchdog import KillTimer
from vscheduler.daemon.observability import logs
from vscheduler.daemon.observability.logs import LineWriter
from vscheduler.daemon.process import Process
from vscheduler.daemon.settings import Settings
from vscheduler.daemon.startup import Opened

log = structlog.get_logger(__name__)

YOUNG_OBJECTS_MAX = 5_000
"""Number of new objects that trigger a garbage collection. After Python's default of 700, nearly
all are still in use; after many more, pods wait for the collection."""


def kind_of_process(settings: Settings) -> type[Process]:
    """Import the modules of the process that these flags want."""
    if settings.controls:
        from vscheduler.daemon.controllers_process import ControllersProcess  # noqa: PLC0415 - Kopf takes long

        return ControllersProcess
    from vscheduler.daemon.scheduler_process import SchedulerProcess  # noqa: PLC0415 - so do cycles

    return SchedulerProcess


async def run(
    settings: Settings,
    loaded: Loaded,
    lines: LineWriter,
    opening: Awaitable[Opened] | None = None,
) -> None:
    """Run the daemon until SIGTERM, SIGINT or SIGHUP; log lines go to `lines`.

    The connection is closed at the end. Raises connection.CredentialsError and health.ListenError
    if the daemon cannot start, and KopfEndedError.
    """
    sys.setswitchinterval(startup.SWITCH_INTERVAL_SECONDS)
    gc.set_threshold(YOUNG_OBJECTS_MAX)
    opened = await (opening or startup.open_connection(settings))
    kill_timer = KillTimer(settings.cycle_deadline_seconds)
    try:
        process = kind_of_process(settings)(settings, loaded, opened, lines, kill_timer.hold)
        listen = partial(
            signals.listen, process.stop, flush=lambda: lines.flush(logs.FLUSH_SECONDS)
        )
        listen()
        log.info("started", schedulers=settings.scheduler_names, server=opened.link.host)
        await process.main(listen)
        log.info("stopped")
        signals.ignore()
    finally:
        kill_timer.let_go()
        await opened.close()
