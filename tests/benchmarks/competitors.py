"""Who is measured, and how each is started. All act as the same user, whom nothing throttles."""

import copy
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import yaml

from sandbox import binaries, components, free_ports, progress_report
from tests.benchmarks import binding_only
from tests.benchmarks.loading import RACK, Customer
from vscheduler.core.config import policy

LOOPBACK = "127.0.0.1"
VSCHEDULER = "vscheduler"
KUBE_SCHEDULER = "kube-scheduler"
LIMIT = "bind-only limit"
PEER = "peer"


class Place(Protocol):
    """Where a scheduler finds its API server, such as a control plane."""

    @property
    def kubeconfig(self) -> Path:
        """Its credentials."""

    @property
    def directory(self) -> Path:
        """Where its files can be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What is started for one run."""

    words: list[str]
    metrics: str = ""
    """The server of its own metrics, as vscheduler has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Competitor:
    """A scheduler, or the limit of all schedulers."""

    name: str
    customer: Customer
    command: Callable[[Place], Command]
    schedules: bool = True
    """Whether it sees pods that come later, and leaves those alone that don't fit."""


def limit() -> Competitor:
    """Binds, and nothing else."""

    def command(plane: Place) -> Command:
        module = [sys.executable, "-m", "tests.benchmarks.binding_only"]
        return Command(words=[*module, f"--kubeconfig={plane.kubeconfig}"])

    customer = Customer(scheduler=binding_only.NAME)
    return Competitor(name=LIMIT, customer=customer, command=command, schedules=False)


def kube_scheduler(content_type: str = "application/vnd.kubernetes.protobuf") -> Competitor:
    """Kubernetes' own, its client's limits out of the way; gangs are pods to it."""

    def command(plane: Place) -> Command:
        program = binaries.find_or_build([binaries.SCHEDULER], progress=progress_report.silent)
        config = plane.directory / "competitor.yaml"
        config.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            "leaderElection: {leaderElect: false}\n"
            f"clientConnection: {{kubeconfig: {plane.kubeconfig}, qps: 5000, burst: 5000,\n"
            f"  contentType: {content_type}, acceptContentTypes: {content_type}}}\n",
            encoding="utf-8",
        )
        path = str(program[binaries.SCHEDULER])
        return Command(words=[path, f"--config={config}", "--secure-port=0"])

    customer = Customer(scheduler="default-scheduler", grouped=False)
    return Competitor(name=KUBE_SCHEDULER, customer=customer, command=command)


def vscheduler(*flags: str, name: str = VSCHEDULER) -> Competitor:
    """Ours, as it is installed, but for these flags."""

    def command(plane: Place) -> Command:
        (port,) = free_ports.choose(1)
        address = f"{LOOPBACK}:{port}"
        words = [sys.executable, "-m", "vscheduler", "run", *flags]
        words += ["--enable-metrics", f"--listen-address={address}"]
        words += [f"--kubeconfig={plane.kubeconfig}"]
        return Command(words=words, metrics=f"http://{address}")

    customer = Customer(scheduler="vscheduler")
    return Competitor(name=name, customer=customer, command=command)


def native(competitor: Competitor) -> Competitor:
    """Those that know Kubernetes' own gang API with PodGroups of it; all others as they are."""
    if competitor.name == KUBE_SCHEDULER:
        return _with_gangs(competitor)
    if competitor.name != VSCHEDULER:
        return competitor
    return replace(competitor, customer=replace(competitor.customer, native=True))


def single(competitor: Competitor) -> Competitor:
    """Those for which a pod alone needs no PodGroup without one; all others as they are."""
    if competitor.name != VSCHEDULER or competitor.customer.native:
        return competitor
    return replace(competitor, customer=replace(competitor.customer, grouped=False))


def near(competitor: Competitor) -> Competitor:
    """Those that can start a gang in one rack, if they are told to; all others as they are."""
    if competitor.name == KUBE_SCHEDULER:
        return _with_gangs(competitor)
    if competitor.name != VSCHEDULER:
        return competitor
    return configured(competitor, _with_racks())


def configured(competitor: Competitor, tree: Mapping[str, object]) -> Competitor:
    """Ours with another configuration than the built-in one."""

    def command(plane: Place) -> Command:
        config = plane.directory / "scheduler-conf.yaml"
        config.write_text(yaml.safe_dump(tree), encoding="utf-8")
        given = competitor.command(plane)
        return replace(given, words=[*given.words, f"--scheduler-conf={config}"])

    return replace(competitor, command=command)


def _with_gangs(competitor: Competitor) -> Competitor:
    """kube-scheduler with Kubernetes' own gang API, which is off by default."""

    def command(plane: Place) -> Command:
        given = competitor.command(plane)
        return replace(given, words=[*given.words, components.GANG_GATES])

    customer = replace(competitor.customer, grouped=True, native=True)
    return replace(competitor, name=f"{KUBE_SCHEDULER} (gangs)", customer=customer, command=command)


def _with_racks() -> dict[str, Any]:
    """The built-in configuration, and the plugin for the network."""
    tree: dict[str, Any] = copy.deepcopy(dict(policy.BUILT_IN))
    racks = [{"name": "racks", "levels": [RACK]}]
    plugin = {"name": "network-topology-aware", "arguments": {"topologies": racks}}
    tree["tiers"][-1]["plugins"].append(plugin)
    return tree


def peer(line: str, scheduler: str, *, grouped: bool) -> Competitor:
    """Whatever is started by a command line that takes --kubeconfig."""

    def command(plane: Place) -> Command:
        return Command(words=[*shlex.split(line), f"--kubeconfig={plane.kubeconfig}"])

    customer = Customer(scheduler=scheduler, grouped=grouped)
    return Competitor(name=f"{PEER} ({scheduler})", customer=customer, command=command)
