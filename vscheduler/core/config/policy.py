"""The scheduler configuration as a Policy, or as the list of all its problems.

The format is Volcano's. Volcano silently ignores unknown names; here an unknown name is a problem.
Names known to Volcano but not implemented here cause a warning and are left out.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from vscheduler.core.api import contracts, depends, hooks
from vscheduler.core.api.contracts import Action, Plugin
from vscheduler.core.api.depends import On
from vscheduler.core.config import cycle_rules, validation
from vscheduler.core.config.cycle_rules import CycleRules
from vscheduler.core.config.validation import Findings, Path
from vscheduler.model import pod_texts
from vscheduler.model.pod_texts import PodReads

Problem = validation.Problem

Plugins = Sequence[type[Plugin]]
Actions = Sequence[type[Action[Any]]]
Configured = TypeVar("Configured", bound=contracts.Configured)
Answer = TypeVar("Answer")

BUILT_IN: Mapping[str, object] = {
    "actions": "enqueue, allocate, backfill, reclaim",
    "tiers": [
        {"plugins": [{"name": name} for name in names.split()]}
        for names in (
            "priority gang conformance pdb",
            "overcommit drf predicates proportion nodeorder binpack",
        )
    ],
}
"""The configuration used without a file. Volcano's default has neither reclaim nor binpack."""

LASTING = On.CLASS | On.NODE | On.QUEUE
"""What only changes with nodes, queues and pods that memos rest on."""

ABOUT_WAITING: Mapping[str, On] = {
    **dict.fromkeys(("job_ready", "job_pipelined"), LASTING | On.JOB),
    "filter_nodes": LASTING | On.PORTS,
}
"""Hooks that are asked about jobs without room, and what lets such a job wait without being asked
about: what pods use is followed by the scheduler, and fingerprints are compared."""

COMPARED: Mapping[str, On] = {
    "job_valid": LASTING | On.JOB,
    **dict.fromkeys(("overused", "allocatable", "shortages"), LASTING),
}
"""Hooks that decide only what a job without room is told. Answers that depend on more than this are
asked for in each cycle, and compared with the last ones."""

ABOUT_NODES = ("class_nodes", "queue_nodes")
"""Hooks that say which nodes count for shares."""

FILTERS_ONLY = (
    "plugin {} defines filter_nodes without class_nodes or queue_nodes, so shares would count "
    "nodes that it refuses: define class_nodes, too, which returns None if it depends on what runs "
    "there"
)

SECTIONS = (
    *("actions", "tiers", "configurations", "metrics", "compatibility"),
    validation.TOPOLOGY,
)
PLUGIN_KEYS = ("name", "arguments", *validation.FLAGS)
VOLCANO = "volcano"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PluginSetting:
    """A configured plugin in a tier."""

    plugin: type[Plugin]
    arguments: Mapping[str, object] = dataclasses.field(default_factory=dict)
    """Only the given arguments, with types as declared by the plugin."""
    off: frozenset[str] = frozenset()
    """Disabled flags, by Volcano's key."""
    answers: frozenset[str] = dataclasses.field(init=False, compare=False, repr=False)
    """Hooks defined by the plugin and not disabled by a flag."""
    flags: frozenset[str] = dataclasses.field(init=False, compare=False, repr=False)
    """Enabled flags."""

    def __post_init__(self) -> None:
        on = (name for name, hook in hooks.HOOKS.items() if hook.flag not in self.off)
        flags = frozenset(validation.FLAGS) - self.off
        silent = self.plugin.abstains(flags)
        answers = (name for name in on if hasattr(self.plugin, name) and name not in silent)
        object.__setattr__(self, "answers", frozenset(answers))
        object.__setattr__(self, "flags", flags)


class Backfill(StrEnum):
    """Which waiting jobs are promised a start."""

    NONE = "none"
    EASY = "easy"
    """The first one of each queue."""
    CONSERVATIVE = "conservative"
    """All, in the order of their turns, up to a number."""


BACKFILL, BACKFILL_DEPTH = "allocate.backfill", "allocate.backfillDepth"
"""Arguments of action allocate."""


class ActionSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A configured action."""

    action: type[Action[Any]]
    arguments: Mapping[str, object] = msgspec.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The program of a cycle: actions in order, plugins in tiers."""

    actions: tuple[ActionSetting, ...]
    tiers: tuple[tuple[PluginSetting, ...], ...]
    rules: CycleRules = cycle_rules.DEFAULT
    """Decisions outside of plugins and actions."""
    reads: PodReads = pod_texts.NOTHING
    """What all available plugins declare to read of pods, configured or not: the configuration may
    change while the Mirror stays."""
    hard_topology_waits: bool = True
    """Whether gangs with a hard network topology wait; otherwise such gangs start on any nodes."""
    keeps_domains: bool = dataclasses.field(init=False, compare=False, repr=False)
    """Whether answers about empty nodes, classes and queues stay the same in every cycle."""
    keeps_never_fitting: bool = dataclasses.field(init=False, compare=False, repr=False)
    """Whether that holds for filters, too, but for what runs on nodes."""
    skips_unschedulable: bool = dataclasses.field(init=False, compare=False, repr=False)
    """Whether jobs without room may be left out (session.unschedulable_pool): plugins declare
    what their answers about such jobs depend on."""
    alike_by_age: bool = dataclasses.field(init=False, compare=False, repr=False)
    """Whether jobs made from one template come in the order of their age."""
    trees: frozenset[str] = dataclasses.field(init=False, compare=False, repr=False)
    """The names of the plugins that are configured with hierarchical queues."""
    names_of_actions: frozenset[str] = dataclasses.field(init=False, compare=False, repr=False)
    backfill: Backfill = dataclasses.field(init=False, compare=False, repr=False)
    """Which waiting jobs are promised a start, so that others may go ahead only if they end in
    time."""
    backfill_depth: int = dataclasses.field(init=False, compare=False, repr=False)
    """At most so many, with conservative backfill."""
    settings: Sequence[PluginSetting] = dataclasses.field(init=False, compare=False, repr=False)
    """The plugins of all tiers."""
    allocates_claims: bool = dataclasses.field(init=False, compare=False, repr=False)
    """Whether any plugin looks at claims for devices."""
    starting: Sequence[int] = dataclasses.field(init=False, compare=False, repr=False)
    """The places of the plugins that have more to prepare once all plugins are open."""
    _known: dict[str, Any] = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Answer once what every cycle asks."""
        every, put = [each for tier in self.tiers for each in tier], object.__setattr__
        put(self, "_known", {})
        put(self, "names_of_actions", frozenset(action.action.name for action in self.actions))
        put(self, "settings", tuple(every))
        allocates = [each.plugin.has_claims_allocated(each.arguments) for each in every]
        put(self, "allocates_claims", any(allocates))
        starting = [place for place, each in enumerate(every) if "start" in each.answers]
        put(self, "starting", tuple(starting))
        keeps = all(self.depends(hook, LASTING) for hook in ABOUT_NODES)
        put(self, "keeps_domains", keeps)
        filters = self.depends("filter_nodes", LASTING | On.PORTS | On.USED)
        put(self, "keeps_never_fitting", keeps and filters)
        lasts = all(itertools.starmap(self.depends, ABOUT_WAITING.items()))
        admits = self.runs("enqueue") and self.runs("allocate")
        allocate = next((each for each in self.actions if each.action.name == "allocate"), None)
        given = allocate.action(allocate.arguments) if allocate is not None else None
        mode, depth = (
            (given.argument(BACKFILL), given.number(BACKFILL_DEPTH))
            if given is not None and BACKFILL in given.arguments
            else (Backfill.NONE, 0)
        )
        put(self, "backfill", Backfill(str(mode)))
        put(self, "backfill_depth", int(depth))
        leaves_jobs_out = self.rules.leaves_jobs_out and self.backfill is Backfill.NONE
        skips_unschedulable = leaves_jobs_out and keeps and lasts and admits
        put(self, "skips_unschedulable", skips_unschedulable)
        put(self, "alike_by_age", self.depends("job_key", LASTING | On.JOB | On.AGE))
        trees = (each.plugin.name for each in every if "enableHierarchy" in each.flags)
        put(self, "trees", frozenset(trees))

    def depends(self, hook: str, within: On) -> bool:
        """Whether all plugins declare that their answers depend on no more than this."""
        found = [each.plugin for each in self.settings if hook in each.answers]
        declared = [depends.of(plugin, hook) for plugin in found]
        return all(each is not None and each.on in within for each in declared)

    def memo(self, key: str, compute: Callable[[], Answer]) -> Answer:
        """Return an answer that depends on the policy alone, computed once."""
        if key not in self._known:
            self._known[key] = compute()
        found: Answer = self._known[key]
        return found

    def runs(self, action: str) -> bool:
        """Whether an action of this name is configured."""
        return action in self.names_of_actions

    def with_argument(self, action: str, name: str, value: object) -> "Policy":
        """Return the policy with this argument for the action, wherever it is configured."""
        return dataclasses.replace(
            self,
            actions=tuple(
                replace(setting, arguments={**setting.arguments, name: value})
                if setting.action.name == action
                else setting
                for setting in self.actions
            ),
        )

    def has_plugin(self, plugin: str) -> bool:
        """Whether a plugin of this name is configured."""
        return any(setting.plugin.name == plugin for setting in self.settings)

    def has_action(self, action: str) -> bool:
        """Whether an action of this name is configured."""
        return any(setting.action.name == action for setting in self.actions)

    def has_tree(self, plugin: str) -> bool:
        """Whether a plugin of this name is configured with hierarchical queues."""
        return plugin in self.trees


class Compatibility(msgspec.Struct, frozen=True, kw_only=True):
    """The plugins, actions and rules substituted by a compatibility mode.

    Each class replaces the default class of the same name.
    """

    plugins: Plugins = ()
    actions: Actions = ()
    rules: CycleRules = cycle_rules.DEFAULT


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of parsing: a policy, unless there are problems.

    Warnings do not prevent a policy.
    """

    policy: Policy | None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def parse(tree: object, plugins: Plugins, actions: Actions, volcano: Compatibility) -> Parsed:
    """Parse a configuration given as plain data. `plugins` and `actions` are the available ones.

    All problems are collected. With any problem the result has no policy.
    """
    compatible = isinstance(tree, dict) and tree.get("compatibility") == VOLCANO
    found = Findings(lenient=compatible)
    sections = found.mapping((), tree, SECTIONS, needed=("actions", "tiers"))
    mode = volcano if compatible else Compatibility()
    by_action = _by_name(actions, mode.actions)
    by_plugin = _by_name(plugins, mode.plugins)
    names = _action_names(found, sections["actions"], by_action) if "actions" in sections else []
    given = _configurations(found, sections.get("configurations", []), by_action, names)
    seen: set[str] = set()
    tiers = _tiers(found, sections.get("tiers", []), by_plugin, seen)
    if "metrics" in sections:
        found.warn(("metrics",), "is left out: nothing here reads load figures yet")
    compatibility = sections.get("compatibility", VOLCANO)
    if compatibility != VOLCANO:
        text = validation.described(compatibility)
        found.problem(("compatibility",), f"must be {VOLCANO} or be left out, not {text}")
    policy = Policy(
        actions=tuple(
            ActionSetting(action=by_action[name], arguments=given.get(name, {}))
            for name in names
            if name in by_action
        ),
        tiers=tiers,
        rules=mode.rules,
        reads=pod_texts.union(map(pod_texts.reads, plugins)),
        hard_topology_waits=found.hard_topology_waits(sections, seen),
    )
    return Parsed(
        policy=None if found.problems else policy,
        problems=tuple(found.problems),
        warnings=tuple(found.warnings),
    )


