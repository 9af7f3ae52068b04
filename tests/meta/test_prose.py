"""The pages read as an engineer would say them aloud.

A small linter: phrases that hide who does something, and sentences that nobody can say in one
breath. Code, tables and addresses of links aren't prose.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documented import PAGES

RULES = {
    r"\bwhoever\b": "name who: an administrator, a pod, a process",
    r"\bnobody is told\b": "say who tells whom",
    r"\b(?:is|are) told\b": "say who tells whom, or where it stands",
    r"\ball the same\b": "say anyway, or name what is the same",
    r"\bnevertheless\b": "say anyway",
    r"\balike\b": "say equal, or the same for",
    r"\bin vain\b": "say what failed",
    r"\bas ever\b": "say what stays as it was",
    r"\bwhat cycles found out\b": "say what cycles decided",
    r"\bleads to [\d,]+ calls\b": "say makes … calls",
    r"\bgets? other ones\b": "name what it gets",
    r"\bsomebody\b": "name who: a user, an administrator, another scheduler",
    r"\bbut for\b": "say except",
    r"\bmay have no more\b": "say has reached its limit",
    r"\b(?:comes? to|at) rest\b": "say settles, idle, or in which nothing changes",
    r"\btells? why\b": "say says why",
    r"\b(?:is|are) known to\b": "say who knows what",
    r"\bnothing of (?:it|this|that)\b": "say none of, or name what is gone",
    r"\bowed\b": "name it: the queue's share, its demand within its share",
}
"""By phrase, what to write instead."""

NAMES = {
    "glossary.md": (r"\balike\b",),  # a word of the code
}
"""By page, rules that don't hold there."""

WORDS_MAX = 60
SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+")
PARAGRAPH_END = re.compile(r"\n\s*\n|\n\s*(?=[-*] |\d+\. )")


def prose(text: str) -> str:
    """A page without code, tables, headings and links."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^ *(?:\||#).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"!?\[[^\]]*\]\([^)]*\)", "link", text)
    return re.sub(r"`[^`]*`", "code", text)


def sentences(text: str) -> Iterator[str]:
    """All sentences of a page; what stands before a colon counts as one."""
    for paragraph in PARAGRAPH_END.split(prose(text)):
        every = (" ".join(each.split()) for each in SENTENCE_END.split(paragraph))
        yield from filter(None, every)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_phrases_say_who_does_what(name: str) -> None:
    """Each rule has an example of what is better."""
    found = []
    for sentence in sentences(Path(PAGES[name]).read_text()):
        for pattern, better in RULES.items():
            match = re.search(pattern, sentence, re.IGNORECASE)
            if match and pattern not in NAMES.get(name, ()):
                found.append(f"{match[0]}: {better}: {sentence}")
    assert found == []


@pytest.mark.parametrize("name", sorted(PAGES))
def test_sentences_can_be_said_in_one_breath(name: str) -> None:
    """One idea each."""
    long = [
        each for each in sentences(Path(PAGES[name]).read_text()) if len(each.split()) > WORDS_MAX
    ]
    assert long == []


def test_the_linter_sees_what_it_should() -> None:
    """And no more: code and tables may be as they are."""
    code = "# Whoever\n| whoever |\n```\nwhoever\n```\n"
    text = f"{code}A `whoever` b. Whoever is killed; [whoever](x) waits."
    assert list(sentences(text)) == ["A code b.", "Whoever is killed;", "link waits."]
