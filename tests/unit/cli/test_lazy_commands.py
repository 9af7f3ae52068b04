import subprocess
import sys

import pytest

from vscheduler.cli import main
from vscheduler.cli.lazy_commands import Lazily, Place

STRANGERS = {
    "run": ("rich", "sandbox", "vscheduler.cli.tables"),
    "queue": ("kubernetes", "aiohttp", "vscheduler.daemon.application", "vscheduler.core.cycle"),
}
"""By command, what it has no use for. kopf brings pykube along wherever it is installed."""

HEAVY = (
    *("aiohttp", "asyncio", "cryptography", "kopf", "kubernetes", "numpy"),
    *("prometheus_client", "pykube", "requests", "rich", "structlog", "urllib3", "uvloop", "yaml"),
    *("vscheduler.cluster", "vscheduler.controllers", "sandbox"),
    *("vscheduler.daemon.configuration", "vscheduler.mirror.decode", "vscheduler.simulator"),
)
"""What takes time to import, and nobody's help needs."""

OFFLINE_STRANGERS = (
    *("aiohttp", "cryptography", "kopf", "kubernetes", "prometheus_client", "pykube", "structlog"),
    *("urllib3", "uvloop", "vscheduler.cluster", "vscheduler.daemon.application"),
)
"""What is for clusters alone."""

GIVEN = """
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: gold}
spec: {weight: 1}
"""


@pytest.mark.parametrize("command", STRANGERS)
def test_a_command_imports_only_what_it_needs(command: str) -> None:
    """The daemon starts without tables, the commands for people without the daemon."""
    modules = _imported(
        f"from vscheduler.cli import main; main.vscheduler.commands[{command!r}]", command
    )
    assert main.COMMANDS[command].module in modules
    assert modules.isdisjoint(STRANGERS[command])


@pytest.mark.parametrize("words", [(), ("check",), ("run",), ("simulate",)])
def test_help_imports_the_flags_and_nothing_else(words: tuple[str, ...]) -> None:
    """Somebody waits for it."""
    modules = _imported("from vscheduler.__main__ import main; main()", *words, "--help")
    assert modules.isdisjoint(HEAVY)
    assert {place.module for name, place in main.COMMANDS.items() if name not in words}.isdisjoint(
        modules
    )


@pytest.mark.parametrize("command", ["check", "simulate"])
def test_commands_without_a_cluster_import_nothing_that_is_for_one(command: str) -> None:
    """Neither the client library nor the daemon."""
    modules = _imported("from vscheduler.__main__ import main; main()", command, "-", text=GIVEN)
    assert "vscheduler.simulator.run" in modules
    assert modules.isdisjoint(OFFLINE_STRANGERS)


def test_the_list_of_commands_has_their_own_lines() -> None:
    """However wide the terminal is, it says what it would say if all were imported."""
    commands = Lazily(main.COMMANDS)
    listed = commands.listed()
    assert list(listed) == list(commands)
    for name, command in commands.items():
        for limit in range(30, 100):
            shown = listed[name].get_short_help_str(limit)
            assert shown == command.get_short_help_str(limit)


def test_all_commands_are_known_before_they_are_imported() -> None:
    """What --help and a wrong word need."""
    commands = Lazily({"nowhere": Place("vscheduler.cli.nowhere")})
    assert (list(commands), len(commands), "nowhere" in commands) == (["nowhere"], 1, True)
    with pytest.raises(ModuleNotFoundError):
        commands["nowhere"]


def _imported(statement: str, *words: str, text: str = "") -> set[str]:
    """The modules of a process that has run this, with these arguments."""
    script = (
        "import sys\ntry:\n    " + statement.replace("; ", "\n    ") + "\n"
        "finally:\n    print('\\n' + ' '.join(sys.modules))"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", script, *words],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())
