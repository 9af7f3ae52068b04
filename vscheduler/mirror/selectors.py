"""Selectors: CEL expressions about devices, as in device classes and claims. Their text is bounded
before they are compiled, and their cost before they are evaluated.

Kubernetes: dynamic-resource-allocation cel. The library (cel-cpp) is imported with the first
expression, so a cluster without claims for devices never loads it.
"""

import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard

import msgspec

from vscheduler.mirror import selector_cost
from vscheduler.mirror.decode import quantities
from vscheduler.mirror.selector_cost import Reads, Tree
from vscheduler.model.devices import Answer, AttributeValue, Device, SelectorError, Version

TOKENS_MAX = 1000
"""How many words, numbers, texts and signs an expression may have."""

OPTIONAL_LOOPS_MAX = 4
"""How often it may have optMap and optFlatMap: each of them doubles what it is applied to."""

COMPILATION_MICROSECONDS = 300
TOKEN_MICROSECONDS = 25

_TOKEN = re.compile(
    r"""[bB]?[rR][bB]?(?:\"{3}.*?\"{3}|'{3}.*?'{3}|\"[^\"\n]*\"|'[^'\n]*')"""
    r"""|[bB]?(?:\"{3}(?:\\.|.)*?\"{3}|'{3}(?:\\.|.)*?'{3}|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')"""
    r"""|//[^\n]*|[A-Za-z_]\w*|\d[\w.]*|\s+|[\"'].*|.""",
    re.DOTALL,
)
"""A quote that nothing ends takes the rest, so that the time is linear."""


class Text(NamedTuple):
    """An expression as it is to be compiled."""

    text: str
    """With a default for domains that a device hasn't: in Kubernetes,
    `device.attributes["missing.example.com"]` is an empty map."""
    tokens: int
    optional_loops: int

    @property
    def compilation(self) -> int:
        """About how many microseconds the compilation takes."""
        doubled = 1 << min(self.optional_loops, OPTIONAL_LOOPS_MAX)
        return COMPILATION_MICROSECONDS + TOKEN_MICROSECONDS * self.tokens * doubled


def _tokens(expression: str) -> Iterator[str]:
    """Iterate over the tokens, without comments."""
    return (each for each in _TOKEN.findall(expression) if not each.startswith("//"))


def read_text(expression: str) -> Text:
    """Return the expression as it is to be compiled."""
    tokens = list(_tokens(expression))
    written: list[str] = []
    for at, token in enumerate(tokens):
        following = tokens[at + 1 : at + 4]
        if written[-2:] == [".", "attributes"] or written[-2:] == [".", "capacity"]:
            written.extend(_index(token, following))
        else:
            written.append(token)
    count = sum(not token.isspace() for token in tokens)
    doubling = sum(token in ("optMap", "optFlatMap") for token in tokens)
    return Text(_joined(written), count, doubling)


def _index(token: str, following: list[str]) -> Iterator[str]:
    """Iterate over the text of an opening bracket before a literal, and of any other token."""
    is_literal = len(following) > 1 and following[0][-1:] in "\"'" and following[1] == "]"
    yield "[?" if token == "[" and is_literal else token  # noqa: S105 - a bracket


def _joined(written: list[str]) -> str:
    """Return the tokens as text; an index that may be missing gets an empty map."""
    text: list[str] = []
    closing = 0
    for token in written:
        text.append(token)
        if token == "[?":  # noqa: S105 - a bracket
            closing = 2
        elif closing:
            closing -= 1
            if not closing:
                text.append(".orValue(dyn({}))")
    return "".join(text)


QUANTITY = "\ue000quantity:"
"""Marks a quantity among the texts that expressions handle: the library knows no other types of
ours. What follows is an exact fraction, so equal quantities are equal texts."""

VERSION = "\ue000semver:"
"""The same for a semantic version, without build metadata."""

LENGTH_MAX = 10 * 1024
"""Longer expressions are refused, as by API servers."""

COST_MAX = 3000
"""How many microseconds an evaluation may take (selector_cost)."""

LOOKUP_COST = 1
"""How many microseconds an answer takes for a device like one that it was evaluated for."""

KNOWN_MAX = 4096
"""How many compiled expressions are kept."""

ANSWERS_MAX = 32_768
"""How many answers are kept, of all expressions together. When full, all are dropped."""

DIGITS_MAX = 100
"""How many digits a quantity can have on either side of the point, in an expression."""

VERSION_MAX = 256
"""How many characters a semantic version can have."""

