"""Devices by hand: a judge that reads manifests and tries everything."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from tests import device_worlds
from tests.device_worlds import World

Document = dict[str, Any]
Device = tuple[str, str, str]
"""Driver, pool and name."""


class Judge:
    """What the nodes of a world can give, each device by itself."""

    def __init__(self, world: World) -> None:
        self.nodes = {node["metadata"]["name"]: node for node in world.nodes}
        kinds: dict[str, dict[str, Document]] = {}
        for each in world.devices:
            kinds.setdefault(each["kind"], {})[each["metadata"]["name"]] = each
        self.claims = kinds.get("ResourceClaim", {})
        self.devices: dict[Device, tuple[Document, Document]] = {}
        self.broken: set[tuple[str, str]] = set()
        pools: dict[tuple[str, str], list[Document]] = {}
        for each in kinds.get("ResourceSlice", {}).values():
            pools.setdefault((each["spec"]["driver"], each["spec"]["pool"]["name"]), []).append(
                each
            )
        self.slices = []
        for pool, slices in sorted(pools.items()):
            newest = max(each["spec"]["pool"]["generation"] for each in slices)
            current = [each for each in slices if each["spec"]["pool"]["generation"] == newest]
            self.slices += current
            if len(current) != current[0]["spec"]["pool"]["resourceSliceCount"]:
                self.broken.add(pool)
                continue
            for each in current:
                for device in each["spec"]["devices"]:
                    self.devices[*pool, device["name"]] = device, each
        self.used = {
            (result["driver"], result["pool"], result["device"])
            for claim in self.claims.values()
            if "allocation" in claim.get("status", {})
            for result in claim["status"]["allocation"]["devices"]["results"]
        }

    def reaches(self, each: Document, node: str) -> bool:
        """Whether a node can use the devices of a slice."""
        spec = each["spec"]
        if "nodeSelector" in spec:
            return bool(self.nodes[node]["metadata"]["labels"]["zone"] == "x")
        return bool(spec.get("allNodes") or spec.get("nodeName") == node)

    def on(self, node: str) -> list[Device]:
        """The devices that a node can use."""
        return [key for key, (_, each) in self.devices.items() if self.reaches(each, node)]

    def matches(self, wanted: Document, key: Device) -> bool:
        """Whether class and selectors choose the device."""
        if key[0].partition(".")[0] != wanted["deviceClassName"]:
            return False
        return all(
            device_worlds.SELECTORS[each["cel"]["expression"]](self._seen(key))
            for each in wanted.get("selectors", ())
        )

    def _seen(self, key: Device) -> Document:
        """The device as selectors see it, which are all about the first driver's domain."""
        if key[0] != device_worlds.DRIVERS[0]:
            return {"attributes": {}, "capacity": {}}
        return self.devices[key][0]

    def tolerates(self, wanted: Document, key: Device) -> bool:
        """Whether no taint keeps the request away."""
        taints = self.devices[key][0].get("taints", ())
        effects = {taint["effect"] for taint in taints} & {"NoSchedule", "NoExecute"}
        return not effects or "tolerations" in wanted

    def ways(
        self, claim: Document, node: str, used: frozenset[Device]
    ) -> Iterator[frozenset[Device]]:
        """Iterate over the sets of devices that satisfy a claim, without what is used."""
        devices = claim["spec"]["devices"]
        options = []
        for request in devices["requests"]:
            if "exactly" in request:
                options.append([(request["name"], "", request["exactly"])])
            else:
                options.append(
                    [(request["name"], each["name"], each) for each in request["firstAvailable"]]
                )
        every = any(each["allocationMode"] == "All" for of in options for _, _, each in of)
        if every and self._is_unready(node):
            return
        for choice in itertools.product(*options):
            yield from self._chosen(devices, choice, node, used)

    def _is_unready(self, node: str) -> bool:
        """Whether a pool is being updated: nobody knows what all devices are then."""
        return any(
            self.reaches(each, node)
            for each in self.slices
            if (each["spec"]["driver"], each["spec"]["pool"]["name"]) in self.broken
        )

    def _chosen(
        self,
        devices: Document,
        choice: Sequence[tuple[str, str, Document]],
        node: str,
        used: frozenset[Device],
    ) -> Iterator[frozenset[Device]]:
        sets: list[list[tuple[Device, ...]]] = []
        for _, _, wanted in choice:
            every = [key for key in self.on(node) if self.matches(wanted, key)]
            busy = frozenset() if wanted.get("adminAccess") else self.used | used
            fine = [key for key in every if key not in busy and self.tolerates(wanted, key)]
            if wanted["allocationMode"] == "All":
                sets.append([tuple(every)] if every and fine == every else [])
            else:
                sets.append(list(itertools.combinations(fine, wanted["count"])))
        for picked in itertools.product(*sets):
            flat = [key for each in picked for key in each]
            if len(set(flat)) == len(flat) and self._agrees(devices, choice, picked):
                yield frozenset(
                    key
                    for (_, _, wanted), each in zip(choice, picked, strict=True)
                    if not wanted.get("adminAccess")
                    for key in each
                )

    def _agrees(
        self,
        devices: Document,
        choice: Sequence[tuple[str, str, Document]],
        picked: Sequence[Sequence[Device]],
    ) -> bool:
        for constraint in devices.get("constraints", ()):
            domain, _, name = constraint["matchAttribute"].partition("/")
            values = []
            for (request, sub, _), each in zip(choice, picked, strict=True):
                names = constraint["requests"]
                if names and request not in names and f"{request}/{sub}" not in names:
                    continue
                for key in each:
                    own = self.devices[key][0]["attributes"] if key[0] == domain else {}
                    values.append(own.get(name))
            if any(value is None or value != values[0] for value in values):
                return False
        return True

    def takes(self, pod: Document, node: str) -> bool:
        """Whether a node has devices for the claims of a pod."""
        return any(True for _ in self.together([(pod, node)]))

    def together(self, places: Sequence[tuple[Document, str]]) -> Iterator[frozenset[Device]]:
        """Iterate over the devices that all these pods could get on these nodes."""
        asked: dict[str, list[str]] = {}
        for pod, node in places:
            for name in self.names(pod):
                asked.setdefault(name, []).append(node)
        listed = [(self.claims[name], nodes) for name, nodes in asked.items()]
        yield from self.allocated(listed, frozenset())

    def allocated(
        self, asked: Sequence[tuple[Document, Sequence[str]]], used: frozenset[Device]
    ) -> Iterator[frozenset[Device]]:
        """Iterate over the devices that all these claims could get, each for all of its nodes."""
        if not asked:
            yield used
            return
        (claim, nodes), *rest = asked
        for way in set(self.ways(claim, nodes[0], used)):
            everywhere = all(way <= set(self.on(node)) for node in nodes)
            if everywhere and self._all_admin_reach(claim, nodes):
                yield from self.allocated(rest, used | way)

    @staticmethod
    def _all_admin_reach(claim: Document, nodes: Sequence[str]) -> bool:
        return len(set(nodes)) == 1 or "adminAccess" not in str(claim["spec"])

    @staticmethod
    def names(pod: Document) -> list[str]:
        """The claims of a pod."""
        made = {
            each["name"]: each["resourceClaimName"]
            for each in pod["status"].get("resourceClaimStatuses", ())
        }
        return [
            each.get("resourceClaimName") or made[each["name"]]
            for each in pod["spec"].get("resourceClaims", ())
        ]

    def fits(self, pods: Sequence[Document]) -> bool:
        """Whether all pods can run at once, a cpu each."""
        for nodes in itertools.product(self.nodes, repeat=len(pods)):
            full = any(
                nodes.count(name) > int(node["status"]["allocatable"]["cpu"])
                for name, node in self.nodes.items()
            )
            if not full and any(True for _ in self.together(list(zip(pods, nodes, strict=True)))):
                return True
        return False
