"""Extended resources that stand for a DeviceClass: what a pod asks for by them, as values.

Kubernetes: gate DRAExtendedResource. On a node whose device plugin has none of the resource, the
scheduler makes a claim for the pod, and allocates devices of the class to it. The API server then
finds in status.extendedResourceClaimStatus of the pod which request of the claim is for which
container.
"""

from typing import NamedTuple

import msgspec

IMPLICIT = "deviceclass.resource.kubernetes.io/"
"""Prefix of the resource of containers that stands for each DeviceClass, followed by its name
(Kubernetes: ResourceDeviceClassPrefix)."""


class RequestMapping(NamedTuple):
    """Which request of the claim is for a container (Kubernetes: ContainerExtendedResourceRequest).

    Several containers that don't run at the same time may have the same request.
    """

    container: str
    resource: str
    request: str


class ExtendedResource(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod asks for by one extended resource."""

    resource: str
    requests: tuple[str, ...]
    """Names of the claim's requests for it."""
    mappings: tuple[RequestMapping, ...]
