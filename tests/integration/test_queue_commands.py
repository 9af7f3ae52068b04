"""`vscheduler queue` as a process, on a real API server."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.client import Client, Object
from sandbox.control_plane import ControlPlane
from tests.integration import daemons, forking
from tests.integration.daemons import Start

DEFINITION = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podgroups.scheduling.volcano.sh"
)
PATIENCE_SECONDS = 120.0
WHY = "25 of 75 usable CPU: weight 1 of 3 that want more"
FIGURES = {
    "allocated": {"cpu": "24", "memory": "96Gi"},
    "deserved": {"cpu": "25", "memory": "100Gi"},
    "request": {"cpu": "32", "memory": "128Gi"},
    "realCapability": {"cpu": "75"},
    "share": 0.96,
    "conditions": [
        {"type": "vscheduler/FairShare", "status": "True", "reason": "Weight", "message": WHY}
    ],
}
WAITS = {"type": "Unschedulable", "status": "True", "message": "queue speech is full"}


class Command:
    """A command that goes on, and what it says."""

    def __init__(self, kubeconfig: Path, log: Path, *words: str, program: str = "queue") -> None:
        self._log = log
        self.folder = log.with_suffix(".tmp")
        self.folder.mkdir()
        with log.open("wb") as output:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                [*called(words, program), f"--kubeconfig={kubeconfig}"],
                stdout=output,
                env={**os.environ, "TMPDIR": str(self.folder)},
            )

    @property
    def text(self) -> str:
        """All that it said."""
        return self._log.read_text()

    def wait_for(self, said: Callable[[str], bool]) -> None:
        """Until it has said it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not said(self.text):
            assert self.process.poll() is None, "the command has ended"
            assert time.monotonic() < deadline, self.text
            time.sleep(0.05)


Watch = Callable[..., Command]


def called(words: tuple[str, ...], program: str = "queue") -> list[str]:
    """The command line."""
    return [sys.executable, "-m", "vscheduler", program, *words]


def run(kubeconfig: Path | str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return forking.run("queue", *words, f"--kubeconfig={kubeconfig}", seconds=PATIENCE_SECONDS)


def tell(api: Client, queue: str, **status: Any) -> None:
    """Write into a queue's status, as schedulers and controllers do."""
    api.patch(f"{daemons.QUEUES}/{queue}/status", {"status": status})


@pytest.fixture
def tenants(cluster: ControlPlane) -> ControlPlane:
    """A tree of queues, one with figures, and a PodGroup that waits."""
    for name, spec in (
        ("research", {"weight": 2}),
        ("speech", {"parent": "research", "capability": {"cpu": 40}}),
        ("robotics", {"weight": 1}),
        ("lost", {"parent": "nowhere"}),
    ):
        cluster.api.create(
            daemons.QUEUES,
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": spec,
            },
        )
    tell(cluster.api, "speech", **FIGURES)
    cluster.api.create(
        daemons.GROUPS,
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "too-much"},
            "spec": {"queue": "speech", "minMember": 4},
            "status": {"phase": "Inqueue", "conditions": [WAITS]},
        },
    )
    return cluster


@pytest.fixture
def watch(tenants: ControlPlane, tmp_path: Path) -> Iterator[Watch]:
    """Start commands that go on; none outlives the test."""
    begun: list[Command] = []

    def begin(*words: str) -> Command:
        begun.append(Command(tenants.kubeconfig, tmp_path / f"{len(begun)}.txt", *words, "-w"))
        return begun[-1]

    yield begin
    for command in begun:
        if command.process.poll() is None:
            command.process.kill()
            command.process.wait()


