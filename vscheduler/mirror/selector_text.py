"""Selector text: a CEL expression about devices before it is compiled."""

import re
from collections.abc import Iterator
from typing import NamedTuple

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


def read(expression: str) -> Text:
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