def built_in(plugins: Plugins, actions: Actions) -> Policy:
    """Return the policy of BUILT_IN."""
    parsed = parse(dict(BUILT_IN), plugins, actions, Compatibility())
    assert parsed.policy is not None, parsed.problems
    return parsed.policy


def _by_name(
    existing: Sequence[type[Configured]], substitutes: Sequence[type[Configured]]
) -> dict[str, type[Configured]]:
    """Return the existing classes by name, with substitutes in place of their namesakes."""
    names = {each.name for each in existing}
    every = (*existing, *(substitute for substitute in substitutes if substitute.name in names))
    return {each.name: each for each in every}


def _action_names(findings: Findings, value: object, existing: Iterable[str]) -> list[str]:
    """Return the configured actions by their names here, including missing ones of Volcano."""
    path = ("actions",)
    if not isinstance(value, str):
        what = f"not {validation.described(value)}"
        findings.problem(path, f'must be text like "enqueue, allocate", {what}')
        return []
    names: list[str] = []
    for written in (part.strip() for part in value.split(",")):
        name = validation.SUCCESSORS.get(written, written)
        if not name:
            findings.problem(path, "has an empty name: a comma too many?")
        elif name in names:
            also = f" (as {written})" if written != name else ""
            findings.problem(path, f"names {name} twice{also}")
        elif _known(findings, path, ("action", name), validation.ACTIONS, existing):
            if written != name:
                findings.warn(path, f"{written} means {name} here")
            names.append(name)
    return names


