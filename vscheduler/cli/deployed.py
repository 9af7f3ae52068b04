"""How the schedulers of a cluster are configured: flags from their Deployments, and the scheduler
configuration from the ConfigMaps that are mounted there.

With it a command decides as the scheduler itself would. Users who may read neither give
--scheduler-conf.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any, Protocol

import click
import msgspec

from vscheduler.cli import run
from vscheduler.cli.queue.cluster_client import Cluster, ClusterError, Kind, Listing, Object
from vscheduler.cluster import lease_records
from vscheduler.core.config.policy import Policy
from vscheduler.daemon import configuration, settings
from vscheduler.daemon.configuration import ConfigurationError
from vscheduler.daemon.leader_election.election_settings import DEFAULT_NAMESPACE
from vscheduler.daemon.settings import Settings, SettingsError

BUILT_IN = "the built-in one"
PREFIX = "VSCHEDULER_"
"""What the names of variables begin with that stand for flags."""


class Source(Protocol):
    """Access to the objects of one namespace: cluster_client.Cluster, or a fake in tests."""

    def list(self, kind: Kind) -> Listing:
        """Return all objects of a kind."""


class Deployed(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler as its Deployment starts it."""

    policy: Policy
    settings: Settings
    place: str
    """Where the configuration was found."""

    @property
    def digest(self) -> str:
        """The digest that the leader writes into its Lease if it is configured so."""
        return configuration.digest(self.policy, self.settings)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The schedulers of a namespace by name, and why others can't be told."""

    schedulers: Mapping[str, Deployed]
    problems: Sequence[str] = ()


def read(cluster: Cluster, namespace: str = DEFAULT_NAMESPACE) -> Found:
    """Return the schedulers that Deployments of the namespace run."""
    return of_objects(cluster.within(namespace), namespace)


def of_objects(
    source: Source, namespace: str, deployments: Sequence[Object] | None = None
) -> Found:
    """Return the schedulers that these Deployments run; None: they haven't been listed yet."""
    schedulers = _built_in(source)
    try:
        if deployments is None:
            deployments = source.list(Kind.DEPLOYMENT).items
        maps = {each["metadata"]["name"]: each for each in source.list(Kind.CONFIG_MAP).items}
    except ClusterError as error:
        return Found(schedulers=schedulers, problems=[str(error)])
    problems = []
    for deployment in deployments:
        for arguments, container in _runs(deployment):
            name = f"Deployment {namespace}/{deployment['metadata']['name']}"
            try:
                found = _deployed(arguments, container, deployment, maps, namespace)
            except (ConfigurationError, SettingsError) as error:
                problems += [f"{name}: {problem}" for problem in error.problems]
            except click.ClickException as error:
                problems.append(f"{name}: {error.format_message()}")
            else:
                if found.settings.only != settings.CONTROLLERS:
                    schedulers |= dict.fromkeys(found.settings.scheduler_names, found)
    return Found(schedulers=schedulers, problems=problems)


def _built_in(source: Source) -> dict[str, Deployed]:
    """Return the schedulers whose Leases have the digest of the built-in configuration, without any
    flag that decides: nothing else has to be read of them.
    """
    found = Deployed(
        policy=configuration.load("").policy, settings=run.settings_of([]), place=BUILT_IN
    )
    with suppress(ClusterError):
        return {
            each["metadata"]["name"]: found
            for each in source.list(Kind.LEASE).items
            if lease_records.configuration(each) == found.digest
        }
    return {}


def _runs(deployment: Object) -> Iterator[tuple[list[str], Object]]:
    """Iterate over containers that run `vscheduler run`, each with the arguments behind that."""
    for container in _pod(deployment).get("containers") or ():
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        named = [str(container.get("image", "")), *words, deployment["metadata"]["name"]]
        if "run" in words and any("vscheduler" in word for word in named):
            yield words[words.index("run") + 1 :], container


def _deployed(
    arguments: Sequence[str],
    container: Object,
    deployment: Object,
    maps: Mapping[str, Object],
    namespace: str,
) -> Deployed:
    """Return how a container is configured. Raises ConfigurationError and SettingsError."""
    variables = [
        f"--{name.removeprefix(PREFIX).lower().replace('_', '-')}={each['value']}"
        for each in container.get("env") or ()
        if (name := str(each.get("name", ""))).startswith(PREFIX) and "value" in each
    ]
    checked = run.settings_of([*variables, *arguments])
    path = checked.scheduler_conf
    if not path:
        place = f"{BUILT_IN}, as Deployment {namespace}/{deployment['metadata']['name']} says"
        return Deployed(policy=configuration.load("").policy, settings=checked, place=place)
    name, key = _mounted(path, container, deployment)
    place = f"ConfigMap {namespace}/{name}"
    data = (maps.get(name) or {}).get("data") or {}
    if key not in data:
        raise ConfigurationError([f"{path} is no key of a ConfigMap that can be read"])
    loaded = configuration.parse(str(data[key]), place)
    return Deployed(policy=loaded.policy, settings=checked, place=place)


def _mounted(path: str, container: Object, deployment: Object) -> tuple[str, str]:
    """Return the ConfigMap and the key that a file of a container comes from; empty if none."""
    volumes = {each["name"]: each for each in _pod(deployment).get("volumes") or ()}
    for mount in container.get("volumeMounts") or ():
        source = (volumes.get(mount["name"]) or {}).get("configMap")
        inside = PurePosixPath(path)
        if source is None or not inside.is_relative_to(mount["mountPath"]):
            continue
        relative = str(mount.get("subPath") or inside.relative_to(mount["mountPath"]))
        keys = {item["path"]: item["key"] for item in source.get("items") or ()}
        return str(source["name"]), str(keys.get(relative, relative))
    return "", ""


def _pod(deployment: Object) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = deployment["spec"]["template"]["spec"]
    return spec
