"""Everybody but the daemon: kubelets, controllers, users, accidents and a hostile tenant.

Each actor is a named unit: plain callbacks on virtual timers, with a client, a clock and chance of
its own, so that leaving one out changes no draw of another. They read the API server by caches that
follow its watches (`informers`), and write to it as anybody does, in the same process.

Layers: world > device_users, volume_users, networks > launchers, editors, tenants, nodes,
controllers, cleaning, binder, provisioners > storage, machines > informers, objects > base.
"""

from tests.simulation.actors.device_users import Devices
from tests.simulation.actors.provisioners import Storage
from tests.simulation.actors.world import (
    DENIED_PART,
    LEASE_SECONDS,
    RESTLESS,
    Scale,
    World,
    populate,
)

__all__ = [
    "DENIED_PART",
    "LEASE_SECONDS",
    "RESTLESS",
    "Devices",
    "Scale",
    "Storage",
    "World",
    "populate",
]
