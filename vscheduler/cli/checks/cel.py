"""An interpreter for the subset of CEL used in the CRDs' validation rules, so that no rule is
duplicated in Python.

Only creation is checked: no earlier object exists. A rule beyond the subset raises CelError when
compiled; a test compiles all shipped rules. Libraries for CEL (cel-python,
common-expression-language) lack optional fields, which our rules use.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, total_ordering
from typing import Any, TypeAlias

import msgspec

from vscheduler.mirror.decode import quantities
from vscheduler.mirror.decode.quantities import QuantityError

Variables: TypeAlias = Mapping[str, Any]
Program: TypeAlias = Callable[[Variables], Any]

_TOKEN = re.compile(
    r"\s*(?P<text>'(?:\\.|[^'\\])*'|[0-9]+|[A-Za-z_]\w*|==|!=|<=|>=|&&|\|\||[.]\?|\S)"
)
_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "in": lambda left, right: left in right,
}


DEPTH_MAX = 30
"""Maximal nesting of brackets, negations and conditionals; the shipped rules need six."""

TOKENS_MAX = 2000
"""Maximal number of tokens in an expression, and thereby of chained field accesses."""

_VALUELESS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    re.error,
)
"""Python's errors for missing fields and for operands of incompatible types."""


_ESCAPES: Mapping[str, str] = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}
_TEXT = re.compile(r"""'(?:\\[\\'"nrt]|[^'\\])*'""")
DIGITS_MAX = 18
"""Maximal number of digits, so that a number has at most 64 bits."""


class CelError(ValueError):
    """An expression that can't be compiled or evaluated."""


@total_ordering
class Quantity(msgspec.Struct, frozen=True):
    """A quantity, comparable across units."""

    whole: int
    milli: int

    def __lt__(self, other: "Quantity") -> bool:
        return (self.whole, self.milli) < (other.whole, other.milli)


class Absent:
    """The missing earlier object, at creation."""


ABSENT = Absent()


@lru_cache(maxsize=256)
def compiled(text: str) -> Program:
    """Compile an expression to a function of its variables.

    Raises CelError, and so does the function when the expression has no value.
    """
    words = [found["text"] for found in _TOKEN.finditer(text)]
    if len(words) > TOKENS_MAX:
        raise CelError(f"an expression of {len(words)} words is longer than {TOKENS_MAX}")
    reader = _Reader(words)
    program = reader.choice()
    if reader.left():
        raise CelError(f"{reader.left()[0]!r} isn't understood in {text!r}")

    def valued(known: Variables) -> Any:
        try:
            return program(known)
        except _VALUELESS as error:
            message = f"{text!r} has no value: {type(error).__name__}: {error}"
            raise CelError(message) from error

    return valued


def _literal(word: str) -> int | str:
    if word[0] == "'":
        if len(word) < 2 or not _TEXT.fullmatch(word):
            raise CelError(f"{word!r} is not a string")
        return re.sub(r"\\(.)", lambda found: _ESCAPES[found[1]], word[1:-1])
    if len(word) > DIGITS_MAX:
        raise CelError(f"a number of {len(word)} digits is longer than {DIGITS_MAX}")
    return int(word)


