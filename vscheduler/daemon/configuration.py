"""The scheduler configuration file → Policy, or all its problems with their places."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vscheduler.core import actions, plugins
from vscheduler.core.config import policy, validation
from vscheduler.daemon import extensions
from vscheduler.mirror.decode import documents


class ConfigurationError(Exception):
    """Every problem of a configuration, each with its place: `file.yaml:12: …`."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A configuration that can be used."""

    policy: policy.Policy
    warnings: tuple[str, ...] = ()
    path: str = ""
    """The file; empty for the built-in configuration."""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A configuration as it was written, and what is to be said of it."""

    document: documents.Document
    parsed: policy.Parsed

    def placed(self, problems: Sequence[validation.Problem]) -> tuple[str, ...]:
        """Each with its place: `file.yaml:12: …`."""
        return tuple(f"{self.document.place(each.path)}: {each}" for each in problems)


def load(path: str) -> Loaded:
    """Read and check a configuration file; the built-in one where path is empty.

    Raises ConfigurationError with all that is wrong with it, or with installed plugins.
    """
    if path:
        return parse(read(path), path)
    known = _known()
    return Loaded(policy=policy.built_in(known, actions.ACTIONS))


def read(path: str) -> str:
    """The text of a configuration file. Raises ConfigurationError."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError([f"{path}: {error}"]) from error


def parse(text: str, path: str) -> Loaded:
    """Check the text of a configuration file. Raises ConfigurationError."""
    examined = examine(text, path)
    parsed = examined.parsed
    if parsed.policy is None:
        raise ConfigurationError(examined.placed(parsed.problems))
    warnings = examined.placed(parsed.warnings)
    return Loaded(policy=parsed.policy, warnings=warnings, path=path, text=text)


def examine(text: str, path: str) -> Examined:
    """What is to be said of the text of a configuration file, problems and warnings alike.

    Raises ConfigurationError where it isn't one document of YAML, or where installed plugins are
    wrong.
    """
    known = _known()
    try:
        found = documents.load(text, path)
    except documents.DocumentError as error:
        raise ConfigurationError([str(error)]) from error
    if len(found) != 1:
        raise ConfigurationError([f"{path}: one document is needed, there are {len(found)}"])
    (document,) = found
    parsed = policy.parse(document.content, known, actions.ACTIONS)
    return Examined(document=document, parsed=parsed)


def _known() -> policy.Plugins:
    """Our own plugins and those of other packages."""
    found = extensions.installed()
    if found.problems:
        raise ConfigurationError(found.problems)
    return (*plugins.PLUGINS, *found.plugins)
