"""Outlets: everything that a scheduling loop writes to."""

import msgspec

from vscheduler import containment
from vscheduler.cluster.writes import (
    binder,
    claim_allocator,
    claim_binder,
    evictor,
    queue_status_writer,
    status_writer,
)
from vscheduler.daemon.liveness import progress
from vscheduler.web import history


class Outlets(msgspec.Struct, frozen=True, kw_only=True):
    """The writers for a cycle's decisions and findings."""

    committer: binder.Binder
    claim_binder: claim_binder.ClaimBinder
    claim_allocator: claim_allocator.ClaimAllocator
    evictor: evictor.Evictor
    reporter: status_writer.StatusWriter
    queue_reporter: queue_status_writer.QueueStatusWriter
    usage_writer: queue_status_writer.UsageWriter
    cycles: progress.Cycles = msgspec.field(default_factory=progress.Cycles)
    """Records running cycles for the watchdog."""
    observer: history.Observer = msgspec.field(default_factory=history.Observer)
    """Is told what was decided, and what became of it."""
    failures: containment.Failures = msgspec.field(default_factory=containment.Failures)
    """Receives unexpected exceptions."""
