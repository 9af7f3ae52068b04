"""CustomResourceDefinitions: applied from files, and awaited."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from sandbox.errors import SandboxError
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Collection

if TYPE_CHECKING:
    from sandbox.client import Client, Object

ESTABLISH_TIMEOUT_SECONDS = 60.0
SHIPPED = Path(__file__).parents[1] / "crds"
"""The project's own CRDs."""


def apply_folder(client: Client, folder: Path) -> None:
    """Apply all CRDs of a folder, and wait until the API server serves all of them."""
    definitions = [
        tree
        for path in sorted(folder.glob("*.yaml"))
        for tree in yaml.safe_load_all(path.read_text())
        if tree
    ]
    if not definitions:
        raise SandboxError(f"there is no custom resource definition in {folder}")
    found = []
    for definition in definitions:
        path = paths.DEFINITIONS.at(definition["metadata"]["name"])
        client.apply(path, definition)
        found.append(path)
    for path in found:
        client.wait_for(path, _is_established, timeout_seconds=ESTABLISH_TIMEOUT_SECONDS)
    for collection in collections(client):
        client.list(collection.everywhere)  # the first request makes the server set up its store


def collections(client: Client) -> list[Collection]:
    """Return the collection of each custom resource."""
    found = []
    for definition in client.list(paths.DEFINITIONS.everywhere):
        spec = definition["spec"]
        version = next(each["name"] for each in spec["versions"] if each["storage"])
        found.append(
            Collection(
                api_version=f"{spec['group']}/{version}",
                kind=spec["names"]["kind"],
                plural=spec["names"]["plural"],
                namespaced=spec["scope"] == "Namespaced",
            )
        )
    return found


def _is_established(definition: Object) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(
        condition["type"] == "Established" and condition["status"] == "True"
        for condition in conditions
    )
