"""Actions: the steps of a cycle, one file each, as selected and ordered by the configuration."""

from vscheduler.core.actions.allocate import Allocate
from vscheduler.core.actions.backfill import Backfill
from vscheduler.core.actions.enqueue import Enqueue
from vscheduler.core.actions.preempt import Preempt
from vscheduler.core.actions.reclaim import Reclaim
from vscheduler.core.actions.shuffle import Shuffle
from vscheduler.core.api.contracts import Action
from vscheduler.core.session.session import Session

ACTIONS: tuple[type[Action[Session]], ...] = (
    Allocate,
    Backfill,
    Enqueue,
    Preempt,
    Reclaim,
    Shuffle,
)
"""All actions that a configuration may name."""