def _known(
    findings: Findings,
    path: Path,
    named: tuple[str, str],
    volcano: Iterable[str],
    existing: Iterable[str],
) -> bool:
    """Whether a name (kind, name) exists here or in Volcano.

    A name that does not exist here is reported.
    """
    kind, name = named
    if name in existing:
        return True
    if name in volcano:
        findings.warn(path, f"{kind} {name} is left out: it isn't there yet")
        return True
    hint = validation.suggestion(name, {*existing, *volcano}) or validation.ABSENT.get(kind, "")
    findings.problem(path, f'unknown {kind} "{name}"{hint}')
    return False


def _configurations(
    findings: Findings,
    value: object,
    existing: Mapping[str, type[Action[Any]]],
    configured: Sequence[str],
) -> dict[str, dict[str, object]]:
    """Return the arguments by action."""
    given: dict[str, dict[str, object]] = {}
    seen: set[str] = set()
    for path, item in findings.items(("configurations",), value):
        entry = findings.mapping(path, item, ("name", "arguments"), needed=("name",))
        written = findings.text((*path, "name"), entry["name"]) if "name" in entry else None
        if written is None:
            continue
        name = validation.SUCCESSORS.get(written, written)
        if name in seen:
            findings.problem((*path, "name"), f"{name} is configured twice")
            continue
        seen.add(name)
        place = (*path, "name")
        if not _known(findings, place, ("action", name), validation.ACTIONS, existing):
            continue
        if name not in existing:
            continue
        if name not in configured:
            findings.warn(place, f"has no effect: {name} isn't among the actions")
        arguments = _without_successors(findings, (*path, "arguments"), entry.get("arguments"))
        declared = existing[name].arguments
        given[name] = findings.arguments(
            (*path, "arguments"), arguments, declared, f"action {name}"
        )
    return given


def _without_successors(findings: Findings, path: Path, value: object) -> object:
    """Return the arguments without the ones known only to gangpreempt and gangreclaim."""
    if not isinstance(value, dict):
        return value
    for name in validation.SUCCESSOR_ARGUMENTS & value.keys():
        findings.warn((*path, name), "is left out: it has no meaning here")
    return {
        name: each for name, each in value.items() if name not in validation.SUCCESSOR_ARGUMENTS
    }


def _tiers(
    findings: Findings,
    value: object,
    existing: Mapping[str, type[Plugin]],
    seen: set[str],
) -> tuple[tuple[PluginSetting, ...], ...]:
    """Return the plugins by tier, and add all plugin names to `seen`, even names unknown here."""
    tiers = []
    for path, item in findings.items(("tiers",), value):
        tier = findings.mapping(path, item, ("plugins",), needed=("plugins",))
        entries = [
            (place, findings.mapping(place, entry, PLUGIN_KEYS, needed=("name",)))
            for place, entry in findings.items((*path, "plugins"), tier.get("plugins", []))
        ]
        findings.refuse_hierarchy_beside_proportion(entries)
        settings = [_plugin(findings, place, entry, existing, seen) for place, entry in entries]
        tiers.append(tuple(setting for setting in settings if setting is not None))
    return tuple(tiers)


def _plugin(
    findings: Findings,
    path: Path,
    entry: Mapping[str, object],
    existing: Mapping[str, type[Plugin]],
    seen: set[str],
) -> PluginSetting | None:
    """Return the setting of a plugin, or None for a plugin unknown here.

    `seen` has the names before, in all tiers.
    """
    flags = {**validation.FLAGS}
    for flag in validation.FLAGS.keys() & entry.keys():
        on = entry[flag]
        if isinstance(on, bool):
            flags[flag] = on
        else:
            findings.problem(
                (*path, flag), f"must be true or false, not {validation.described(on)}"
            )
    name = findings.text((*path, "name"), entry["name"]) if "name" in entry else None
    if name is None:
        return None
    if name in seen:
        findings.problem((*path, "name"), f"{name} is configured twice")
        return None
    seen.add(name)
    if name in validation.QUOTAS and seen >= validation.QUOTAS:
        findings.warn(
            (*path, "name"), "capacity and proportion contradict each other; leave one out"
        )
    known = _known(findings, (*path, "name"), ("plugin", name), validation.PLUGINS, existing)
    if not known or name not in existing:
        return None
    plugin = existing[name]
    if hasattr(plugin, "filter_nodes") and not any(hasattr(plugin, hook) for hook in ABOUT_NODES):
        findings.problem((*path, "name"), FILTERS_ONLY.format(name))
    arguments = findings.arguments(
        (*path, "arguments"), entry.get("arguments"), plugin.arguments, f"plugin {name}"
    )
    off = frozenset(flag for flag, on in flags.items() if not on)
    return PluginSetting(plugin=plugin, arguments=arguments, off=off)
