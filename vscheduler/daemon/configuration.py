"""Loading of the scheduler configuration file: a Policy, or all problems with their locations.

Besides the built-in plugins, plugins of other packages are loaded. A package registers its plugins
as entry points of the group vscheduler.plugins:

[project.entry-points."vscheduler.plugins"]
spot = "example_spot:Spot"
"""

import functools
import hashlib
import inspect
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

import msgspec

from vscheduler.core import actions, compat, plugins
from vscheduler.core.api.contracts import Argument, Plugin
from vscheduler.core.config import plugin_classes, policy
from vscheduler.core.config.policy import Parsed, Plugins, PluginSetting, Policy
from vscheduler.core.config.validation import Problem
from vscheduler.daemon.settings import Settings
from vscheduler.mirror.decode import documents
from vscheduler.mirror.decode.documents import Document, DocumentError

ENTRY_POINTS = "vscheduler.plugins"


class ConfigurationError(Exception):
    """All problems of a configuration, each with its location: `file.yaml:12: …`."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A valid configuration."""

    policy: Policy
    warnings: tuple[str, ...] = ()
    path: str = ""
    """Path of the file; empty for the built-in configuration."""
    text: str = ""


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration as written, and the result of parsing."""

    document: Document
    parsed: Parsed

    def placed(self, problems: Sequence[Problem]) -> tuple[str, ...]:
        """Return the problems as text, each with its location: `file.yaml:12: …`."""
        return tuple(f"{self.document.place(problem.path)}: {problem}" for problem in problems)


def load(path: str) -> Loaded:
    """Load a configuration file, or the built-in configuration if the path is empty.

    Raises ConfigurationError with all problems of the file or of installed plugins.
    """
    if path:
        return parse(read(path), path)
    known = _known()
    return Loaded(policy=policy.built_in(known, actions.ACTIONS))


def read(path: str) -> str:
    """Return the text of a configuration file. Raises ConfigurationError."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError([f"{path}: {error}"]) from error


def parse(text: str, path: str) -> Loaded:
    """Parse the text of a configuration file. Raises ConfigurationError."""
    examined = examine(text, path)
    parsed = examined.parsed
    if parsed.policy is None:
        raise ConfigurationError(examined.placed(parsed.problems))
    warnings = examined.placed(parsed.warnings)
    return Loaded(policy=parsed.policy, warnings=warnings, path=path, text=text)


def examine(text: str, path: str) -> Examined:
    """Parse the text of a configuration file, and return problems and warnings alike.

    Raises ConfigurationError if the text is not a single YAML document, or if installed plugins are
    invalid.
    """
    known = _known()
    try:
        loaded = documents.load(text, path)
    except DocumentError as error:
        raise ConfigurationError([str(error)]) from error
    if len(loaded) != 1:
        raise ConfigurationError([f"{path}: one document is needed, there are {len(loaded)}"])
    (document,) = loaded
    if isinstance(document.content, Mapping) and document.content.get("kind") == "ConfigMap":
        raise ConfigurationError([_config_map(path, document.content)])
    parsed = policy.parse(document.content, known, actions.ACTIONS, compat.VOLCANO)
    return Examined(document=document, parsed=parsed)


def looks_like_one(tree: object) -> bool:
    """Whether a document is meant as a configuration: an object of Kubernetes has a kind."""
    return (
        isinstance(tree, Mapping)
        and not {"apiVersion", "kind"} & tree.keys()
        and bool({"actions", "tiers"} & tree.keys())
    )


def _config_map(path: str, tree: Mapping[str, object]) -> str:
    """Return that the file is a ConfigMap, and how to get at its configuration."""
    data, metadata = tree.get("data"), tree.get("metadata")
    keys = [str(key) for key in data] if isinstance(data, Mapping) else []
    name = str(metadata.get("name", "NAME")) if isinstance(metadata, Mapping) else "NAME"
    key = (keys or ["KEY"])[0].replace(".", "\\.")
    return (
        f"{path}: is a ConfigMap; the configuration is the text in its data: kubectl get configmap "
        f"{name} -o jsonpath='{{.data.{key}}}' > scheduler.conf"
    )


