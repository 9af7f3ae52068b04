"""Text of others' made harmless for a screen or a log: what isn't a character shows as its code.

Names and messages can hold anything: escapes that colour or clear a terminal, a carriage return
that hides what was printed, a newline that forges a line, marks that turn the direction of writing.
"""

import unicodedata
from collections.abc import Callable

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of what is no visible character: controls (newlines are), marks such as
those for the direction of writing, halves of surrogate pairs, separators of lines."""


def is_hidden(character: str) -> bool:
    """Whether it does something other than to be seen."""
    return not character.isprintable() and unicodedata.category(character) in HIDDEN


def shown(text: str, *, code: Callable[[str], str] | None = None) -> str:
    r"""The text in one line, with `\x1b`, `\n`, `\u202e` and the like in place of what is hidden.

    code gives what is shown for a hidden character; else it is as in Python.
    """
    if text.isprintable():
        return text
    code = code or _code
    return "".join(code(each) if is_hidden(each) else each for each in text)


def shown_lines(text: str, *, code: Callable[[str], str] | None = None) -> str:
    """The same for text that may have lines: newlines stay."""
    return "\n".join(shown(line, code=code) for line in text.split("\n"))


def json_code(character: str) -> str:
    r"""What a JSON text has for a character: `\u001b`, or two of these beyond 16 bits."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _code(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
