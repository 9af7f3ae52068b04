"""Outlets: everything that a scheduling loop writes to."""

import msgspec

from vscheduler.cluster.writes.binder import Binder
from vscheduler.cluster.writes.claim_writer import ClaimWriter
from vscheduler.cluster.writes.evictor import Evictor
from vscheduler.cluster.writes.queue_status_writer import QueueStatusWriter, UsageWriter
from vscheduler.cluster.writes.status_writer import StatusWriter
from vscheduler.containment import Failures
from vscheduler.daemon.liveness.progress import Cycles
from vscheduler.web.history import Observer


class Outlets(msgspec.Struct, frozen=True, kw_only=True):
    """The writers for a cycle's decisions and findings."""

    committer: Binder
    claim_writer: ClaimWriter
    evictor: Evictor
    reporter: StatusWriter
    queue_reporter: QueueStatusWriter
    usage_writer: UsageWriter
    cycles: Cycles = msgspec.field(default_factory=Cycles)
    """Records running cycles for the watchdog."""
    observer: Observer = msgspec.field(default_factory=Observer)
    """Is told what was decided, and what became of it."""
    failures: Failures = msgspec.field(default_factory=Failures)
    """Receives unexpected exceptions."""
