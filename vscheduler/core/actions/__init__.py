"""What a cycle can do, one file each; the configuration says which, and in which order."""

from vscheduler.core.actions.allocate import Allocate
from vscheduler.core.actions.preempt import Preempt
from vscheduler.core.actions.reclaim import Reclaim
from vscheduler.core.framework import contracts

ACTIONS: tuple[type[contracts.Action], ...] = (Allocate, Preempt, Reclaim)
"""Every action that a configuration may name."""
