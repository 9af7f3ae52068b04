"""Commands of README.md and docs/ that need a cluster, on a real control plane."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from sandbox import control_plane
from sandbox.control_plane import ControlPlane
from tests import documented
from tests.documented import Way

COMMAND_SECONDS = 200.0
ON_CLUSTER = [command for command in documented.commands() if command.way is Way.CLUSTER]
FOLLOWED = [command for command in documented.commands() if command.way is Way.FOLLOWED]
READY = ("make binaries", ". .venv/bin/activate")
"""What whoever runs tests has done already."""

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases"
CONFIG_MAPS = "/api/v1/namespaces/volcano-system/configmaps"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of its own: policies and installations stay behind. With what docs name."""
    with control_plane.start(with_scheduler=True) as started:
        started.create_nodes(count=2)
        for name in ("robotics", "speech", "research"):
            started.api.create(QUEUES, {**_head("Queue"), "metadata": {"name": name}})
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        started.api.create(LEASES, {**lease, "metadata": {"name": "volcano-online"}})
        volcano = {"metadata": {"name": "volcano-scheduler-configmap"}}
        volcano["data"] = {"volcano-scheduler.conf": 'actions: "allocate"\n'}
        _a_job(started)
        started.api.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **volcano})
        yield started


def _a_job(plane: ControlPlane) -> None:
    """A Job with its PodGroup; nobody places its pods."""
    container = {"name": "main", "image": "none"}
    spec = {"schedulerName": "vscheduler", "restartPolicy": "Never", "containers": [container]}
    job = plane.api.create(
        "/apis/batch/v1/namespaces/default/jobs",
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train"},
            "spec": {"template": {"spec": spec}},
        },
    )
    owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
    owner |= {key: job["metadata"][key] for key in ("name", "uid")}
    group = {"metadata": {"name": "train-group", "ownerReferences": [owner]}}
    plane.api.create(
        "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups",
        {**_head("PodGroup"), **group, "spec": {"minMember": 1, "queue": "research"}},
    )


def _head(kind: str) -> dict[str, str]:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, plane: ControlPlane) -> Path:
    """A folder that looks like the repository, with the programs that people have."""
    folder = tmp_path_factory.mktemp("desk")
    for name in ("crds", "examples", "manifests"):
        (folder / name).symlink_to(documented.ROOT / name)
    programs = folder / "programs"
    programs.mkdir()
    (programs / "kubectl").symlink_to(plane.kubectl)
    run = "-m vscheduler "
    for name, words in (("python", ""), ("vscheduler", run), ("kubectl-vscheduler", run)):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words}"$@"\n')
        (programs / name).chmod(0o755)
    return folder


def typed(text: str, desk: Path, *, commands: int = 1, **more: str) -> str:
    """What a shell prints that is given so many commands; they must end well."""
    environment = {
        **os.environ,
        "PATH": f"{desk / 'programs'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(documented.ROOT),
        **more,
    }
    done = subprocess.run(  # noqa: S603 - our own docs
        ["bash", "-e", "-o", "pipefail", "-c", text],  # noqa: S607 - the one of PATH
        cwd=desk,
        env=environment,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS * commands,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("page", sorted({each.page for each in ON_CLUSTER}))
def test_commands_work(plane: ControlPlane, desk: Path, page: str) -> None:
    """Those of each page, one after the other."""
    for each in ON_CLUSTER:
        if each.page == page:
            typed(each.text, desk, KUBECONFIG=str(plane.kubeconfig))
    if page == "moving.md":
        (found,) = _configurations(desk)
        assert found == {"actions": "allocate"}


def _configurations(desk: Path) -> Iterator[Mapping[str, str]]:
    yield yaml.safe_load((desk / "scheduler.conf").read_text())


def test_the_quick_start_leads_to_gangs_that_run(desk: Path, tmp_path: Path) -> None:
    """As it stands there, from the control plane to its end."""
    lines = [each.text for each in FOLLOWED if each.text not in READY]
    assert len(lines) == len(FOLLOWED) - len(READY)
    text = "\n".join(lines).replace("/tmp/sandbox", str(tmp_path / "sandbox"))  # noqa: S108 - theirs
    try:
        shown = typed(text, desk, commands=len(lines), POD_NAMESPACE="")
    finally:
        control_plane.stop(tmp_path / "sandbox")
    assert "podgroup.scheduling.volcano.sh/wide condition met" in shown
    assert shown.count("node-") >= 5
    assert "Name:       default" in shown
    assert "default/wide   default   Inqueue   needs 2 pods of 2.5 cpu" in shown
