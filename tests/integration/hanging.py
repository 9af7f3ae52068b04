"""A daemon that hangs at a word.

The word is in the file that FAULT names; without the file all is well. What hangs in a cycle is a
plugin of another distribution, as anybody's may be; the rest stands in for defects of our own.
"""

import asyncio
import os
import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vscheduler.core.api.contracts import Plugin

FAULT = "FAULT"
DISTRIBUTION = "hanging-1.0.dist-info"
ENTRY_POINTS = "[vscheduler.plugins]\nhanging = tests.integration.hanging:Hanging\n"
CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: hanging
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
LONG_SECONDS = 3600.0


def word() -> str:
    """What is to go wrong; empty: nothing."""
    path = Path(os.environ.get(FAULT, "/nowhere"))
    return path.read_text() if path.exists() else ""


class Hanging(Plugin):
    """A plugin of somebody else's."""

    name = "hanging"

    def overused(self, queue: Any) -> bool:
        """Nobody ever is."""
        del queue
        match word():
            case "loop":
                while True:
                    pass
            case "wait":
                threading.Event().wait()
            case "expression":
                re.match("(a+)+$", "a" * 80 + "b")
            case "exit":
                raise SystemExit(0)
            case "cancel":
                raise asyncio.CancelledError
        return False


def install(folder: Path) -> dict[str, str]:
    """Put the plugin where it is found; gives the environment of a daemon that finds it."""
    place = folder / DISTRIBUTION
    place.mkdir(parents=True)
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: hanging\nVersion: 1.0\n")
    (place / "entry_points.txt").write_text(ENTRY_POINTS)
    (folder / "scheduler.conf").write_text(CONFIGURATION)
    root = str(Path(__file__).parents[2])
    paths = [str(folder), root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _spoil() -> None:
    """Let what isn't a plugin's hang, too."""
    from vscheduler.cluster import reflector  # noqa: PLC0415 - a plugin has no need of it

    hand_on = reflector.Reflector._hand_on

    def slow_hand_on(self: Any, some: Sequence[bytes]) -> None:
        if word() == "event loop":
            time.sleep(LONG_SECONDS)
        hand_on(self, some)

    reflector.Reflector._hand_on = slow_hand_on  # type: ignore[method-assign]  # it is spoilt


def vscheduler(words: list[str], prog_name: str) -> None:
    """Run our command line, spoilt."""
    from vscheduler.cli import main  # noqa: PLC0415 - nor of this

    _spoil()
    main.vscheduler(words, prog_name=prog_name)
