"""What a daemon's parts share, on an API server that a test serves; nothing is followed."""

from collections.abc import Callable

from vscheduler.cluster.http.connection import Connection
from vscheduler.cluster.writes.event_recorder import EventRecorder, Identity
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.daemon.informers import Informers
from vscheduler.daemon.observability.metrics import Metrics
from vscheduler.daemon.runtime import Runtime
from vscheduler.daemon.settings import Settings
from vscheduler.mirror.state import Mirror, Options


def by(
    link: Connection,
    given: Settings,
    *,
    stopping: Callable[[], bool] = lambda: False,
    withholding: Callable[[], bool] = lambda: False,
) -> Runtime:
    """With a Mirror that has seen nothing; its calls are sent by whoever runs them."""
    names = given.scheduler_names
    options = Options(scheduler_names=names, spares_groups=given.spares_groups())
    mirror, observed = Mirror(options), Metrics()
    calls = WriteQueue(workers=4, waiting_max=100)
    identity = Identity(controller=names[0], instance="test")
    return Runtime(
        settings=given,
        connection=link,
        write_queue=calls,
        mirror=mirror,
        informers=Informers(link, {}, mirror.read, lambda _: None),
        recorder=EventRecorder(link, calls, identity, observe=observed.observe_write),
        metrics=observed,
        stopping=stopping,
        withholding=withholding,
    )
