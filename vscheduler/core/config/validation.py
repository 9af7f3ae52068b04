"""Validation of the configuration: finds all problems, each with its location.

The constants list the vocabulary of Volcano's configuration: flags, plugins and actions. Volcano:
pkg/scheduler/conf, plugins/factory.go, actions/factory.go.
"""

import difflib
import math
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from vscheduler.core.api.contracts import Argument

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
"""Flags of a plugin in Volcano's spelling, each with its default."""

PLUGINS = frozenset(
    {
        *("binpack", "capacity", "cdp", "conformance", "deviceshare", "drf", "extender", "gang"),
        *("network-topology-aware", "nodegroup", "nodeorder", "numa-aware", "overcommit", "pdb"),
        *("predicates", "priority", "proportion", "rescheduling", "resource-strategy-fit"),
        *("resourcequota", "sla", "task-topology", "tdm", "usage"),
    }
)
"""Volcano's plugins. Plugins not implemented here are left out of a configuration, with a
warning."""

QUOTAS = frozenset({"capacity", "proportion"})
"""Plugins that decide what a queue may use. They are not meant to be combined."""

ACTIONS = frozenset({"enqueue", "allocate", "backfill", "preempt", "reclaim", "shuffle"})
"""Volcano's actions. Actions not implemented here are left out of a configuration, with a
warning."""

SUCCESSORS: Mapping[str, str] = MappingProxyType(
    {"gangpreempt": "preempt", "gangreclaim": "reclaim"}
)
"""Actions that replace another action in Volcano. Here the replaced action does the same work."""

SUCCESSOR_ARGUMENTS = frozenset({"allowWholeBundle", "maxDomains"})
"""Arguments known only to the successors in Volcano."""


Path: TypeAlias = tuple[str | int, ...]
"""Keys and list indices, starting at the root of the configuration."""

KINDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
    type(None): "nothing",
}
"""Names of plain data types in messages."""

TRUTHS = {"true": True, "false": False}
"""Text that Volcano accepts for a bool argument (Arguments.GetBool)."""


TOPOLOGY = "hardNetworkTopology"
WAIT, ANYWHERE = "wait", "anywhere"
TOPOLOGY_PLUGIN = "network-topology-aware"
"""A plugin of Volcano, not implemented here. A configuration with this plugin wants gangs close
together in the network."""


class Problem(msgspec.Struct, frozen=True):
    """An error, or a warning, at one place of the configuration."""

    path: Path
    message: str

    def __str__(self) -> str:
        """Return a line such as `tiers[0].plugins[1].name: unknown plugin "gnag"`."""
        return f"{written(self.path)}: {self.message}" if self.path else self.message


class Findings:
    """Problems and warnings, in the order of discovery."""

    def __init__(self, *, lenient: bool = False) -> None:
        self.lenient = lenient
        """Whether an invalid argument is left out with a warning, as in Volcano."""
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def problem(self, path: Path, message: str) -> None:
        """Record an error that makes the configuration unusable."""
        self.problems.append(Problem(path, message))

    def warn(self, path: Path, message: str) -> None:
        """Record a warning: a usable configuration may not mean what the author expects."""
        self.warnings.append(Problem(path, message))

    def mapping(
        self, path: Path, value: object, known: Collection[str], needed: Iterable[str] = ()
    ) -> dict[str, object]:
        """Return the known keys of a mapping.

        Unknown keys, missing keys and values of another type are problems.
        """
        if not isinstance(value, dict):
            self.problem(path, f"must be a mapping, not {described(value)}")
            return {}
        for key in value:
            if key not in known:
                place = (*path, key if isinstance(key, str | int) else str(key))
                self.problem(place, f"unknown key{suggestion(key, known)}")
        for key in needed:
            if key not in value:
                self.problem((*path, key), "is missing")
        return {key: each for key, each in value.items() if key in known}

    def refuse_hierarchy_beside_proportion(
        self, entries: Sequence[tuple[Path, Mapping[str, object]]]
    ) -> None:
        """Report hierarchical drf and proportion in the same tier: both would order queues.

        Volcano refuses the combination, too.
        """
        if not any(entry.get("name") == "proportion" for _, entry in entries):
            return
        for path, entry in entries:
            if entry.get("name") == "drf" and entry.get("enableHierarchy") is True:
                message = "hierarchical drf can't stand in one tier with proportion"
                self.problem((*path, "enableHierarchy"), message)

    def hard_topology_waits(self, sections: Mapping[str, object], named: Container[str]) -> bool:
        """Whether gangs with a hard network topology wait; `named` are the plugins in the file.

        Volcano keeps gangs close together only with the plugin for network topology
        (HyperNodeGradientForJobFn).
        """
        starts_anywhere = "compatibility" in sections and TOPOLOGY_PLUGIN not in named
        given = sections.get(TOPOLOGY, ANYWHERE if starts_anywhere else WAIT)
        if given not in (WAIT, ANYWHERE):
            message = f"must be {WAIT} or {ANYWHERE}, not {described(given)}"
            self.problem((TOPOLOGY,), message)
        return given != ANYWHERE

    def items(self, path: Path, value: object) -> list[tuple[Path, object]]:
        """Return the items of a list with their paths. A value of another type is a problem."""
        if not isinstance(value, list):
            self.problem(path, f"must be a list, not {described(value)}")
            return []
        return [((*path, place), item) for place, item in enumerate(value)]

    def text(self, path: Path, value: object) -> str | None:
        """Return non-empty text, stripped. Anything else is a problem."""
        if not isinstance(value, str) or not value.strip():
            found = "empty" if isinstance(value, str) else described(value)
            self.problem(path, f"must be text, not {found}")
            return None
        return value.strip()

    def arguments(
        self,
        path: Path,
        value: object,
        declared: Mapping[str, Argument],
        owner: str,
    ) -> dict[str, object]:
        """Return the valid arguments.

        `owner` (for example `plugin gang`) is named in messages about unknown arguments.
        """
        if value is None:  # Volcano accepts an empty `arguments:`
            return {}
        if not isinstance(value, dict):
            self.problem(path, f"must be a mapping, not {described(value)}")
            return {}
        taken: dict[str, object] = {}
        for name, given in value.items():
            place = (*path, name if isinstance(name, str | int) else str(name))
            argument = _declared(name, declared)
            if argument is None:
                hint = suggestion(name, declared) if declared else ""
                message = f"{owner} has no such argument{hint}"
                if self.lenient:
                    self.warn(place, f"{message}; it is left out, as in Volcano")
                else:
                    self.problem(place, message)
                continue
            final = TRUTHS.get(given, given) if _is_text_for_bool(argument, given) else given
            error_text = _argument_error(argument, final)
            if error_text and self.lenient:
                self.warn(place, f"{error_text}; it is left out, as in Volcano")
                continue
            if error_text:
                self.problem(place, error_text)
                continue
            if argument.missing and final != argument.default:
                self.warn(place, f"has no effect yet ({argument.missing})")
            taken[name] = final
        return taken


