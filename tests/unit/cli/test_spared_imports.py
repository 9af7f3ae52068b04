"""What the daemon's imports leave out."""

import subprocess
import sys

STRANGERS = ("requests", "rich", "oauthlib", "websocket", "kubernetes.client", "kopf")
SCRIPT = f"""
import os, sys
before = os.environ.get("SSL_CERT_FILE")
from vscheduler.cli import lazy_commands, main, run, spared_imports
with spared_imports.spared():
    from vscheduler.daemon import startup
light = set(sys.modules)
from vscheduler.daemon import application, scheduler_process, controllers_api
assert light.isdisjoint(("numpy", "pydantic", "prometheus_client", "vscheduler.core.cycle"))
print(*[name for name in {STRANGERS} if name in sys.modules])
print(os.environ.get("SSL_CERT_FILE") == before)
import rich.console
import kubernetes
print(kubernetes.client.CoreV1Api.__name__, kubernetes.aio.client.CoreV1Api.__name__)
from kubernetes.aio.config import kube_config
from kubernetes.aio.client import ApiClient, Configuration
assert isinstance(kube_config.ApiClient(Configuration()), ApiClient)
print(hasattr(kubernetes, "nonsense"))
"""


RARE = ("vscheduler.web.server", "vscheduler.simulator", "vscheduler.explain", "cel_expr_python")
"""Of the page, of questions about what would help a job, and of claims for devices."""
DATACLASSES_MAX = 20
"""Each takes about a millisecond to define, and a Struct a thirtieth of it (decision 29)."""
COUNTING = f"""
import dataclasses, sys
from vscheduler.cli import spared_imports
with spared_imports.spared():
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


def test_the_daemon_is_imported_without_what_it_never_uses() -> None:
    """And what was left out is there for whoever wants it."""
    assert outcome(SCRIPT) == ["", "True", "CoreV1Api CoreV1Api", "False"]


def test_a_start_imports_no_page_and_defines_hardly_a_dataclass() -> None:
    """Each start pays for what is imported, also in a cluster that never uses it."""
    rare, dataclasses = outcome(COUNTING)
    assert rare == ""
    assert 0 < int(dataclasses) <= DATACLASSES_MAX
