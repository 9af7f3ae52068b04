"""Plugins of other packages, which register them as entry points of the group vscheduler.plugins.

[project.entry-points."vscheduler.plugins"]
spot = "example_spot:Spot"
"""

import functools
import inspect
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata

from vscheduler.core import plugins
from vscheduler.core.api import contracts, hooks

GROUP = "vscheduler.plugins"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Plugins that can be used, and what is wrong with the others."""

    plugins: tuple[type[contracts.Plugin], ...] = ()
    problems: tuple[str, ...] = ()
    """One sentence each, with the distribution and the entry point."""


class _BadPluginError(Exception):
    """What an entry point names can't be used; the message says why."""


@functools.cache
def installed() -> Found:
    """What is installed beside us; looked for once, so that a reload imports nothing."""
    taken = [plugin.name for plugin in plugins.PLUGINS]
    return discover(metadata.entry_points(group=GROUP), taken)


def discover(points: Iterable[metadata.EntryPoint], taken: Collection[str]) -> Found:
    """Load these entry points; a name that is taken is a problem, whoever has it."""
    found: dict[str, type[contracts.Plugin]] = {}
    problems = []
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        try:
            plugin = _load(point, {*taken, *found})
        except _BadPluginError as error:
            problems.append(f"{_place(point)}: {error}")
        else:
            found[plugin.name] = plugin
    return Found(plugins=tuple(found.values()), problems=tuple(problems))


def _load(point: metadata.EntryPoint, taken: Collection[str]) -> type[contracts.Plugin]:
    try:
        plugin = point.load()
    except Exception as error:  # another's module, imported: it may raise anything
        raise _BadPluginError(f"can't be loaded: {type(error).__name__}: {error}") from error
    if not (inspect.isclass(plugin) and issubclass(plugin, contracts.Plugin)):
        raise _BadPluginError("is no subclass of vscheduler.core.api.contracts.Plugin")
    name = getattr(plugin, "name", None)
    if name != point.name:
        raise _BadPluginError(f"its plugin calls itself {name!r}; both names must be the same")
    if name in taken:
        raise _BadPluginError(f'there is another plugin called "{name}"')
    if not _are_arguments(plugin.arguments):
        raise _BadPluginError("its `arguments` must be a mapping of names to contracts.Argument")
    if not any(hasattr(plugin, hook) for hook in hooks.HOOKS):
        raise _BadPluginError("its plugin defines no hook; docs/plugins.md lists them")
    return plugin


def _are_arguments(arguments: object) -> bool:
    return isinstance(arguments, Mapping) and all(
        isinstance(name, str) and isinstance(argument, contracts.Argument)
        for name, argument in arguments.items()
    )


def _place(point: metadata.EntryPoint) -> str:
    origin = f"{point.dist.name} {point.dist.version}, " if point.dist else ""
    return f"{origin}entry point {point.name} = {point.value}"
