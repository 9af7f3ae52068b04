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
from vscheduler.daemon import application, controller_manager
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


LATER = """
import sys
from vscheduler.cli import main, run, spared_imports
with spared_imports.spared():
    from vscheduler.daemon import application, controller_manager
from vscheduler.controllers import kopf_import
kopf_import.load()
spared = ("requests", "pydantic", "pykube", "kubernetes.client")
print(*[name for name in spared if name in sys.modules])
import kopf
print(kopf.__name__)
import pykube
from kubernetes import client
print(pykube.__name__, client.CoreV1Api.__name__)
"""


def test_kopf_is_imported_without_libraries_that_it_would_only_recognise() -> None:
    """They can be imported later."""
    done = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-c", LATER], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["", "kopf", "pykube CoreV1Api"], done.stderr


def test_the_daemon_is_imported_without_what_it_never_uses() -> None:
    """And what was left out is there for whoever wants it."""
    done = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["", "True", "CoreV1Api CoreV1Api", "False"], done.stderr
