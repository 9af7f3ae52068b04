"""Selector text: what can be known of a CEL expression about devices without evaluating it."""

import re
from collections.abc import Iterator, Sequence

import msgspec

LOOPS = ("all", "exists", "exists_one", "existsOne", "filter", "map")

_TOKEN = re.compile(
    r"""[rRbB]{0,2}(?:\"{3}.*?\"{3}|'{3}.*?'{3}|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')"""
    r"""|//[^\n]*|[A-Za-z_]\w*|\d[\w.]*|\s+|.""",
    re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_LITERAL = re.compile(r"""\"[^\"\\]*\"|'[^'\\]*'""")


class Reads(msgspec.Struct, frozen=True):
    """The attributes and capacities of a device that an expression can depend on, beside the
    driver; as `domain/name`.
    """

    attributes: tuple[str, ...]
    capacity: tuple[str, ...]


def reads(expression: str) -> Reads | None:
    """Return what the expression reads of a device; None if this can't be told, and everything
    counts.

    It can where each mention of `device` goes on with one literal name:
    `device.attributes["gpu.example.com"].model`.
    """
    tokens = [each for each in _tokens(expression) if not each.isspace()]
    found: dict[str, set[str]] = {"attributes": set(), "capacity": set()}
    for at, token in enumerate(tokens):
        if token != "device":  # noqa: S105 - the variable
            continue
        dot, field = (*tokens[at + 1 : at + 3], "", "")[:2]
        if dot == "." and field in ("driver", "allowMultipleAllocations"):
            continue
        name = _literal_name(tokens[at + 3 : at + 10])
        if dot != "." or field not in found or name is None:
            return None
        found[field].add(name)
    return Reads(tuple(sorted(found["attributes"])), tuple(sorted(found["capacity"])))


def _literal_name(tokens: Sequence[str]) -> str | None:
    """Return `domain/name` of tokens that begin with `["domain"].name` or `["domain"]["name"]`."""
    opening, domain, closing, joint, name, *rest = (*tokens, *[""] * 7)
    if (opening, closing) != ("[", "]") or not _LITERAL.fullmatch(domain):
        return None
    if joint == "." and _NAME.fullmatch(name) and rest[0] != "(":
        return f"{domain[1:-1]}/{name}"
    if joint == "[" and _LITERAL.fullmatch(name) and rest[0] == "]":
        return f"{domain[1:-1]}/{name[1:-1]}"
    return None


def _tokens(expression: str) -> Iterator[str]:
    """Iterate over the tokens, without comments."""
    return (each for each in _TOKEN.findall(expression) if not each.startswith("//"))


def read(expression: str) -> tuple[str, int, int]:
    """Return the expression with a default for domains that a device hasn't, the number of its
    loops, and how deeply they are nested.

    In Kubernetes, `device.attributes["missing.example.com"]` is an empty map.
    """
    tokens = list(_tokens(expression))
    written: list[str] = []
    open_: list[bool] = []
    loops = depth = 0
    for at, token in enumerate(tokens):
        if token == "(":  # noqa: S105 - a parenthesis
            is_loop = bool(written) and written[-1] in LOOPS and written[-2:-1] == ["."]
            open_.append(is_loop)
            loops += is_loop
            depth = max(depth, sum(open_))
        elif token == ")" and open_:  # noqa: S105 - a parenthesis
            open_.pop()
        following = tokens[at + 1 : at + 4]
        if written[-2:] == [".", "attributes"] or written[-2:] == [".", "capacity"]:
            written.extend(_index(token, following))
        else:
            written.append(token)
    return _joined(written), loops, depth


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
