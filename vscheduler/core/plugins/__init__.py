"""Policy plugins, each in a file of its own; the configuration chooses plugins and tiers."""

from vscheduler.core.api.contracts import Plugin
from vscheduler.core.plugins.binpack import Binpack
from vscheduler.core.plugins.capacity import Capacity
from vscheduler.core.plugins.cdp import Cdp
from vscheduler.core.plugins.conformance import Conformance
from vscheduler.core.plugins.drf import Drf
from vscheduler.core.plugins.fairshare import FairShare
from vscheduler.core.plugins.gang import Gang
from vscheduler.core.plugins.network_topology_aware import NetworkTopologyAware
from vscheduler.core.plugins.nodegroup import Nodegroup
from vscheduler.core.plugins.nodeorder import NodeOrder
from vscheduler.core.plugins.overcommit import Overcommit
from vscheduler.core.plugins.pdb import Pdb
from vscheduler.core.plugins.predicates import Predicates
from vscheduler.core.plugins.priority import Priority
from vscheduler.core.plugins.proportion import Proportion
from vscheduler.core.plugins.resource_strategy_fit import ResourceStrategyFit
from vscheduler.core.plugins.resourcequota import ResourceQuota
from vscheduler.core.plugins.sla import Sla
from vscheduler.core.plugins.tdm import Tdm

PLUGINS: tuple[type[Plugin], ...] = (
    Priority,
    Gang,
    Drf,
    Predicates,
    Proportion,
    Capacity,
    FairShare,
    NetworkTopologyAware,
    Nodegroup,
    NodeOrder,
    Binpack,
    Overcommit,
    Sla,
    ResourceQuota,
    Conformance,
    Pdb,
    Cdp,
    Tdm,
    ResourceStrategyFit,
)
"""Every plugin that a configuration may name."""