_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?",
    re.ASCII,
)


class _Compiled(msgspec.Struct, frozen=True):
    program: Any
    tree: Tree
    reads: Reads | None
    costs: dict[int, int]
    """About how many microseconds an evaluation takes, by the number of attributes or capacities
    that a device has at most, a power of two."""

    def cost_for(self, device: Device) -> int:
        """Return about how many microseconds an evaluation for this device takes."""
        number = max(len(device.attributes), len(device.capacity), 1)
        most = min(1 << (number - 1).bit_length(), selector_cost.ATTRIBUTES)
        cost = self.costs.get(most)
        if cost is None:
            cost = self.costs[most] = selector_cost.estimate(self.tree, most)
        return cost


class Selectors:
    """Compiles and evaluates expressions; see devices.Selectors.

    An expression is evaluated once for all devices between which it can't tell a difference.
    Whatever compilation or evaluation raises is the answer of that expression, a SelectorError.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Compiled | SelectorError] = {}
        self._answers: dict[tuple[str, str, Hashable], Answer] = {}
        """By expression, driver and what the expression reads of a device."""

    def answers(
        self,
        expression: str,
        driver: str,
        devices: Iterable[Device],
        most: float = math.inf,
    ) -> tuple[list[Answer], int]:
        """Return what the expression says of each device, and about how many microseconds that
        took. Once it has taken `most`, the rest is left out.
        """
        compiled, cost = self._compiled(expression)
        if isinstance(compiled, SelectorError):
            return [compiled for _ in devices], cost
        answers: list[Answer] = []
        for device in devices:
            key = expression, driver, _seen(device, compiled.reads)
            answer = self._answers.get(key)
            if answer is None:
                if len(self._answers) >= ANSWERS_MAX:
                    self._answers.clear()
                answer = self._answers[key] = _evaluated(compiled, driver, device)
                cost += compiled.cost_for(device)
            answers.append(answer)
            cost += LOOKUP_COST
            if cost >= most:
                break
        return answers, cost

    def problem(self, expression: str) -> tuple[SelectorError | None, int]:
        """Return why an expression can't be used at all, if so, and about how many microseconds it
        took to find out.
        """
        compiled, cost = self._compiled(expression)
        return (compiled if isinstance(compiled, SelectorError) else None), cost

    def _compiled(self, expression: str) -> tuple[_Compiled | SelectorError, int]:
        """Return the expression, and the microseconds that its compilation took just now."""
        compiled = self._known.get(expression)
        if compiled is not None:
            return compiled, 0
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        compiled, cost = _compile(expression)
        self._known[expression] = compiled
        return compiled, cost


def _seen(device: Device, reads: Reads | None) -> Hashable:
    """Return what an expression sees of a device; True and 1 are different."""
    if reads is None:
        every = ((name, type(value), value) for name, value in device.attributes.items())
        return frozenset(every), frozenset(device.capacity.items())
    values = [device.attributes.get(name) for name in reads.attributes]
    amounts = [device.capacity.get(name) for name in reads.capacity]
    return (*map(type, values), *values, *amounts)


def _evaluated(compiled: _Compiled, driver: str, device: Device) -> Answer:
    try:
        answer = compiled.program.eval(data={"device": _shown(driver, device, compiled.reads)})
        value = answer.value()
        if value is True or value is False:
            return bool(value)
        is_error = answer.type().name() == "ERROR"
        return SelectorError(_plain(str(value)) if is_error else NEITHER)
    except Exception as error:  # noqa: BLE001 - a text of a tenant, whatever the library makes of it
        return _as_answer(error)


NEITHER = "is neither true nor false"


def _as_answer(error: Exception) -> SelectorError:
    return SelectorError(_plain(str(error)) or type(error).__name__)


def _shown(driver: str, device: Device, reads: Reads | None) -> Mapping[str, object]:
    """Return the variable `device` of an expression, as far as it is read: what isn't makes no
    difference between devices of a kind, even if it is broken.
    """
    attributes = {
        name: _value(value)
        for name, value in device.attributes.items()
        if reads is None or name in reads.attributes
    }
    capacity = {
        name: quantity(amount)
        for name, amount in device.capacity.items()
        if reads is None or name in reads.capacity
    }
    return {
        "driver": driver,
        "attributes": _by_domain(attributes),
        "capacity": _by_domain(capacity),
        "allowMultipleAllocations": False,
    }


def _by_domain(values: Mapping[str, object]) -> dict[str, dict[str, object]]:
    domains: dict[str, dict[str, object]] = {}
    for name, value in values.items():
        domain, _, rest = name.partition("/")
        domains.setdefault(domain, {})[rest] = value
    return domains


def _value(value: AttributeValue) -> object:
    return semver(value.text) if isinstance(value, Version) else value


def _compile(expression: str) -> tuple[_Compiled | SelectorError, int]:
    """Return an expression that can be used, or why it can't, and the microseconds it took."""
    if len(expression) > LENGTH_MAX:
        return SelectorError(f"has more than {LENGTH_MAX} characters"), 0
    text = read_text(expression)
    if text.tokens > TOKENS_MAX:
        most = TOKENS_MAX
        return SelectorError(f"has {text.tokens} words and signs; at most {most} are read"), 0
    if text.optional_loops > OPTIONAL_LOOPS_MAX:
        most = OPTIONAL_LOOPS_MAX
        return SelectorError(f"has more than {most} of optMap and optFlatMap"), 0
    try:
        return _checked(_environment().compile(text.text)), text.compilation
    except Exception as error:  # noqa: BLE001 - as in `_evaluated`
        return _as_answer(error), text.compilation