def test_queues_are_listed(tenants: ControlPlane) -> None:
    """Figures from the status, PodGroups counted, all as objects, too."""
    done = run(tenants.kubeconfig, "list")
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["NAME", "lost", "research", "robotics", "speech"]
    assert " ".join(rows[-1][1:-1]) == "Open 1 research 24/25 96Gi/100Gi 0.96 (cpu) 1 0"
    listed = json.loads(run(tenants.kubeconfig, "list", "-o", "json").stdout)
    stored = {each["metadata"]["name"]: each for each in tenants.api.list(daemons.QUEUES)}
    for each in stored.values():
        del each["metadata"]["managedFields"]
    assert {each["metadata"]["name"]: each for each in listed["items"]} == stored


def test_a_queue_is_told_about(tenants: ControlPlane) -> None:
    """How its share came about, and what waits."""
    done = run(tenants.kubeconfig, "get", "speech")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"\nvscheduler: {WHY}\n" in done.stdout
    assert "  default/too-much (" in done.stdout
    shown = yaml.safe_load(run(tenants.kubeconfig, "get", "speech", "-o", "yaml").stdout)
    assert shown["status"] == FIGURES
    done = run(tenants.kubeconfig, "get", "speach")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "there is no queue speach; did you mean speech?\n"


def test_a_queue_is_changed(tenants: ControlPlane) -> None:
    """The API server checks a dry run, too, and keeps nothing of it."""
    path = f"{daemons.QUEUES}/speech"
    before = tenants.api.get(path)["spec"]
    flags = ["--weight=3", "--capability=cpu=,memory=64Gi"]
    done = run(tenants.kubeconfig, "set", "speech", *flags, "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "queue speech: weight 1 -> 3 (dry run)"
    assert tenants.api.get(path)["spec"] == before
    done = run(tenants.kubeconfig, "set", "speech", *flags)
    assert done.stdout.splitlines()[1:] == [
        "queue speech: capability.cpu 40 -> none",
        "queue speech: capability.memory none -> 64Gi",
    ]
    assert tenants.api.get(path)["spec"] == {
        **before,
        "weight": 3,
        "capability": {"memory": "64Gi"},
    }
    done = run(tenants.kubeconfig, "set", "speech", "--deserved=memory=65Gi", "--dry-run")
    assert (done.returncode, done.stdout) == (1, "")
    assert "spec.deserved must not exceed spec.capability" in done.stderr


def test_what_a_scheduler_writes_is_shown(cluster: ControlPlane, start: Start) -> None:
    """Figures and the sentence, as soon as they are there."""
    cluster.create_nodes(count=2, cpu="8", memory="32Gi")
    daemons.a_queue(cluster, "default")
    daemons.a_gang(cluster, "big", 3, cpu="4")
    daemon = start()
    daemons.until(lambda: "share" in stored_status(cluster, "default"), daemon)
    done = run(cluster.kubeconfig, "get", "default")
    told = [line for line in done.stdout.splitlines() if line.startswith("vscheduler, ")]
    assert (done.returncode, len(told)) == (0, 1)
    assert re.fullmatch(r"vscheduler, \d+s ago: 12 of 16 usable CPU: .+", told[0])
    rows = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if line}
    assert (rows["Deserved"], rows["Request"]) == ("12", "12")


def stored_status(cluster: ControlPlane, queue: str) -> Object:
    """What a queue's status says."""
    found: Object = cluster.api.get(f"{daemons.QUEUES}/{queue}").get("status", {})
    return found


def test_the_tree_is_shown(tenants: ControlPlane) -> None:
    """With the queue that has no place in it at the end."""
    done = run(tenants.kubeconfig, "tree")
    assert (done.returncode, done.stderr) == (0, "")
    names = [line.split("  ")[0] for line in done.stdout.splitlines()]
    assert names[:4] == ["NAME", "root", "├─ research", "│"]
    assert "└─ robotics" in names
    assert done.stdout.splitlines()[-1].startswith("parent nowhere of queue lost doesn't exist")


