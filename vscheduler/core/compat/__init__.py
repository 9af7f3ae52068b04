"""Volcano's behaviour where the defaults differ: everything that `compatibility: volcano` restores.

Actions, plugins and rules of this package replace the defaults when a configuration is read.
"""

from vscheduler.core.compat import actions, capacity, cycle_rules, plugins
from vscheduler.core.config import policy

VOLCANO = policy.Compatibility(
    plugins=(
        plugins.VolcanoPriority,
        plugins.VolcanoGang,
        plugins.VolcanoDrf,
        plugins.VolcanoPredicates,
        plugins.VolcanoProportion,
        capacity.VolcanoCapacity,
        plugins.VolcanoNodegroup,
        plugins.VolcanoNodeOrder,
        plugins.VolcanoOvercommit,
        plugins.VolcanoSla,
        plugins.VolcanoResourceQuota,
        plugins.VolcanoPdb,
        plugins.VolcanoResourceStrategyFit,
        plugins.VolcanoTdm,
    ),
    actions=(
        actions.VolcanoAllocate,
        actions.VolcanoBackfill,
        actions.VolcanoEnqueue,
        actions.VolcanoPreempt,
        actions.VolcanoReclaim,
        actions.VolcanoShuffle,
    ),
    rules=cycle_rules.VolcanoCycleRules(),
)
"""What `compatibility: volcano` puts in place of the default plugins, actions and rules."""
