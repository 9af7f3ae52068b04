"""The words of Volcano's scheduler configuration: its flags, and the names it knows.

Volcano: pkg/scheduler/conf, plugins/factory.go, actions/factory.go.
"""

from collections.abc import Mapping
from types import MappingProxyType

FLAGS: Mapping[str, bool] = MappingProxyType(
    {
        "enableJobOrder": True,
        "enableHierarchy": False,
        "enableJobReady": True,
        "enableJobPipelined": True,
        "enableTaskOrder": True,
        "enablePreemptable": True,
        "enableReclaimable": True,
        "enablePreemptive": True,
        "enableQueueOrder": True,
        "enabledClusterOrder": False,
        "enablePredicate": True,
        "enableBestNode": True,
        "enableNodeOrder": True,
        "enableTargetJob": True,
        "enableReservedNodes": True,
        "enableJobEnqueued": True,
        "enabledVictim": True,
        "enableJobStarving": True,
        "enabledOverused": True,
        "enabledAllocatable": True,
        "enabledHyperNodeOrder": True,
        "enabledHyperNodeGradient": True,
        "enabledSubJobReady": True,
        "enabledSubJobPipelined": True,
        "enabledSubJobOrder": True,
    }
)
"""Each flag of a plugin, in Volcano's spelling, and whether it is on where it isn't given."""

PLUGINS = frozenset(
    {
        *("binpack", "capacity", "cdp", "conformance", "deviceshare", "drf", "extender", "gang"),
        *("network-topology-aware", "nodegroup", "nodeorder", "numa-aware", "overcommit", "pdb"),
        *("predicates", "priority", "proportion", "rescheduling", "resource-strategy-fit"),
        *("resourcequota", "sla", "task-topology", "tdm", "usage"),
    }
)
"""Volcano's plugins: those that don't exist here are left out of a configuration, not refused."""

QUOTAS = frozenset({"capacity", "proportion"})
"""Each of them says what queues may have: they aren't for use together."""

ACTIONS = frozenset({"enqueue", "allocate", "backfill", "preempt", "reclaim", "shuffle"})
"""Volcano's actions, the same way."""

SUCCESSORS: Mapping[str, str] = MappingProxyType(
    {"gangpreempt": "preempt", "gangreclaim": "reclaim"}
)
"""Actions that take another's place in Volcano; here the other one does their work."""

SUCCESSOR_ARGUMENTS = frozenset({"allowWholeBundle", "maxDomains"})
"""What only they take in Volcano."""
