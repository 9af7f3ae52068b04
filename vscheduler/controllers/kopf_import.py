"""Import of Kopf without the client libraries whose objects it would recognise in handlers.

Kopf imports pykube and the models of the kubernetes client, with requests, OAuth and pydantic, in
case an operator uses them: two thirds of the CPU of importing Kopf, in the first second after every
start and takeover. Nothing here hands such objects to Kopf, which works without the libraries.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager

OPERATOR = "vscheduler.controllers.operator"

UNUSED = ("pykube", "kubernetes.client")


def load() -> None:
    """Import the module `operator`, and Kopf with it. Takes long: call in a thread.

    Meanwhile, no other thread may import the unused libraries; the daemon never does.
    """
    with _hidden():
        importlib.import_module(OPERATOR)


@contextmanager
def _hidden() -> Iterator[None]:
    """Make imports of the unused libraries fail, unless they are imported already."""
    hidden = [name for name in UNUSED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # Python's sign for "can't be imported"
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
