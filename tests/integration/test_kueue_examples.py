"""Objects of Kueue's own repository are converted, and `vscheduler simulate` runs them.

They come in the Go modules of two releases, from the module proxy that the sandbox's programs come
from, and are pinned by the modules' checksums.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import testing

from sandbox import binaries, progress_report
from vscheduler.cli import main
from vscheduler.cli.convert import kueue

EXAMPLES = "cmd/kueueviz/examples"
MODULES = {
    "v0.14.0": "h1:lDR34L42/k17opLfkZbZ+taymLaPpryj3ZBbvKqs/N4=",  # API v1beta1
    "v0.19.2": "h1:mPNzr37u0nwI7ikST5QQl5gg6EgtYOAvC9ZbTgywdN8=",  # API v1beta2, with Cohorts
}
COHORT = "ai-for-humanity-foundation"
Tree = dict[str, Any]


def fetched(version: str) -> Path:
    """The folder of examples of a release."""
    with progress_report.on_stderr() as progress:
        go = binaries.find_or_install_go(cache=binaries.cache_folder(), progress=progress)
    done = subprocess.run(  # noqa: S603 - a fixed command
        [str(go), "mod", "download", "-json", f"sigs.k8s.io/kueue@{version}"],
        env={**os.environ, "GOSUMDB": "off", "GOFLAGS": "-mod=mod"},
        cwd=binaries.cache_folder(),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["Sum"] == MODULES[version]
    return Path(found["Dir"]) / EXAMPLES


def run(*words: str | Path) -> testing.Result:
    """A command of ours that ends well."""
    done = testing.CliRunner().invoke(main.vscheduler, list(map(str, words)))
    assert done.exit_code == 0, done.output
    return done


def gang(job: Tree, queues: dict[str, str]) -> list[Tree]:
    """A Job of the examples as a PodGroup with its pods, as the controllers would make them."""
    labels, spec = job["metadata"]["labels"], job["spec"]
    name = job["metadata"]["generateName"].strip("-")
    metadata: Tree = {"name": name, "namespace": "default"}
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {
            "queue": queues[labels["kueue.x-k8s.io/queue-name"]],
            "minMember": spec["parallelism"],
            "priorityClassName": labels.get("kueue.x-k8s.io/priority-class", ""),
        },
    }
    annotations = {"scheduling.k8s.io/group-name": name}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**metadata, "name": f"{name}-{at}", "annotations": annotations},
            "spec": {**spec["template"]["spec"], "schedulerName": "vscheduler"},
        }
        for at in range(spec["parallelism"])
    ]
    return [group, *pods]


def written(path: Path, trees: Sequence[Tree]) -> Path:
    """A file with these objects."""
    path.write_text(yaml.safe_dump_all(trees))
    return path


@pytest.mark.parametrize("version", MODULES)
def test_examples_of_kueue_convert_and_run(version: str, tmp_path: Path) -> None:
    """Their queues pass `check`, keep the quotas, and their jobs get nodes."""
    folder = fetched(version)
    conf = tmp_path / "scheduler.conf"
    done = run("convert", folder, "--write-conf", conf)
    ours = tmp_path / "ours.yaml"
    ours.write_text(done.stdout)
    objects = list(yaml.safe_load_all(done.stdout))
    queues = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Queue"}
    assert queues[COHORT]["spec"]["deserved"] == {"cpu": "1.6", "memory": "1624Mi"}
    assert queues["llm-cluster-queue"]["spec"]["parent"] == COHORT
    assert "no counterpart: ResourceFlavor spot: spec.tolerations" in done.stderr
    checked = run("check", ours, "--scheduler-conf", conf)
    assert "0 errors" in checked.stderr

    trees = [
        tree
        for path in sorted(folder.glob("*.yaml"))
        for tree in yaml.safe_load_all(path.read_text())
        if tree
    ]
    local = {
        each["metadata"]["name"]: each["spec"]["clusterQueue"]
        for each in trees
        if kueue.is_kueues(each) and each["kind"] == "LocalQueue"
    }
    jobs = [each for each in trees if each["kind"] == "Job"]
    assert jobs
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }
    gangs = written(
        tmp_path / "jobs.yaml", [node, *(each for job in jobs for each in gang(job, local))]
    )
    found = json.loads(run("simulate", ours, gangs, "--scheduler-conf", conf, "-o", "json").stdout)
    assert len(found["binds"]) == sum(job["spec"]["parallelism"] for job in jobs)
    assert {group["queue"] for group in found["podGroups"].values()} <= set(local.values())
