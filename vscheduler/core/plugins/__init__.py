"""Policy, one plugin a file; the configuration says which, and in which tiers."""

from vscheduler.core.framework import contracts
from vscheduler.core.plugins.binpack import Binpack
from vscheduler.core.plugins.drf import Drf
from vscheduler.core.plugins.gang import Gang
from vscheduler.core.plugins.nodeorder import NodeOrder
from vscheduler.core.plugins.predicates import Predicates
from vscheduler.core.plugins.priority import Priority
from vscheduler.core.plugins.proportion import Proportion

PLUGINS: tuple[type[contracts.Plugin], ...] = (
    Priority,
    Gang,
    Drf,
    Predicates,
    Proportion,
    NodeOrder,
    Binpack,
)
"""Every plugin that a configuration may name."""
