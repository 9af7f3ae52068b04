"""Classes of plugins from other packages: what is wrong with one, before any cycle asks it."""

from collections.abc import Iterator, Mapping

from vscheduler.core.api import hooks
from vscheduler.core.api.contracts import Argument, Plugin
from vscheduler.core.config import validation

NAMES = frozenset({*hooks.HOOKS, *(name for name in vars(Plugin) if not name.startswith("_"))})
"""What a plugin may define that the scheduler reads."""

ALIKE = 0.85
"""How much of a name must be the same for a misspelling: filter_node, but not score."""


def _plain(name: str) -> str:
    """Return the name without its way of writing: joborder for jobOrderFn and job_order."""
    return name.replace("_", "").lower().removesuffix("fn")


MEANT = {
    **{_plain(hook.volcano): name for name, hook in hooks.HOOKS.items() if hook.volcano},
    **{_plain(name): name for name in NAMES},
}
"""The names by how they and Volcano's names of hooks are written plainly."""


def problem(plugin: type[Plugin]) -> str:
    """Return what is wrong with the class, an end of a sentence; empty if nothing is."""
    if not _are_arguments(plugin.arguments):
        return "its `arguments` must be a mapping of names to contracts.Argument"
    claims = plugin.allocates_claims
    if claims != "" and not (isinstance(claims, str) and claims in plugin.arguments):
        return "its `allocates_claims` must name one of its `arguments`"
    for attribute in ("reads_annotations", "reads_labels"):
        if not _are_names(getattr(plugin, attribute)):
            return f"its `{attribute}` must be a list or tuple of names"
    for name in _own(plugin):
        if name in NAMES:
            continue
        meant = MEANT.get(_plain(name)) or validation.closest(name, NAMES, ALIKE)
        if meant:
            return f"nothing reads its `{name}`: write {meant}, or _{name} for one of your own"
    if not any(hasattr(plugin, hook) for hook in hooks.HOOKS):
        return "its plugin defines no hook; docs/plugins.md lists them"
    return ""


def _own(plugin: type[Plugin]) -> Iterator[str]:
    """Iterate over the public names that the class and its bases beside Plugin define."""
    for base in plugin.__mro__:
        if issubclass(base, Plugin) and base is not Plugin:
            yield from (name for name in vars(base) if not name.startswith("_"))


def _are_arguments(arguments: object) -> bool:
    return isinstance(arguments, Mapping) and all(
        isinstance(name, str) and isinstance(argument, Argument)
        for name, argument in arguments.items()
    )


def _are_names(names: object) -> bool:
    return isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
