"""Why reclaim gives a queue below its share no room, in English."""

from vscheduler.core.model.reclaim_outlooks import Protection, ReclaimOutlook
from vscheduler.mirror import phrases

QUEUES_MAX = 3
"""So many queues are named."""

WORDS = {
    Protection.ANNOTATION: 'forbid evictions (volcano.sh/preemptable: "false")',
    Protection.YOUNG: "are younger than reclaim.minRuntime",
    Protection.PLUGIN: "are protected by a plugin, such as conformance",
    Protection.BUDGET: "are protected by PodDisruptionBudgets",
    Protection.GANG: "belong to gangs that reclaim.wholeGangs protects",
    Protection.SHARE: "hold more than their queues have to give back",
}


def sentence(queue: str, outlook: ReclaimOutlook) -> str:
    """Return `reclaim makes no room, though queue q has 0 of the 16 cpu it deserves: …`.

    Everybody who may see the queue reads it, so it names no job.
    """
    has = phrases.amount(outlook.resource, outlook.allocated)
    deserves = phrases.quantity(outlook.resource, outlook.deserved)
    figures = f"queue {queue} has {has} of the {deserves} it deserves"
    if outlook.configured and outlook.allocated >= outlook.deserved:
        return f"reclaim makes no room, as {figures}, and {_why(outlook)}"
    return f"reclaim makes no room, though {figures}: {_why(outlook)}"


def _why(outlook: ReclaimOutlook) -> str:
    if not outlook.configured:
        return "action reclaim isn't configured"
    if outlook.exceeds_share:
        return f"its job needs {phrases.quantity(outlook.resource, outlook.needed)} more"
    if not outlook.reclaimable:
        return f"{_others(outlook.others)} reclaimable: false"
    if not outlook.above:
        return f"{_none(outlook)} more of it than it deserves"
    named = list(outlook.above[:QUEUES_MAX])
    more = len(outlook.above) - len(named)
    queues = phrases.listed([*named, f"{more} more"] if more else named)
    verb = "has" if len(outlook.above) == 1 else "have"
    surplus = phrases.quantity(outlook.resource, outlook.surplus)
    noun = "queue" if len(outlook.above) == 1 else "queues"
    return f"{noun} {queues} {verb} {surplus} more than deserved, but {_pods(outlook)}"


def _others(count: int) -> str:
    return "the only other queue with pods has" if count == 1 else f"all {count} other queues have"


def _none(outlook: ReclaimOutlook) -> str:
    closed = outlook.others - outlook.reclaimable
    kept = f" ({closed} more {'has' if closed == 1 else 'have'} reclaimable: false)"
    if outlook.reclaimable == 1:
        return f"the only other queue with pods{kept if closed else ''} doesn't have"
    return f"none of the {outlook.reclaimable} other queues with pods{kept if closed else ''} has"


def _pods(outlook: ReclaimOutlook) -> str:
    counts = dict(outlook.pods)
    free = counts.pop(Protection.NONE, 0)
    barred = [f"{count} {WORDS[each]}" for each, count in counts.items()]
    total = phrases.pods(free + sum(counts.values()))
    if not free:
        return f"of {total}, {phrases.listed(barred)}" if barred else "no pod of theirs may go"
    rest = f"; {phrases.listed(barred)}" if barred else ""
    if outlook.enough:
        return f"those that may go, {free} of {total}, make no room within the rules{rest}"
    return f"evicting those that may go, {free} of {total}, doesn't make enough room{rest}"
