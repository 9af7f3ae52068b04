"""The flags that say how much one pod may ask for, for all commands that look at pods."""

from collections.abc import Callable
from typing import Any

import click

from vscheduler.cli import flags
from vscheduler.mirror.translate import bounds

HEADING = "Bounds of one pod"

ABOUT = {
    "max_pod_affinity_terms": "Pod affinity and anti-affinity terms; a pod with more waits.",
    "max_pod_selector_values": "Labels, expressions, values and namespaces in selectors.",
    "max_pod_topology_spreads": "Topology spread constraints.",
    "max_pod_tolerations": "Tolerations.",
    "max_pod_resources": "Resources that are named in requests.",
    "max_pod_bytes": "Size of what is read of a pod.",
}


def bounded(option: Callable[..., Any] = flags.option) -> Callable[[flags.Decorated], Any]:
    """Add them, in the order in which the help has them; each made by this."""

    def decorate(command: flags.Decorated) -> flags.Decorated:
        for name in reversed(bounds.NAMES):
            command = option(
                bounds.flag(name),
                ABOUT[name],
                type=click.IntRange(min=1),
                default=getattr(bounds.DEFAULT, name),
                show_default=True,
                heading=HEADING,
            )(command)
        return command

    return decorate


def plain(name: str, about: str, *, heading: str, **more: Any) -> Callable[[Any], Any]:
    """One that no environment variable can give; all options of the command stand together."""
    del heading
    return click.option(name, help=about, **more)


def take(words: dict[str, Any]) -> bounds.Bounds:
    """What they were given, which leaves these words."""
    return bounds.of({name: words.pop(name) for name in bounds.NAMES})
