"""Untrusted text made safe for terminals and logs: invisible characters are shown as escapes.

Names and messages may contain anything: terminal escapes that colour or clear the screen, a
carriage return that hides printed text, a newline that forges a log line, marks that reverse the
writing direction.
"""

import unicodedata
from collections.abc import Callable

HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of invisible characters: controls (newlines included), format characters such
as direction marks, surrogates, line and paragraph separators.
"""


def is_hidden(character: str) -> bool:
    """Whether the character has an effect instead of a visible shape."""
    return not character.isprintable() and unicodedata.category(character) in HIDDEN


def shown(text: str, *, code: Callable[[str], str] | None = None) -> str:
    r"""Return the text on a single line, with escapes such as `\x1b`, `\n` and `\u202e` in place of
    invisible characters.

    `code` returns the escape of a character; the default is Python's.
    """
    if text.isprintable():
        return text
    code = code or _code
    return "".join(code(each) if is_hidden(each) else each for each in text)


def shown_lines(text: str, *, code: Callable[[str], str] | None = None) -> str:
    """Return text like `shown`, but keep newlines."""
    return "\n".join(shown(line, code=code) for line in text.split("\n"))


def json_code(character: str) -> str:
    r"""Return the JSON escape of a character: `\u001b`, or two escapes for a character beyond 16
    bits.
    """
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _code(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
