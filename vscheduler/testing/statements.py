"""What stands in a picture: statements, their settings, and the words for a job's pods."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

KEYWORDS = ("node", "queue", "job", "budget", "quota", "hypernode")
"""What a statement starts with, in the order in which the objects are drawn."""

SHORT = {"gpu": "nvidia.com/gpu"}
"""Resources with a short name in pictures."""

FLAGS = {"cordoned", "unready"}
"""Settings of nodes that have no value."""

REPEATED = {
    *("label", "annotation", "taint", "select", "prefer", "tolerate", "port"),
    *("near", "apart", "like", "dislike", "spread", "even"),
}


class ImpossibleError(ValueError):
    """The picture shows a cluster that can't exist; the message names the object."""


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """One object of a picture: its settings by name, and the words after them."""

    keyword: str
    name: str
    settings: Mapping[str, list[str]]
    pods: Sequence[str] = ()

    def one(self, setting: str, default: str = "") -> str:
        """The value of a setting that is given at most once."""
        return self.settings.get(setting, [default])[0]

    def many(self, setting: str) -> list[str]:
        """The values of a setting that may be repeated."""
        return self.settings.get(setting, [])

    def amounts(self, known: set[str]) -> dict[str, str]:
        """All settings that aren't known ones: resources."""
        return {
            SHORT.get(name, name): values[0]
            for name, values in self.settings.items()
            if name not in known
        }


WORD = re.compile(r"((?P<role>[^:]+):)?(?P<place>[^@^]+)(@(?P<cpu>[^^]+))?(\^(?P<priority>\d+))?")


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of a job, as its word has it."""

    name: str
    role: str
    place: str
    """`-`, `!`, or a node with or without its sign."""
    request: Mapping[str, str]
    priority: str

    @classmethod
    def read(cls, name: str, word: str, request: Mapping[str, str]) -> "Word":
        """The pod `name`, which asks for what its job says where the word says nothing else."""
        found = WORD.fullmatch(word)
        if found is None:
            raise ImpossibleError(f"pod {name}: can't read {word!r}")
        return cls(
            name=name,
            role=found["role"] or "",
            place=found["place"],
            request={**request, "cpu": found["cpu"]} if found["cpu"] else request,
            priority=found["priority"] or "",
        )

    @property
    def node(self) -> str:
        """The node that it is on; empty where it waits."""
        return self.place.lstrip("-!+~")


def read(picture: str) -> Iterator[Statement]:
    """The statements of a picture, as they stand there."""
    words = [word for line in picture.splitlines() for word in line.partition("#")[0].split()]
    starts = [at for at, word in enumerate(words) if word in KEYWORDS]
    if words and starts[:1] != [0]:
        raise ImpossibleError(f"a picture starts with {', '.join(KEYWORDS)}, not {words[0]!r}")
    for start, end in itertools.pairwise([*starts, len(words)]):
        keyword, *rest = words[start:end]
        if not rest:
            raise ImpossibleError(f"{keyword} without a name")
        yield _statement(keyword, rest[0], rest[1:])


def _statement(keyword: str, name: str, rest: Sequence[str]) -> Statement:
    flags = FLAGS if keyword == "node" else set()
    settings: dict[str, list[str]] = {}
    pods: list[str] = []
    for word in rest:
        setting, equals, value = word.partition("=")
        if equals or setting in flags:
            if setting in settings and setting not in REPEATED:
                raise ImpossibleError(f"{keyword} {name}: {setting} is set twice")
            settings.setdefault(setting, []).append(value)
        elif keyword == "job":
            pod, _, times = word.partition("*")
            pods += [pod] * int(times or 1)
        else:
            raise ImpossibleError(f"{keyword} {name}: {word!r} is no setting")
    return Statement(keyword=keyword, name=name, settings=settings, pods=pods)


def pairs(texts: Sequence[str]) -> dict[str, str]:
    """`zone=a` → {"zone": "a"}."""
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def amounts_of(text: str) -> dict[str, str]:
    """`cpu:2,gpu:1` → {"cpu": "2", "nvidia.com/gpu": "1"}."""
    pairs = (item.partition(":") for item in text.split(",") if item)
    return {SHORT.get(key, key): value for key, _, value in pairs}
