"""The scheduler configuration file → Policy, or all its problems with their places."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vscheduler.core import actions, plugins
from vscheduler.core.framework import findings, policy
from vscheduler.mirror import documents


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


def load(path: str) -> Loaded:
    """Read and check a configuration file; the built-in one where path is empty.

    Raises ConfigurationError with all that is wrong with it.
    """
    if not path:
        return Loaded(policy=policy.built_in(plugins.PLUGINS, actions.ACTIONS))
    try:
        text = Path(path).read_text(encoding="utf-8")
        found = documents.load(text, path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError([f"{path}: {error}"]) from error
    except documents.DocumentError as error:
        raise ConfigurationError([str(error)]) from error
    if len(found) != 1:
        raise ConfigurationError([f"{path}: one document is needed, there are {len(found)}"])
    (document,) = found
    parsed = policy.parse(document.content, plugins.PLUGINS, actions.ACTIONS)

    def placed(problems: Sequence[findings.Problem]) -> tuple[str, ...]:
        return tuple(f"{document.place(each.path)}: {each}" for each in problems)

    if parsed.policy is None:
        raise ConfigurationError(placed(parsed.problems))
    return Loaded(policy=parsed.policy, warnings=placed(parsed.warnings))
