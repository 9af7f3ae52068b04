"""What a cycle can do, one file each; the configuration says which, and in which order."""

from vscheduler.core.actions.allocate import Allocate
from vscheduler.core.framework import contracts

ACTIONS: tuple[type[contracts.Action], ...] = (Allocate,)
"""Every action that a configuration may name."""
