"""Kinds of other projects, as far as tests need them: their definitions without a schema."""

from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.control_plane import ControlPlane
from vscheduler.mirror import paths


@contextmanager
def kind(plane: ControlPlane, group: str, version: str, name: str) -> Iterator[None]:
    """A namespaced kind for the time of the block: `Command` has the plural commands."""
    singular = name.lower()
    path = f"{paths.DEFINITIONS.everywhere}/{singular}s.{group}"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True}
    plane.api.create(
        paths.DEFINITIONS.everywhere,
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{singular}s.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": name, "plural": f"{singular}s", "singular": singular},
                "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
            },
        },
    )
    plane.api.wait_for(f"/apis/{group}/{version}/{singular}s", lambda _: True)
    yield
    plane.api.delete(path)
    plane.api.wait_until_gone(path)
