import subprocess
import sys

import pytest

from vscheduler.cli import main

STRANGERS = {
    "run": ("vscheduler.cli.scene", "vscheduler.sandbox"),
    "queue": ("kubernetes", "aiohttp", "vscheduler.daemon.application", "vscheduler.core.cycle"),
}
"""By command, what it has no use for. kopf brings pykube along wherever it is installed."""


@pytest.mark.parametrize("command", STRANGERS)
def test_a_command_imports_only_what_it_needs(command: str) -> None:
    """The daemon starts without the demo, the commands for people without the daemon."""
    script = (
        "import sys; from vscheduler.cli import main; "
        f"main.vscheduler.commands[{command!r}]; print(*sys.modules)"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    modules = set(done.stdout.split())
    assert main.MODULES[command] in modules
    assert modules.isdisjoint(STRANGERS[command])


def test_all_commands_are_known_before_they_are_imported() -> None:
    """What --help and a wrong word need."""
    commands = main.Lazily({"nowhere": "vscheduler.cli.nowhere"})
    assert (list(commands), len(commands), "nowhere" in commands) == (["nowhere"], 1, True)
    with pytest.raises(ModuleNotFoundError):
        commands["nowhere"]
