"""Checks of configurations for pitfalls that the parser has no reason to refuse.

A plugin's role is derived from the hooks that the plugin defines and has enabled, so plugins of
foreign packages are treated like built-in plugins.
"""

from collections.abc import Iterator

import msgspec

from vscheduler.core.api import depends, hooks
from vscheduler.core.api.contracts import VictimRole
from vscheduler.core.compat.actions import VolcanoEnqueue
from vscheduler.core.config.policy import (
    ABOUT_NODES,
    ABOUT_WAITING,
    SECTIONS,
    PluginSetting,
    Policy,
)
from vscheduler.core.config.validation import Path
from vscheduler.core.plugins.priority import Priority

ADMISSION = frozenset({"job_enqueueable", "job_enqueued"})
"""Hooks used by action enqueue only."""

ACCOUNTS = frozenset({"start", "on_allocate", "on_deallocate"})
"""Hooks that merely let a plugin keep accounts."""

ENTITLED = {"preempt": "preemptable", "reclaim": "reclaimable"}
"""By action, the hook that decides who may lose pods to whom."""


class Trap(msgspec.Struct, frozen=True):
    """A pitfall, and the word that locates the pitfall in the file."""

    subject: str
    """`actions`, `tiers`, or the name of a plugin."""
    message: str


def traps(policy: Policy, *, autoscaler: bool) -> list[Trap]:
    """Return all pitfalls of a configuration, including pitfalls of autoscaling if `autoscaler` is
    set.
    """
    found = [*_starting(policy), *_evicting(policy), *_idle(policy), *_undeclared(policy)]
    if autoscaler and policy.runs("enqueue"):
        deciding = [setting.plugin.name for setting in policy.settings if _admits(setting)]
        message = (
            "enqueue keeps a group Pending until what it needs can be reserved "
            f"({', '.join(deciding) or 'no plugin is asked'}); controllers that create pods only "
            "for admitted groups, as Volcano's do, create none until then, and an autoscaler sees "
            "nothing to add nodes for; leave enqueue out, or raise overcommit-factor"
        )
        found += [Trap("actions", message)] if deciding else []
    return found


def path_of(tree: object, trap: Trap) -> Path:
    """Return the path of a pitfall in the configuration."""
    if trap.subject in SECTIONS:
        return (trap.subject,)
    assert isinstance(tree, dict)
    for at, tier in enumerate(tree["tiers"]):
        for place, entry in enumerate(tier["plugins"]):
            if str(entry["name"]).strip() == trap.subject:
                return ("tiers", at, "plugins", place)
    raise AssertionError(f"{trap.subject} isn't in the configuration")


def setting_of(policy: Policy, name: str) -> PluginSetting | None:
    """Return the setting of a plugin; None if the plugin isn't configured."""
    return next((setting for setting in policy.settings if setting.plugin.name == name), None)


def has(policy: Policy, name: str, flag: str = "") -> bool:
    """Whether a plugin is configured, with the given flag enabled if any is given."""
    setting = setting_of(policy, name)
    return setting is not None and (not flag or flag in setting.flags)


def counts_priorities_of_pods(policy: Policy) -> bool:
    """Whether the priority of a group without a class is that of its pods."""
    setting = setting_of(policy, "priority")
    return setting is not None and setting.plugin is Priority


def _any(policy: Policy, hook: str) -> bool:
    return any(hook in setting.answers for setting in policy.settings)


def _starting(policy: Policy) -> Iterator[Trap]:
    """Iterate over settings that keep jobs from starting, or start them wrongly."""
    if not policy.runs("allocate"):
        yield Trap("actions", "without allocate, nothing starts that asks for any resource")
    if not policy.runs("backfill"):
        yield Trap("actions", "without backfill, pods that request no resources are never placed")
    if not _any(policy, "job_ready"):
        evicting = [action for action in ENTITLED if policy.runs(action)]
        more = f", and {' and '.join(evicting)} evict for such pieces" if evicting else ""
        message = f"no plugin keeps minMember (gang does): jobs start in pieces{more}"
        yield Trap("tiers", message)
    if not has(policy, "predicates", "enablePredicate"):
        message = "without predicates, taints, node selectors, affinity and ports aren't looked at"
        yield Trap("tiers", message)
    if not _any(policy, "allocatable"):
        message = (
            "no plugin says what queues may have (proportion and capacity do): weight, capability "
            "and guarantee aren't looked at"
        )
        yield Trap("tiers", message)