def _known() -> Plugins:
    """Return the built-in plugins and the plugins of other packages."""
    others = installed()
    if others.problems:
        raise ConfigurationError(others.problems)
    return (*plugins.PLUGINS, *others.plugins)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The usable plugins of other packages, and the problems of the unusable ones."""

    plugins: tuple[type[Plugin], ...] = ()
    problems: tuple[str, ...] = ()
    """A sentence for each, with the distribution and the entry point."""


class _BadPluginError(Exception):
    """An entry point's plugin cannot be used. The message says why."""


@functools.cache
def installed() -> Found:
    """Return the plugins of installed packages. Cached, so that a reload imports nothing."""
    names = [plugin.name for plugin in plugins.PLUGINS]
    return discover(metadata.entry_points(group=ENTRY_POINTS), names)


def discover(points: Iterable[metadata.EntryPoint], used_names: Collection[str]) -> Found:
    """Load the plugins of these entry points.

    A plugin with a name in `used_names`, or a name used twice, is a problem.
    """
    by_name: dict[str, type[Plugin]] = {}
    problems = []
    for point in sorted(points, key=lambda point: (point.name, point.value)):
        try:
            plugin = _load(point, {*used_names, *by_name})
        except _BadPluginError as error:
            problems.append(f"{_place(point)}: {error}")
        else:
            by_name[plugin.name] = plugin
    return Found(plugins=tuple(by_name.values()), problems=tuple(problems))


def _load(point: metadata.EntryPoint, used_names: Collection[str]) -> type[Plugin]:
    try:
        plugin = point.load()
    except Exception as error:  # importing a foreign module may raise anything
        raise _BadPluginError(f"can't be loaded: {type(error).__name__}: {error}") from error
    if not (inspect.isclass(plugin) and issubclass(plugin, Plugin)):
        raise _BadPluginError("is no subclass of vscheduler.core.api.contracts.Plugin")
    name = getattr(plugin, "name", None)
    if name != point.name:
        raise _BadPluginError(f"its plugin calls itself {name!r}; both names must be the same")
    if name in used_names:
        raise _BadPluginError(f'there is another plugin called "{name}"')
    if problem := plugin_classes.problem(plugin):
        raise _BadPluginError(problem)
    return plugin


def _place(point: metadata.EntryPoint) -> str:
    origin = f"{point.dist.name} {point.dist.version}, " if point.dist else ""
    return f"{origin}entry point {point.name} = {point.value}"


DIGEST_LENGTH = 12
"""In hexadecimal digits: enough to tell apart the configurations that one cluster ever sees."""


def digest(policy: Policy, settings: Settings) -> str:
    """Return the digest of what decides, as hexadecimal digits.

    By it instances of one scheduler notice that their configurations differ: the leader writes it
    into the annotations of its Lease. What decides are actions, plugins, their arguments (with
    defaults, so that a default written out makes no difference), the rules of a compatibility
    mode, and the flags with which a cycle would decide otherwise.
    """
    content = {
        "actions": [
            [action.action.name, _arguments(action.action.arguments, action.arguments)]
            for action in policy.actions
        ],
        "tiers": [[_plugin_digest(each) for each in tier] for tier in policy.tiers],
        "rules": type(policy.rules).__name__,
        "hard topology waits": policy.hard_topology_waits,
        "flags": {
            "claim-unowned-podgroups": settings.claim_unowned,
            "default-queue": settings.default_queue,
            "node-selector": sorted(settings.node_selector),
            "podgroups": settings.spares_groups(policy.rules),
            "priority-class": settings.priority_classes,
            **{name: getattr(settings.most, name) for name in settings.most.__struct_fields__},
        },
    }
    text = json.dumps(_plain(content), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def _plugin_digest(setting: PluginSetting) -> list[object]:
    arguments = _arguments(setting.plugin.arguments, setting.arguments)
    return [setting.plugin.name, arguments, sorted(setting.off)]


def _arguments(declared: Mapping[str, Argument], given: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments in force; a declared name ending in `*` has no default of its own."""
    defaults = {name: each.default for name, each in declared.items() if name[-1:] != "*"}
    return {**defaults, **given}


def _plain(value: object) -> object:
    """Return the value as it is written as JSON: 1.0 is 1, and names are text."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
