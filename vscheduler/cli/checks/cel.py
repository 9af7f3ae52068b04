"""Validation rules of the CRDs, judged by the CEL team's library, so that no rule is duplicated in
Python.

The library doesn't have Kubernetes' own functions. Those that shipped rules and admission policies
use are declared here, and a test compiles all of them. Only creation is judged: there is no earlier
object.
"""

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from vscheduler.mirror.decode import quantities
from vscheduler.mirror.decode.quantities import AMOUNT_MAX, QuantityError

Program: TypeAlias = Callable[[Any], Any]


class CelError(ValueError):
    """A rule that can't be compiled or has no value."""


@lru_cache(maxsize=256)
def compiled(rule: str) -> Program:
    """Return a function from `self` to the value of a rule or of a message.

    Raises CelError, and so does the function when the rule has no value.
    """
    try:
        program = environment("self").compile(f"cel.bind(oldSelf, optional.none(), {rule})")
    except Exception as error:  # the library declares none
        raise CelError(_first_line(error)) from error

    def valued(this: Any) -> Any:
        try:
            answer = program.eval(data={"self": this})
            value = answer.value()
        except Exception as error:
            raise CelError(_first_line(error)) from error
        if answer.type().name() == "ERROR":
            raise CelError(_first_line(value))
        return value

    return valued


@lru_cache(maxsize=2)
def environment(*variables: str) -> Any:
    """Return what compiles expressions about these variables, of any type."""
    from cel_expr_python import cel  # noqa: PLC0415 - 50 MB that only checks of CRDs need
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings  # noqa: PLC0415

    kind = cel.Type
    types = {"any": kind.DYN, "bool": kind.BOOL, "list": kind.List(kind.DYN), "text": kind.STRING}
    functions = [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(
                    name,
                    return_type=types[result],
                    parameters=[types[each] for each in parameters],
                    is_member=is_member,
                    impl=implementation,
                )
            ],
        )
        for name, is_member, parameters, result, implementation in _FUNCTIONS
    ]
    return cel.NewEnv(
        variables=dict.fromkeys(variables, kind.DYN),
        extensions=[
            ext_bindings.ExtBindings(),
            ext_optional.ExtOptional(),
            ext_strings.ExtStrings(),
            cel.CelExtension("kubernetes", functions),
        ],
    )


def _first_line(error: object) -> str:
    return str(error).partition("\n")[0]


def _is_quantity(text: str) -> bool:
    try:
        quantities.exact(text)
    except QuantityError:
        return False
    return True


def _quantity(text: str) -> str:
    """Return a quantity as expressions handle it: as a fraction, so that equal ones are equal."""
    return str(max(-AMOUNT_MAX, min(AMOUNT_MAX, quantities.exact(text))))


def _compared(compare: Callable[[Fraction, Fraction], bool]) -> Callable[[str, str], bool]:
    return lambda one, other: compare(Fraction(one), Fraction(other))


_FUNCTIONS: Sequence[tuple[str, bool, Sequence[str], str, Callable[..., Any]]] = (
    ("isQuantity", False, ("text",), "bool", _is_quantity),
    ("quantity", False, ("text",), "any", _quantity),
    ("isGreaterThan", True, ("any", "any"), "bool", _compared(operator.gt)),
    ("isLessThan", True, ("any", "any"), "bool", _compared(operator.lt)),
    ("min", True, ("list",), "any", min),
)
"""Name, whether it is a method, types of parameters and result, and what it does (Kubernetes:
apiserver cel/library quantity and lists)."""