def _evicting(policy: Policy) -> Iterator[Trap]:
    """Iterate over actions that could evict but never do, or do so unexpectedly."""
    for action, hook in ENTITLED.items():
        if not policy.runs(action):
            continue
        if not _any(policy, "job_starving"):
            message = f"{action} does nothing: no plugin says that a job starves (gang does)"
            yield Trap("actions", message)
        elif not any(_entitles(setting, hook) for setting in policy.settings):
            who = "proportion and capacity do" if action == "reclaim" else "priority and drf do"
            message = f"{action} evicts nobody: no plugin says who may lose pods to whom ({who})"
            yield Trap("actions", message)
        elif action == "preempt" and not has(policy, "priority", "enablePreemptable"):
            message = "preempt doesn't go by PriorityClasses: plugin priority has no say"
            yield Trap("actions", message)
    if policy.runs("enqueue"):
        yield from _unrelieved(policy)
    if policy.runs("shuffle"):
        yield from _shuffling(policy)
    if has(policy, "tdm") and not policy.runs("shuffle"):
        message = "pods stay on nodes whose time is over: only the action shuffle lets them go"
        yield Trap("tdm", message)


def _unrelieved(policy: Policy) -> Iterator[Trap]:
    """Iterate over plugins that keep jobs Pending although evictions could make room for them."""
    evicting = [action for action in ENTITLED if policy.runs(action)]
    if not evicting:
        return
    named, s = " and ".join(evicting), "s" if len(evicting) == 1 else ""
    refusing = [setting.plugin.name for setting in policy.settings if _admits(setting)]
    as_volcano = any(issubclass(action.action, VolcanoEnqueue) for action in policy.actions)
    if as_volcano and refusing:
        message = (
            f"with compatibility: volcano, {named} evict{s} nobody for jobs that enqueue keeps "
            f"Pending in a full cluster ({', '.join(refusing)}); leave enqueue out, or raise "
            "overcommit-factor"
        )
        yield Trap("actions", message)
    elif "resourcequota" in refusing:
        message = (
            f"{named} release{s} nothing of a ResourceQuota: a job that exceeds one waits, "
            "whatever its priority"
        )
        yield Trap("resourcequota", message)


def _shuffling(policy: Policy) -> Iterator[Trap]:
    naming = [
        setting.plugin.name for setting in policy.settings if "shuffle_victims" in setting.answers
    ]
    if "pdb" in naming:  # only with compatibility: volcano
        message = (
            "with compatibility: volcano, shuffle evicts every running pod with labels that no "
            "budget keeps; set enabledVictim: false for pdb"
        )
        yield Trap("pdb", message)
    elif not naming:
        message = "shuffle does nothing: no plugin names pods that should go (tdm does)"
        yield Trap("actions", message)


def _entitles(setting: PluginSetting, hook: str) -> bool:
    """Whether a plugin may ever decide who loses pods; drf reclaims only in a hierarchy."""
    if setting.plugin.name == "drf" and hook == "reclaimable":
        return hook in setting.answers and "enableHierarchy" in setting.flags
    return hook in setting.answers and setting.plugin.victim_role is VictimRole.ENTITLES


def _idle(policy: Policy) -> Iterator[Trap]:
    """Iterate over plugins without any effect in their position."""
    enqueue = policy.runs("enqueue")
    for setting in policy.settings:
        defined = {hook for hook in hooks.HOOKS if hasattr(setting.plugin, hook)}
        if not enqueue and defined & ADMISSION and defined <= ADMISSION | ACCOUNTS:
            message = f"{setting.plugin.name} has no effect: enqueue isn't among the actions"
            yield Trap(setting.plugin.name, message)
    refusing = _not_after(policy, "sla", "job_enqueueable") if enqueue else []
    reserving = _not_after(policy, "sla", "job_pipelined")
    parts = [f"are refused all the same by {' and '.join(refusing)}"] if refusing else []
    if reserving:
        parts.append(f"get no reserved nodes because of {' and '.join(reserving)}")
    if parts:
        message = (
            f"jobs whose waiting time is over {', and '.join(parts)}; put sla into a tier before"
        )
        yield Trap("sla", message)


def _undeclared(policy: Policy) -> Iterator[Trap]:
    """Iterate over plugins because of which each cycle goes through all jobs without room."""
    for setting in policy.settings:
        plugin, hooks_ = (
            setting.plugin,
            setting.answers.intersection((*ABOUT_NODES, *ABOUT_WAITING)),
        )
        undeclared = sorted(hook for hook in hooks_ if depends.of(plugin, hook) is None)
        if undeclared:
            message = (
                f"declares nothing of {' and '.join(undeclared)} (depends_on), so each cycle goes "
                "through every job without room, which costs about 40 ms for each 1,000 of them"
            )
            yield Trap(plugin.name, message)


def _not_after(policy: Policy, name: str, hook: str) -> list[str]:
    """Return the other plugins with the hook in the tier of a plugin that has it, and before."""
    found: list[str] = []
    for tier in policy.tiers:
        voting = [each.plugin.name for each in tier if hook in each.answers]
        found += [each for each in voting if each != name]
        if name in voting:
            return found
    return []


def _admits(setting: PluginSetting) -> bool:
    return "job_enqueueable" in setting.answers
