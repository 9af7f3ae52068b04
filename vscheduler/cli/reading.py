"""Reads manifests from files, directories and stdin, with the line of each object."""

import gc
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from vscheduler.cli import screen
from vscheduler.mirror.decode import documents
from vscheduler.mirror.decode.documents import Document, DocumentError
from vscheduler.simulator.manifests import Manifest

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = Path("-")


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep the garbage collector from what is read within this context, then and later: it stays
    until the end of the command, and there is much of it.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def read(paths: Iterable[Path]) -> list[Manifest]:
    """Return all documents. A directory stands for the manifests directly in it, as with kubectl.

    Ends the command with all problems if any file can't be read.
    """
    found, problems = read_what_can_be(paths)
    if problems:
        screen.fail(problems)
    return found


def read_what_can_be(paths: Iterable[Path]) -> tuple[list[Manifest], list[str]]:
    """Return the documents of all readable files, and a sentence for each unreadable file."""
    found: list[Manifest] = []
    problems: list[str] = []
    for path in paths:
        files = [path]
        if path != STDIN and path.is_dir():
            files = sorted(each for each in path.iterdir() if each.suffix in SUFFIXES)
            if not files:
                problems.append(f"{path}: no file in it ends in {', '.join(SUFFIXES)}")
        for file in files:
            try:
                found += _documents(_text(file), "stdin" if file == STDIN else str(file))
            except DocumentError as error:
                problems.append(str(error))
            except (OSError, UnicodeDecodeError) as error:
                problems.append(f"{file}: {error}")
    return found, problems


def _text(path: Path) -> str:
    return sys.stdin.read() if path == STDIN else path.read_text(encoding="utf-8")


def _documents(text: str, name: str) -> list[Manifest]:
    """Return the documents of a file. JSON is parsed as JSON: much faster, but without line
    numbers.
    """
    if text.lstrip().startswith("{"):
        with suppress(json.JSONDecodeError, RecursionError):
            tree = _parsed(text)
            whole = Document(source=name, content=tree, lines=1)
            return [Manifest(tree=tree, document=whole)]
    return [
        Manifest(tree=document.content, document=document)
        for document in documents.load(text, name)
    ]


def _parsed(text: str) -> Any:
    """Return JSON as plain data. Raises json.JSONDecodeError."""
    try:
        return msgspec.json.decode(text)
    except ValueError:  # Python also reads what is almost JSON
        return _repaired(json.loads(text))


def _repaired(tree: Any) -> Any:
    """Return a tree with U+FFFD in place of halves of UTF-16 surrogate pairs, as an API server
    stores it.
    """
    match tree:
        case str():
            return tree.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {_repaired(key): _repaired(value) for key, value in tree.items()}
        case list():
            return [_repaired(each) for each in tree]
    return tree
