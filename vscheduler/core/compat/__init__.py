"""Volcano's behaviour where the defaults differ: everything that `compatibility: volcano` restores.

Actions, plugins and rules of this package replace the defaults when a configuration is read.
"""

from vscheduler.core.compat.actions import (
    VolcanoAllocate,
    VolcanoBackfill,
    VolcanoEnqueue,
    VolcanoPreempt,
    VolcanoReclaim,
    VolcanoShuffle,
)
from vscheduler.core.compat.capacity import VolcanoCapacity
from vscheduler.core.compat.cycle_rules import VolcanoCycleRules
from vscheduler.core.compat.network_topology_aware import VolcanoNetworkTopologyAware
from vscheduler.core.compat.plugins import (
    VolcanoDrf,
    VolcanoGang,
    VolcanoNodegroup,
    VolcanoNodeOrder,
    VolcanoOvercommit,
    VolcanoPdb,
    VolcanoPredicates,
    VolcanoPriority,
    VolcanoProportion,
    VolcanoResourceQuota,
    VolcanoResourceStrategyFit,
    VolcanoSla,
    VolcanoTdm,
)
from vscheduler.core.config.policy import Compatibility

VOLCANO = Compatibility(
    plugins=(
        VolcanoPriority,
        VolcanoGang,
        VolcanoDrf,
        VolcanoPredicates,
        VolcanoProportion,
        VolcanoCapacity,
        VolcanoNodegroup,
        VolcanoNodeOrder,
        VolcanoOvercommit,
        VolcanoSla,
        VolcanoResourceQuota,
        VolcanoPdb,
        VolcanoResourceStrategyFit,
        VolcanoTdm,
        VolcanoNetworkTopologyAware,
    ),
    actions=(
        VolcanoAllocate,
        VolcanoBackfill,
        VolcanoEnqueue,
        VolcanoPreempt,
        VolcanoReclaim,
        VolcanoShuffle,
    ),
    rules=VolcanoCycleRules(),
)
"""What `compatibility: volcano` puts in place of the default plugins, actions and rules."""