def _checked(program: Any) -> _Compiled | SelectorError:
    """Return a compiled expression that can be used, or why it can't."""
    kind = program.return_type().name()
    if kind not in ("BOOL", "DYN"):
        return SelectorError(f"must be true or false, but is of type {kind.lower()}")
    tree = selector_cost.tree_of(program.serialize())
    cost = selector_cost.estimate(tree)
    if cost > COST_MAX:
        needed = "more than a second" if cost > 1_000_000 else f"{-(-cost // 1000)} ms"
        return SelectorError(
            f"may take {needed} for a device; at most {COST_MAX // 1000} ms are spent on one"
        )
    return _Compiled(program, tree, selector_cost.reads(tree), {selector_cost.ATTRIBUTES: cost})


@lru_cache(maxsize=1)
def _environment() -> Any:
    from cel_expr_python import cel  # noqa: PLC0415 - 50 MB that only clusters with claims need
    from cel_expr_python.ext import (  # noqa: PLC0415
        ext_bindings,
        ext_math,
        ext_optional,
        ext_strings,
    )

    kind = cel.Type
    types = {"dyn": kind.DYN, "int": kind.INT, "bool": kind.BOOL, "string": kind.STRING}
    types["double"] = kind.DOUBLE
    names = dict.fromkeys(name for name, *_ in _FUNCTIONS)
    functions = [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(
                    f"{name}_{'_'.join(parameters)}",
                    return_type=types[result],
                    parameters=[types[parameter] for parameter in parameters],
                    is_member=is_member,
                    impl=implementation,
                )
                for each, is_member, parameters, result, implementation in _FUNCTIONS
                if each == name
            ],
        )
        for name in names
    ]
    return cel.NewEnv(
        variables={"device": kind.DYN},
        extensions=[
            ext_bindings.ExtBindings(),
            ext_optional.ExtOptional(),
            ext_strings.ExtStrings(),
            ext_math.ExtMath(),
            cel.CelExtension("kubernetes", functions),
        ],
    )


def quantity(text: str) -> str:
    """Return a quantity as expressions handle it. Raises ValueError."""
    return _written(quantities.exact(text))


def _written(amount: Fraction) -> str:
    if abs(amount) >= _EXACT_MAX or amount.denominator >= _EXACT_MAX:
        raise ValueError(f"has more than {DIGITS_MAX} digits")
    return f"{QUANTITY}{amount.numerator}/{amount.denominator}"


_EXACT_MAX = 10**DIGITS_MAX
_QUANTITY = re.compile(
    rf"{QUANTITY}-?\d{{1,{2 * DIGITS_MAX}}}/[1-9]\d{{0,{DIGITS_MAX - 1}}}", re.ASCII
)


def semver(text: str, normalize: bool = False) -> str:
    """Return a semantic version as expressions handle it. Raises ValueError."""
    if len(text) > VERSION_MAX:
        raise ValueError(f"a version has more than {VERSION_MAX} characters")
    if normalize:
        text = _normalized(text)
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a semantic version")
    major, minor, patch, before = match.groups()
    return f"{VERSION}{major}.{minor}.{patch}" + (f"-{before}" if before else "")


def _normalized(text: str) -> str:
    """Return a version without `v`, with three numbers, and without leading zeros."""
    text = text.removeprefix("v")
    whole = re.split(r"([+-])", text, maxsplit=1)
    numbers = [each.lstrip("0") or "0" for each in whole[0].split(".")]
    numbers += ["0"] * (3 - len(numbers))
    return ".".join(numbers) + "".join(whole[1:])


