"""Runtime: the long-lived objects passed to everything created for a leader session."""

from collections.abc import Callable

import msgspec

from vscheduler.cluster.http.connection import Connection
from vscheduler.cluster.writes.event_recorder import EventRecorder
from vscheduler.cluster.writes.write_queue import WriteQueue
from vscheduler.containment import Failures
from vscheduler.daemon.informers import Informers
from vscheduler.daemon.leader_election.api import Permit, Token
from vscheduler.daemon.liveness.watchdog import Signs
from vscheduler.daemon.observability.metrics import Metrics
from vscheduler.daemon.settings import Settings
from vscheduler.mirror.state import Mirror
from vscheduler.web.history import Observer


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's long-lived objects and permits."""

    settings: Settings
    connection: Connection
    write_queue: WriteQueue
    mirror: Mirror
    informers: Informers
    recorder: EventRecorder
    metrics: Metrics
    stopping: Callable[[], bool]
    """Whether the shutdown has begun, so that nothing new may start."""
    withholding: Callable[[], bool]
    """Whether even work in progress may send nothing more."""
    observer: Observer = msgspec.field(default_factory=Observer)
    """Is told what the scheduling loop decides."""
    signs: Signs = msgspec.field(default_factory=Signs)
    """Signs of life, given by all parts of the daemon."""

    @property
    def failures(self) -> Failures:
        """Receives unexpected exceptions."""
        return self.write_queue.failures

    def permit(self, token: Token) -> Permit:
        """Return a permit valid while the token is valid and the daemon is not shutting down."""
        return lambda: not (self.stopping() or self.withholding()) and token.may_act()

    def permit_to_finish(self, token: Token) -> Permit:
        """Return a permit that also covers decisions made before the shutdown.

        Among them may be the last binds of a gang.
        """
        return lambda: not self.withholding() and token.may_act()

    def permit_for_events(self, token: Token) -> Permit:
        """Return a permit for events about finished work, valid until the Leases are released."""
        return token.may_act
