"""What the daemon imports only when it is used."""

import subprocess
import sys

RARE = ("vscheduler.web.server", "vscheduler.simulator", "vscheduler.explain", "cel_expr_python")
"""Of the page, of questions about what would help a job, and of claims for devices."""
DATACLASSES_MAX = 20
"""Each takes about a millisecond to define, and a Struct a thirtieth of it (decision 29)."""
COUNTING = f"""
import dataclasses, sys
from vscheduler.daemon import application, scheduler_process
print(*[name for name in {RARE} if name in sys.modules])
modules = [each for name, each in sys.modules.items() if name.startswith("vscheduler")]
values = {{each for module in modules for each in vars(module).values() if isinstance(each, type)}}
print(sum(dataclasses.is_dataclass(each) for each in values))
"""


def outcome(script: str) -> list[str]:
    """What a fresh Python prints."""
    done = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    return [*done.stdout.splitlines(), *done.stderr.splitlines()]


def test_a_start_imports_no_page_and_defines_hardly_a_dataclass() -> None:
    """Each start pays for what is imported, also in a cluster that never uses it."""
    rare, dataclasses = outcome(COUNTING)
    assert rare == ""
    assert 0 < int(dataclasses) <= DATACLASSES_MAX