def _amount(text: object) -> Fraction:
    if isinstance(text, bool | int):
        return Fraction(text)
    if not isinstance(text, str) or not _QUANTITY.fullmatch(text):  # a text may begin like one
        raise ValueError("is not a quantity")
    return Fraction(text.removeprefix(QUANTITY))


def _is_version(text: object) -> TypeGuard[str]:
    if not isinstance(text, str) or not len(VERSION) < len(text) <= VERSION_MAX + len(VERSION):
        return False
    return text.startswith(VERSION) and bool(_SEMVER.fullmatch(text.removeprefix(VERSION)))


def _order(text: object) -> tuple[object, ...]:
    """Return what compares like a quantity, or like a version."""
    if not _is_version(text):
        return (_amount(text),)
    numbers, _, before = text.removeprefix(VERSION).partition("-")
    parts = [(0, int(each), "") if each.isdecimal() else (1, 0, each) for each in before.split(".")]
    release = tuple(int(each) for each in numbers.split("."))
    return (*release, not before, tuple(parts))


def _compare(one: object, other: object) -> int:
    mine, theirs = _order(one), _order(other)
    if len(mine) != len(theirs):
        raise ValueError("a quantity can't be compared with a version")
    return (mine > theirs) - (mine < theirs)


def _as_integer(text: object) -> int:
    amount = _amount(text)
    if amount.denominator != 1 or not -(2**63) <= amount < 2**63:
        raise ValueError("cannot convert value to integer")
    return amount.numerator


def _is_integer(text: object) -> bool:
    amount = _amount(text)
    return amount.denominator == 1 and -(2**63) <= amount < 2**63


def _summed(one: object, other: object, sign: int) -> str:
    return _written(_amount(one) + sign * _amount(other))


def _sign(text: object) -> int:
    amount = _amount(text)
    return (amount > 0) - (amount < 0)


def _number(text: object, at: int) -> int:
    if not _is_version(text):
        raise ValueError("is not a semantic version")
    return int(text.removeprefix(VERSION).partition("-")[0].split(".")[at])


def _is(make: Callable[..., str]) -> Callable[..., bool]:
    """Return a function that says whether this one returns a value."""

    def is_one(*arguments: Any) -> bool:
        try:
            make(*arguments)
        except ValueError:
            return False
        return True

    return is_one


_ONE, _TWO = ("dyn",), ("dyn", "dyn")

_FUNCTIONS: tuple[tuple[str, bool, tuple[str, ...], str, Callable[..., Any]], ...] = (
    ("quantity", False, ("string",), "dyn", quantity),
    ("isQuantity", False, ("string",), "bool", _is(quantity)),
    ("semver", False, ("string",), "dyn", semver),
    ("semver", False, ("string", "bool"), "dyn", semver),
    ("isSemver", False, ("string",), "bool", _is(semver)),
    ("isSemver", False, ("string", "bool"), "bool", _is(semver)),
    ("compareTo", True, _TWO, "int", _compare),
    ("isGreaterThan", True, _TWO, "bool", lambda one, other: _compare(one, other) > 0),
    ("isLessThan", True, _TWO, "bool", lambda one, other: _compare(one, other) < 0),
    ("asInteger", True, _ONE, "int", _as_integer),
    ("isInteger", True, _ONE, "bool", _is_integer),
    ("asApproximateFloat", True, _ONE, "double", lambda one: float(_amount(one))),
    ("sign", True, _ONE, "int", _sign),
    ("add", True, _TWO, "dyn", lambda one, other: _summed(one, other, 1)),
    ("sub", True, _TWO, "dyn", lambda one, other: _summed(one, other, -1)),
    ("major", True, _ONE, "int", lambda one: _number(one, 0)),
    ("minor", True, _ONE, "int", lambda one: _number(one, 1)),
    ("patch", True, _ONE, "int", lambda one: _number(one, 2)),
)
"""Name, whether it is a method, types of parameters and result, and what it does (Kubernetes:
apiserver cel/library quantity and semverlib)."""


def _plain(error: str) -> str:
    """Return the first line of an error of the library, without its codes."""
    line = error.partition("\n")[0]
    line = re.sub(r"^(?:[A-Z_]+: )?(?:ERROR: <input>:)?", "", line)
    return re.sub(r" \(in container ''\)| \[[A-Z_]+\]$", "", line)
