"""Runtime: the long-lived objects passed to everything created for a leader session."""

from collections.abc import Callable

import msgspec

from vscheduler import containment
from vscheduler.cluster.http import connection
from vscheduler.cluster.writes import event_recorder, write_queue
from vscheduler.daemon import informers, settings
from vscheduler.daemon.leader_election import api
from vscheduler.daemon.liveness import watchdog
from vscheduler.daemon.observability import metrics
from vscheduler.mirror import state
from vscheduler.web import history


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's long-lived objects and permits."""

    given: settings.Settings
    link: connection.Connection
    calls: write_queue.WriteQueue
    mirror: state.Mirror
    watches: informers.Informers
    recorder: event_recorder.EventRecorder
    observed: metrics.Metrics
    stopping: Callable[[], bool]
    """Whether the shutdown has begun, so that nothing new may start."""
    withholding: Callable[[], bool]
    """Whether even work in progress may send nothing more."""
    observer: history.Observer = msgspec.field(default_factory=history.Observer)
    """Is told what the scheduling loop decides."""
    signs: watchdog.Signs = msgspec.field(default_factory=watchdog.Signs)
    """Signs of life, given by all parts of the daemon."""

    @property
    def failures(self) -> containment.Failures:
        """Receives unexpected exceptions."""
        return self.calls.failures

    def permit(self, token: api.Token) -> api.Permit:
        """Return a permit valid while the token is valid and the daemon is not shutting down."""
        return lambda: not (self.stopping() or self.withholding()) and token.may_act()

    def permit_to_finish(self, token: api.Token) -> api.Permit:
        """Return a permit that also covers decisions made before the shutdown.

        Among them may be the last binds of a gang.
        """
        return lambda: not self.withholding() and token.may_act()

    def permit_for_events(self, token: api.Token) -> api.Permit:
        """Return a permit for events about finished work, valid until the Leases are released."""
        return token.may_act
