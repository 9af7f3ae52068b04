"""Which requests meet which misfortune: a seeded plan, and no I/O."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

SECONDS_MAX = 60.0
"""No fault lasts longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """The request is late: it is sent on after this time, whether its sender still lives or not."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """It is sent on at once, and once more after this time, whatever the first answer was."""

    after_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reorder:
    r"""It is overtaken: held until a later request has been answered, at most for this time.

    `later` is a pattern as of a Rule's; `\1` in it is the first group of the Rule's own.
    """

    later: str
    at_most_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseRequest:
    """The connection breaks before it is sent on: nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseAnswer:
    """It is sent on and done; then the connection breaks, before a byte of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """It isn't sent on; the answer is a meta/v1 Status of this code (409, 429, 500)."""

    status: int
    retry_after_seconds: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """It is sent on and done at once; the answer, a watch's too, comes only after this time."""

    seconds: float


Fault = Delay | Duplicate | Reorder | LoseRequest | LoseAnswer | Refuse | Freeze


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Requests that a fault strikes."""

    requests: str
    """A regular expression, looked for in `METHOD /path?query`."""
    fault: Fault
    share: float = 1.0
    """The probability of it."""
    at_most: int | None = None
    """Then the rule is used up; None is never."""

    def __post_init__(self) -> None:
        """No fault without a bound."""
        match self.fault:
            case Delay(seconds=seconds) | Freeze(seconds=seconds):
                assert 0 <= seconds <= SECONDS_MAX
            case Duplicate(after_seconds=seconds) | Reorder(at_most_seconds=seconds):
                assert 0 <= seconds <= SECONDS_MAX
            case LoseRequest() | LoseAnswer() | Refuse():
                pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """The fault of one request, and what releases it where it is held."""

    fault: Fault
    later: re.Pattern[str] | None = None


class Plan:
    """Rules in order, of which the first that fits strikes.

    The same seed and the same requests in the same order meet the same faults.
    """

    def __init__(self, rules: Iterable[Rule] = (), *, seed: int = 0) -> None:
        self._rules: Sequence[Rule] = tuple(rules)
        self._patterns = [re.compile(rule.requests) for rule in self._rules]
        self._used = [0] * len(self._rules)
        self._chance = Random(seed)

    def choose(self, line: str) -> Struck | None:
        """What becomes of this request, `METHOD /path?query`; None is nothing."""
        for number, rule in enumerate(self._rules):
            found = self._patterns[number].search(line)
            if found is None or (rule.at_most is not None and self._used[number] >= rule.at_most):
                continue
            if self._chance.random() >= rule.share:
                continue
            self._used[number] += 1
            if isinstance(rule.fault, Reorder):
                return Struck(fault=rule.fault, later=_quoting(rule.fault.later, found))
            return Struck(fault=rule.fault)
        return None


def _quoting(later: str, found: re.Match[str]) -> re.Pattern[str]:
    """The later pattern with what the Rule's groups found put in."""
    text = later
    for number, group in enumerate(found.groups(), start=1):
        text = text.replace(f"\\{number}", re.escape(group or ""))
    return re.compile(text)