def written(path: Path) -> str:
    """Return a path in the usual notation: `tiers[0].plugins[2].arguments.binpack.cpu`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def described(value: object) -> str:
    """Return the type of a value, with short values included: `text ("5")`."""
    kind = KINDS.get(type(value), type(value).__name__)
    if value is None or isinstance(value, list | dict):
        return kind
    shown = f'"{value}"' if isinstance(value, str) else str(value).lower()
    return f"{kind} ({shown if len(shown) <= 40 else f'{shown[:40]}…'})"


ABSENT = {"plugin": "; is its package installed? (entry point group vscheduler.plugins)"}
"""By kind of name, what is asked about a name that resembles no known name."""


def suggestion(name: object, known: Iterable[str]) -> str:
    """Return `; did you mean gang?` for the closest known name, or an empty string."""
    close = closest(name, known)
    return f"; did you mean {close}?" if close else ""


def closest(name: object, known: Iterable[str], least: float = 0.6) -> str:
    """Return the closest known name, or an empty string; `least` of the name must be the same."""
    return next(iter(difflib.get_close_matches(str(name), sorted(known), n=1, cutoff=least)), "")


def _declared(name: object, declared: Mapping[str, Argument]) -> Argument | None:
    if not isinstance(name, str):
        return None
    if name in declared and not name.endswith("*"):
        return declared[name]
    for pattern, argument in declared.items():
        start = pattern.removesuffix("*")
        if start != pattern and name.startswith(start) and len(name) > len(start):
            return argument
    return None


def _is_text_for_bool(argument: Argument, given: object) -> bool:
    return argument.kind is bool and isinstance(given, str)


def _argument_error(argument: Argument, given: object) -> str:
    """Return the error in an argument's value, or an empty string."""
    kind = type(given)
    if kind is not argument.kind and not (argument.kind is float and kind is int):
        advice = _unquoting(argument.kind, given)
        return f"must be {KINDS[argument.kind]}, not {described(given)}{advice}"
    if isinstance(given, float) and not math.isfinite(given):
        return "must be a finite number"
    if argument.minimum is not None and isinstance(given, int | float) and given < argument.minimum:
        return f"must be at least {argument.minimum:g}, not {given}"
    if argument.parse is not None:
        try:
            argument.parse(given)
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            said = str(error) if isinstance(error, ValueError) else ""
            return said or f"can't be read: {type(error).__name__}: {error}"
    if argument.choices and given not in argument.choices:
        return f"must be one of {_listed(argument.choices)}, not {described(given)}"
    return ""


def _unquoting(kind: type, given: object) -> str:
    """Return advice for a quoted number, which Volcano ignores, or an empty string."""
    if kind not in (int, float) or not isinstance(given, str):
        return ""
    try:
        kind(given)
    except ValueError:
        return ""
    return "; write no quotes"


def _listed(choices: Sequence[str]) -> str:
    return ", ".join(choices)
