"""Volcano's behaviour where ours differs: all that `compatibility: volcano` brings back.

Actions, plugins and rules here take the place of the default ones when the configuration is read.
"""

from vscheduler.core.compat import actions, cycle_rules, plugins
from vscheduler.core.config import policy

VOLCANO = policy.Compatibility(
    plugins=(plugins.VolcanoGang,),
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