def test_a_watch_tells_what_changes(tenants: ControlPlane, watch: Watch) -> None:
    """A line for each queue that is different, new or gone, until Ctrl-C or SIGTERM, which leave
    no file behind.
    """
    lines, objects = watch("list"), watch("get", "robotics", "-o", "json")
    lines.wait_for(lambda text: text.count("\n") == 5)
    objects.wait_for(lambda text: text.endswith("}\n"))
    tell(tenants.api, "robotics", deserved={"cpu": "8"}, share=1.5)
    lines.wait_for(lambda text: text.count("\n") == 6)
    objects.wait_for(lambda text: '"share": 1.5' in text)
    tenants.api.patch(f"{daemons.GROUPS}/too-much", {"status": {"phase": "Running"}})
    lines.wait_for(lambda text: text.count("\n") == 7)
    tenants.api.delete(f"{daemons.QUEUES}/lost")
    lines.wait_for(lambda text: text.count("\n") == 8)
    told = [line.split() for line in lines.text.splitlines()[5:]]
    assert [words[:2] for words in told] == [
        ["robotics", "Open"],
        ["speech", "Open"],
        ["lost", "Deleted"],
    ]
    assert ("1.50" in told[0], told[1][-3:-1]) == (True, ["0", "1"])
    for command, number in ((lines, signal.SIGINT), (objects, signal.SIGTERM)):
        command.process.send_signal(number)
        assert command.process.wait(PATIENCE_SECONDS) == 128 + number
        assert list(command.folder.iterdir()) == []


def test_whoever_may_not_is_told(tenants: ControlPlane) -> None:
    """Who is asking, what for, and what would help."""
    stranger = tenants.kubeconfig_for("stranger")
    for words in (["list"], ["tree", "-w"], ["get", "speech"]):
        done = run(stranger, *words)
        assert (done.returncode, done.stdout) == (1, "")
        assert 'User "stranger" cannot' in done.stderr
        assert "ask for a role" in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_cluster_without_the_kinds_is_told(
    tenants: ControlPlane,
) -> None:
    """Without PodGroups, queues are still shown."""
    definition = tenants.api.get(DEFINITION)
    fresh = {key: definition[key] for key in ("apiVersion", "kind", "spec")}
    fresh["metadata"] = {"name": definition["metadata"]["name"]}
    tenants.api.delete(DEFINITION)
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while tenants.api.ask("GET", daemons.GROUPS).status != 404:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        done = run(tenants.kubeconfig, "list")
    finally:
        tenants.api.apply(DEFINITION, fresh)
        while tenants.api.ask("GET", daemons.GROUPS).status != 200:
            time.sleep(0.05)
    assert done.returncode == 0
    assert "speech" in done.stdout
    assert done.stderr.startswith("PodGroups are left out: this cluster has no kind PodGroup")


def test_a_server_that_is_gone_is_told(tenants: ControlPlane, tmp_path: Path) -> None:
    """In a sentence, whatever is asked."""
    made = yaml.safe_load(tenants.kubeconfig.read_text())
    made["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(made))
    for words in (["list"], ["list", "-w"], ["get", "speech"]):
        done = run(path, *words)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            "Error: the API server at https://127.0.0.1:1 doesn't answer: "
            "Failed to establish a new connection: Connection refused\n"
        )


def test_a_terminal_shows_changes_in_place(tenants: ControlPlane) -> None:
    """As wide as it is; Ctrl-C leaves the last picture."""
    leader, follower = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(  # noqa: S603 - our own command
        [*called(("list", "-w")), f"--kubeconfig={tenants.kubeconfig}"],
        stdout=follower,
        env=environment,
    ) as process:
        os.close(follower)
        seen = read_until(leader, "speech")
        tell(tenants.api, "speech", share=1.5)
        seen += read_until(leader, "1.50")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 130
    os.close(leader)
    assert "\x1b[36m1.50" in seen


def read_until(terminal: int, word: str) -> str:
    """What comes from a terminal, until the word does."""
    seen = ""
    while word not in seen:
        seen += os.read(terminal, 4096).decode(errors="replace")
    return seen
