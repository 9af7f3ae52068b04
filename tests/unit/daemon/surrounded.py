"""What a daemon's parts share, on an API server that a test serves; nothing is followed."""

from collections.abc import Callable

from vscheduler.cluster import connection, heralding, lanes
from vscheduler.daemon import following, metrics, settings, surroundings
from vscheduler.mirror import state


def by(
    link: connection.Connection,
    given: settings.Settings,
    *,
    stopping: Callable[[], bool] = lambda: False,
    withholding: Callable[[], bool] = lambda: False,
) -> surroundings.Surroundings:
    """With a Mirror that has seen nothing; its calls are sent by whoever runs them."""
    names = given.scheduler_names
    mirror, observed = state.Mirror(state.Options(scheduler_names=names)), metrics.Metrics()
    calls = lanes.Lanes(workers=4, waiting_max=100)
    identity = heralding.Identity(controller=names[0], instance="test")
    return surroundings.Surroundings(
        given=given,
        link=link,
        calls=calls,
        mirror=mirror,
        followed=following.Following(link, (), mirror.read, lambda _: None),
        herald=heralding.Herald(link, calls, identity, observe=observed.observe_write),
        observed=observed,
        stopping=stopping,
        withholding=withholding,
    )
