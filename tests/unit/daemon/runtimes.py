"""What a daemon's parts share, on an API server that a test serves; nothing is followed."""

from collections.abc import Callable

from vscheduler.cluster.http import connection
from vscheduler.cluster.writes import event_recorder, write_queue
from vscheduler.daemon import informers, runtime, settings
from vscheduler.daemon.observability import metrics
from vscheduler.mirror import state


def by(
    link: connection.Connection,
    given: settings.Settings,
    *,
    stopping: Callable[[], bool] = lambda: False,
    withholding: Callable[[], bool] = lambda: False,
) -> runtime.Runtime:
    """With a Mirror that has seen nothing; its calls are sent by whoever runs them."""
    names = given.scheduler_names
    mirror, observed = state.Mirror(state.Options(scheduler_names=names)), metrics.Metrics()
    calls = write_queue.WriteQueue(workers=4, waiting_max=100)
    identity = event_recorder.Identity(controller=names[0], instance="test")
    return runtime.Runtime(
        given=given,
        link=link,
        calls=calls,
        mirror=mirror,
        watches=informers.Informers(link, (), mirror.read, lambda _: None),
        recorder=event_recorder.EventRecorder(
            link, calls, identity, observe=observed.observe_write
        ),
        observed=observed,
        stopping=stopping,
        withholding=withholding,
    )
