"""What outlives tenures: made once, handed to everything that is made anew for each."""

from collections.abc import Callable
from dataclasses import dataclass, field

from vscheduler import containment
from vscheduler.cluster.http import connection
from vscheduler.cluster.writes import event_recorder, write_queue
from vscheduler.daemon import informers, settings
from vscheduler.daemon.leader_election import api
from vscheduler.daemon.liveness import watchdog
from vscheduler.daemon.observability import metrics
from vscheduler.mirror import state


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The daemon around a tenure."""

    given: settings.Settings
    link: connection.Connection
    calls: write_queue.WriteQueue
    mirror: state.Mirror
    followed: informers.Informers
    herald: event_recorder.EventRecorder
    observed: metrics.Metrics
    stopping: Callable[[], bool]
    """Whether nothing new may begin."""
    withholding: Callable[[], bool]
    """Whether what has begun isn't finished any more, either."""
    signs: watchdog.Signs = field(default_factory=watchdog.Signs)
    """Whoever works gives these."""

    @property
    def failures(self) -> containment.Failures:
        """Who is told of work that fails unexpectedly."""
        return self.calls.failures

    def permit(self, token: api.Token) -> api.Permit:
        """Good for as long as this is, and the daemon goes on."""
        return lambda: not (self.stopping() or self.withholding()) and token.may_act()

    def permit_to_finish(self, token: api.Token) -> api.Permit:
        """Good for what was decided before the daemon was stopped, too: a gang's last binds."""
        return lambda: not self.withholding() and token.may_act()

    def permit_to_tell(self, token: api.Token) -> api.Permit:
        """Good for events of what was done, until the Leases are given back."""
        return token.may_act