class _Reader:
    """A recursive-descent parser from tokens to programs; each method handles operators that bind
    tighter than the previous method's.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._at = 0
        self._depth = 0

    def left(self) -> Sequence[str]:
        return self._words[self._at :]

    def choice(self) -> Program:
        with self._deeper():
            return self._chosen()

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        """Check the nesting depth while an inner expression is read."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise CelError(
                f"more than {DEPTH_MAX} brackets, negations and choices within each other"
            )
        yield
        self._depth -= 1

    def _chosen(self) -> Program:
        condition = self._either()
        if not self._take("?"):
            return condition
        yes = self.choice()
        self._need(":")
        no = self.choice()
        return lambda known: yes(known) if condition(known) else no(known)

    def _either(self) -> Program:
        parts = list(self._separated(self._both, "||"))
        return parts[0] if len(parts) == 1 else lambda known: any(part(known) for part in parts)

    def _both(self) -> Program:
        parts = list(self._separated(self._relation, "&&"))
        return parts[0] if len(parts) == 1 else lambda known: all(part(known) for part in parts)

    def _relation(self) -> Program:
        left = self._sum()
        for word, compare in _COMPARED.items():
            if self._take(word):
                right = self._sum()
                return lambda known: compare(left(known), right(known))
        return left

    def _sum(self) -> Program:
        parts = list(self._separated(self._negated, "+"))
        return parts[0] if len(parts) == 1 else lambda known: _added(parts, known)

    def _negated(self) -> Program:
        if self._take("!"):
            with self._deeper():
                inner = self._negated()
            return lambda known: not inner(known)
        return self._member()

    def _member(self) -> Program:
        value = self._primary()
        while True:
            if self._take("."):
                value = self._called(value, self._next())
            elif self._take("["):
                value = _item(value, self.choice())
                self._need("]")
            elif self._take(".?"):
                value = _optional(value, self._next())
            else:
                return value

    def _primary(self) -> Program:
        word = self._next()
        if word == "(":
            inner = self.choice()
            self._need(")")
            return inner
        if word == "[":
            items = self._arguments("]")
            return lambda known: [each(known) for each in items]
        if word[0] in "'0123456789":
            literal = _literal(word)
            return lambda _: literal
        if not word.isidentifier():
            raise CelError(f"{word!r} isn't understood")
        if not self._take("("):
            return lambda known: known[word]
        arguments = self._arguments(")")
        if word == "has":
            return _has(arguments)
        if word not in _FUNCTIONS:
            raise CelError(f"there is no function {word}")
        function = _FUNCTIONS[word]
        return lambda known: function(*(argument(known) for argument in arguments))

    def _called(self, value: Program, name: str) -> Program:
        """Return a field access, a method call, or a macro over the items of a list or the keys of
        a map.
        """
        if not self._take("("):
            return _field(value, name)
        if name in ("all", "map"):
            variable = self._next()
            self._need(",")
            *conditions, last = self._arguments(")")
            return _over(value, variable, conditions, last, every=name == "all")
        arguments = self._arguments(")")
        if name not in _METHODS:
            raise CelError(f"there is no method {name}")
        method = _METHODS[name]
        return lambda known: method(value(known), *(argument(known) for argument in arguments))

    def _arguments(self, end: str) -> list[Program]:
        if self._take(end):
            return []
        found = list(self._separated(self.choice, ","))
        self._need(end)
        return found

    def _separated(self, read: Callable[[], Program], word: str) -> Iterator[Program]:
        yield read()
        while self._take(word):
            yield read()

    def _next(self) -> str:
        if not self.left():
            raise CelError("ends too early")
        self._at += 1
        return self._words[self._at - 1]

    def _take(self, word: str) -> bool:
        found = self.left()[:1] == [word]
        self._at += found
        return found

    def _need(self, word: str) -> None:
        if not self._take(word):
            raise CelError(f"{word!r} is missing before {' '.join(self.left()[:3])!r}")


def _added(parts: Sequence[Program], known: Variables) -> Any:
    first, *others = (part(known) for part in parts)
    for other in others:
        first = first + other
    return first


class _Field:
    """Access to a field of another program's value; `has` asks whether the field exists."""

    def __init__(self, value: Program, name: str) -> None:
        self._value = value
        self._name = name

    def __call__(self, known: Variables) -> Any:
        return self._value(known)[self._name]

    def there(self, known: Variables) -> bool:
        """Whether the field has a value."""
        return self._name in self._value(known)


def _field(value: Program, name: str) -> Program:
    return _Field(value, name)


def _optional(value: Program, name: str) -> Program:
    return lambda known: value(known).get(name)


def _item(value: Program, key: Program) -> Program:
    return lambda known: value(known)[key(known)]


def _has(arguments: Sequence[Program]) -> Program:
    match arguments:
        case [_Field() as field]:
            return field.there
    raise CelError("has() is about a field")


def _over(
    value: Program, name: str, conditions: Sequence[Program], last: Program, *, every: bool
) -> Program:
    """Return `all(name, last)`, or `map(name, condition, last)`."""

    def look(known: Variables) -> Any:
        each = ({**known, name: item} for item in value(known))
        if every:
            return all(last(inside) for inside in each)
        return [last(inside) for inside in each if all(test(inside) for test in conditions)]

    return look


def _is_quantity(text: str) -> bool:
    try:
        quantities.parse_whole(text)
    except QuantityError:
        return False
    return True


def _quantity(text: str) -> Quantity:
    return Quantity(quantities.parse_whole(text), quantities.parse_milli(text))


def _matches(value: str, pattern: str) -> bool:
    with warnings.catch_warnings():
        # Python warns of sets such as "[[a]", whose meaning may change in a later version.
        warnings.simplefilter("ignore", FutureWarning)
        return re.search(pattern, value) is not None


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "isQuantity": _is_quantity,
    "quantity": _quantity,
    "size": len,
    "string": str,
}
_METHODS: Mapping[str, Callable[..., Any]] = {
    "hasValue": lambda value: value is not ABSENT,
    "isGreaterThan": lambda value, other: value > other,
    "isLessThan": lambda value, other: value < other,
    "matches": _matches,
    "size": len,
    "value": lambda value: value,
}
