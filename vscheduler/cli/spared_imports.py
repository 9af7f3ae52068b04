"""Spared imports: what libraries of the daemon import or load, but the daemon never uses.

Together they take half a second of CPU on a slow core and 20 MB, in each of the two processes:

- kubernetes imports its synchronous client (requests, urllib3, OAuth) before kubernetes.aio, and
  kubernetes.aio imports a dynamic client and more. The submodules in use work without.
- The library's ApiClient imports pydantic, but loading credentials doesn't need it.
- structlog imports rich for tracebacks, which vscheduler.tracebacks formats instead.
- aiohttp reads all of the system's CA certificates for a default TLS context. Every session of
  vscheduler.cluster has a context of its own.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

PACKAGES = ("kubernetes", "kubernetes.aio")
"""Packages whose __init__ is not run, parents first."""

UNUSED = "rich"

LIBRARY, CLIENT = "kubernetes.aio.client", "ApiClient"
"""A module that imports its classes at first use, and one that other modules import by name."""

CERTIFICATES = "SSL_CERT_FILE"
"""OpenSSL's variable for the file of CA certificates."""


@contextmanager
def spared() -> Iterator[None]:
    """Leave out the above in imports within this context.

    The packages stay without their __init__; their submodules are imported at first use.
    """
    for name in PACKAGES:
        _register(name)
    hides = UNUSED not in sys.modules
    certificates = os.environ.get(CERTIFICATES)
    if hides:
        sys.modules[UNUSED] = None  # type: ignore[assignment]  # Python's sign for "can't be imported"
    os.environ[CERTIFICATES] = os.devnull
    library = importlib.import_module(LIBRARY)
    postpones = CLIENT not in vars(library)
    if postpones:
        vars(library)[CLIENT] = _client
    try:
        yield
    finally:
        if postpones:
            del vars(library)[CLIENT]
        if hides:
            del sys.modules[UNUSED]
        if certificates is None:
            del os.environ[CERTIFICATES]
        else:
            os.environ[CERTIFICATES] = certificates


def _register(name: str) -> None:
    """Register a package without running its __init__, unless it is already imported."""
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    assert spec is not None, "kubernetes is a dependency"
    package = importlib.util.module_from_spec(spec)
    vars(package)["__getattr__"] = partial(_submodule, name)
    sys.modules[name] = package


def _submodule(package: str, name: str) -> ModuleType:
    """Import a submodule at its first use, as the package's __init__ would have."""
    try:
        return importlib.import_module(f"{package}.{name}")
    except ModuleNotFoundError as missing:
        raise AttributeError(f"module {package!r} has no attribute {name!r}") from missing


def _client(*arguments: Any, **more: Any) -> Any:
    """Return a client of the library; stands for the class in modules imported without it."""
    return importlib.import_module(LIBRARY).ApiClient(*arguments, **more)
