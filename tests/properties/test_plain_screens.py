"""Whatever text is in the objects, no command prints anything that a terminal would obey."""

import io
import json
import random
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import testing

from sandbox.demo import demo_view
from sandbox.demo.demo_view import Group, PlainLines
from tests.unit.cli import job_objects, queue_objects
from vscheduler.cli import main, output
from vscheduler.cli.output import Screen
from vscheduler.cli.queue import cluster_client, queue_tables, queue_watch
from vscheduler.cli.queue.cluster_client import ClusterError, Kind
from vscheduler.cli.queue.queue_tables import Row, Style
from vscheduler.cli.queue.queue_watch import Log, Objects, Pages
from vscheduler.mirror.wording import plain_text

SEEDS = range(10)
FORGED = "FORGED"
"""Stands after whatever might begin a line."""

NASTY = (
    "\x1b[31m", "\x1b[2J", "\x1b]0;own\x07", "\x1b]8;;http://x\x1b\\", "\x9b31m", "\x07", "\x08",
    f"\n{FORGED}", f"\r{FORGED}", f"\r\n{FORGED}", f"\x0b{FORGED}", f"\x0c{FORGED}",
    f"\x1c{FORGED}", f"\x85{FORGED}", f"\u2028{FORGED}", f"\u2029{FORGED}", "\t", "\x7f",
    "\u202e", "\u202a", "\u2066", "\u2069", "\u200f", "\ufeff", "\ud800", "\udfff", "\U000e0041",
    "[red]", "[/red]", "[link=http://x]", ":smile:", "é", "中", "─", "plain", " ", "x",
)  # fmt: skip

RESOURCES = {"cpu": "4", "memory": "8Gi", "pods": "10"}


class Writer:
    """Writes text as an attacker does, or as long and harmless."""

    def __init__(self, seed: int, *, tame: bool = False) -> None:
        self._chance = random.Random(seed)
        self._tame = tame
        self._count = 0

    def __call__(self) -> str:
        """Some more, unlike any before."""
        self._count += 1
        text = "".join(self._chance.choices(NASTY, k=self._chance.randint(1, 6)))
        text += str(self._count).rjust(3, "0")
        return text[-3:].rjust(len(plain_text.shown(text)), "t") if self._tame else text


def harmless(text: str, *, folded: bool = False) -> list[str]:
    """The lines of what was printed, once it is sure that they are lines and nothing else.

    folded: it is YAML, which has texts in several lines, further in than what they belong to.
    """
    lines = text.split("\n")
    for line in lines:
        hidden = [each for each in line if unicodedata.category(each) in plain_text.HIDDEN]
        assert hidden == [], repr(line)
        assert not (line if folded else line.lstrip()).startswith(FORGED)
    return lines


def manifests(write: Writer) -> list[dict[str, Any]]:
    """A cluster in which all that can be text is somebody's."""
    namespace, group, queue, node = (f"n{write()}" for _ in range(4))
    api = "scheduling.volcano.sh/v1beta1"
    marks = {
        "scheduling.k8s.io/group-name": group,
        "volcano.sh/task-priority": write(),
        write(): write(),
    }
    resources = {"requests": {"cpu": "1"}}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{write()}", "namespace": namespace, "annotations": marks},
            "spec": {
                "schedulerName": "vscheduler",
                "containers": [{"name": write(), "image": write(), "resources": resources}],
                "nodeSelector": {write(): write()} if number else {},
            },
        }
        for number in range(2)
    ]
    odd = {"requests": {"cpu": f"1{write()}", write(): "1"}}
    pods.append(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"odd{write()}", "namespace": namespace},
            "spec": {
                "schedulerName": "vscheduler",
                "containers": [{"name": "c", "image": "i", "resources": odd}],
            },
        }
    )
    taints = [{"key": write(), "value": write(), "effect": "NoSchedule"}]
    return [
        *pods,
        {
            "apiVersion": api,
            "kind": "PodGroup",
            "metadata": {
                "name": group,
                "namespace": namespace,
                "annotations": {"volcano.sh/sla-waiting-time": write()},
            },
            "spec": {"minMember": 2, "queue": queue, write(): write()},
            "status": {"phase": write(), "conditions": [{"type": write(), "message": write()}]},
        },
        {
            "apiVersion": api,
            "kind": "Queue",
            "metadata": {"name": queue},
            "spec": {"weight": 1, "parent": write(), "capability": {write(): write()}},
        },
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node, "labels": {write(): write()}},
            "status": {"allocatable": {**RESOURCES, write(): "3"}},
        },
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"second{write()}"},
            "spec": {"taints": taints},
            "status": {"allocatable": RESOURCES},
        },
        {"apiVersion": "v1", "kind": write(), "metadata": {"name": write()}},
    ]


@pytest.mark.parametrize("output", ["people", "json", "yaml"])
@pytest.mark.parametrize("command", ["simulate", "check"])
def test_manifests(tmp_path: Path, command: str, output: str) -> None:
    """A line for each thing that is said, and objects that can be read back."""
    for seed in SEEDS:
        path = tmp_path / f"{seed}.json"
        path.write_text(json.dumps({"kind": "List", "items": manifests(Writer(seed))}))
        how = [] if output == "people" else ["-o", output]
        done = testing.CliRunner().invoke(main.vscheduler, [command, str(path), *how])
        assert done.exception is None or isinstance(done.exception, SystemExit), seed
        lines = harmless(done.stdout, folded=output == "yaml")
        harmless(done.stderr)
        assert len(lines) > 1, (seed, done.stderr)
        if output != "people":
            read: Callable[[str], Any] = json.loads if output == "json" else yaml.safe_load
            assert isinstance(read(done.stdout), dict)
        elif command == "check":
            done = testing.CliRunner().invoke(main.vscheduler, [command, str(path), "-o", "json"])
            assert len(lines) - 1 == len(json.loads(done.stdout)["complaints"])


@pytest.mark.usefixtures("restored_logging")
def test_a_configuration(tmp_path: Path) -> None:
    """A file that isn't ours, with what is wrong in it."""
    for seed in SEEDS:
        write = Writer(seed)
        path = tmp_path / f"{seed}.conf"
        tree = {
            "actions": f"allocate, {write()}",
            "tiers": [{"plugins": [{"name": write()}, {"name": "gang", write(): write()}]}],
            write(): write(),
        }
        path.write_text(json.dumps(tree))
        for words in (["check"], ["simulate", str(path)], ["run"]):
            words.append(f"--scheduler-conf={path}")
            done = testing.CliRunner().invoke(main.vscheduler, words)
            assert done.exit_code == 1
            harmless(done.stdout + done.stderr)


def cluster(write: Writer) -> queue_objects.Fake:
    """Queues and PodGroups of which all but the names of objects is somebody's."""
    amounts = {"cpu": "3", write(): "4", "memory": write()}
    conditions = [
        {"type": f"{write()}/FairShare", "status": "True", "message": write()},
        {"type": write(), "status": write(), "message": write()},
    ]
    status = {
        "state": f"s{write()}",
        "allocated": amounts,
        "deserved": {write(): write()},
        "share": 1.5,
        "conditions": conditions,
    }
    queues = [
        queue_objects.a_queue("gold", status=status, parent=f"p{write()}", capability=amounts),
        queue_objects.a_queue("silver", status=status, guarantee={"resource": amounts}),
    ]
    groups = [
        queue_objects.a_group("late", "gold", why=f"why {write()}"),
        queue_objects.a_group("later", "gold", f"phase {write()}", why=f"why {write()}"),
    ]
    return queue_objects.Fake(queues, groups)


def invoked(
    monkeypatch: pytest.MonkeyPatch, source: queue_objects.Fake, *words: str
) -> testing.Result:
    """Run a command on this cluster."""

    @contextmanager
    def opened(_kubeconfig: str, _context: str) -> Iterator[queue_objects.Fake]:
        yield source

    monkeypatch.setattr(cluster_client, "opened", opened)
    return testing.CliRunner().invoke(main.vscheduler, ["queue", *words])


QUEUE_COMMANDS = (["list"], ["list", "-o", "wide"], ["tree"], ["get", "gold", "silver"])


@pytest.mark.parametrize("words", QUEUE_COMMANDS)
def test_queues(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    """As many lines as with harmless text that is as long."""
    for seed in SEEDS:
        lines = []
        for tame in (False, True):
            done = invoked(monkeypatch, cluster(Writer(seed, tame=tame)), *words)
            assert (done.exit_code, done.stderr) == (0, ""), seed
            lines.append(harmless(done.stdout))
        assert len(lines[0]) == len(lines[1]), seed


@pytest.mark.parametrize("output", ["json", "yaml"])
@pytest.mark.parametrize("words", [["list"], ["get", "gold"]])
def test_objects_of_queues(monkeypatch: pytest.MonkeyPatch, words: list[str], output: str) -> None:
    """They are whole when they are read back."""
    for seed in SEEDS:
        source = cluster(Writer(seed))
        done = invoked(monkeypatch, source, *words, "-o", output)
        harmless(done.stdout, folded=output == "yaml")
        read: Any = json.loads(done.stdout) if output == "json" else yaml.safe_load(done.stdout)
        first = read["items"][0] if words == ["list"] else read
        assert first["status"] == source.items[Kind.QUEUE][0]["status"]


def jobs(writer: Writer) -> job_objects.Fake:
    """A job that waits, with pods and events, of which all text is somebody's.

    An API server sends UTF-8, in which there are no surrogates.
    """

    def write() -> str:
        return writer().encode(errors="replace").decode()

    found = job_objects.objects()
    (group, *_) = found[Kind.POD_GROUP]
    name = group["metadata"]["name"]
    group["metadata"]["uid"] = "u"
    job_objects.says(group, write(), "2026-01-01T11:30:00Z")
    about = {"type": "vscheduler.io/Annotations", "status": "False", "message": write()}
    group["status"]["conditions"].append(about)
    for at, pod in enumerate(found[Kind.POD]):
        job_objects.owned(pod, f"k{write()}", f"o{write()}", **{write(): write()})
        told = {"type": "PodScheduled", "status": "False", "message": write()}
        gone = {"type": "DisruptionTarget", "status": "True", "message": write()}
        pod["status"]["conditions"] = [told, gone]
        if at:
            pod["spec"]["schedulerName"] = write()
    event = {"involvedObject": {"uid": "u"}, "reason": "Evict", "message": write()}
    event |= {"eventTime": "2026-01-01T11:40:00.000000Z", "metadata": {"namespace": "default"}}
    found[Kind.EVENT] = [event]
    found[Kind.QUEUE][0]["status"] = {
        "conditions": [{"type": f"{write()}/FairShare", "message": write()}]
    }
    assert name == "runs"
    return job_objects.Fake(found)


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["list", "-o", "wide"],
        ["list", "-o", "name"],
        ["get", "runs"],
        ["why", "runs", "none"],
        ["get", "runs", "-o", "json"],
        ["list", "-o", "yaml"],
    ],
)
def test_jobs(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    """As many lines as with harmless text that is as long."""
    for seed in SEEDS:
        lines = []
        for tame in (False, True):
            source = jobs(Writer(seed, tame=tame))
            monkeypatch.setattr(
                cluster_client, "opened", lambda *_, to=source: job_objects.opened(to)
            )
            done = testing.CliRunner().invoke(main.vscheduler, ["job", *words])
            assert done.exit_code == ("none" in words), (seed, done.output)
            lines.append(harmless(done.stdout, folded="yaml" in words))
            harmless(done.stderr)
        assert len(lines[0]) == len(lines[1]) or "yaml" in words, seed


def test_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own words."""

    def opened(_kubeconfig: str, _context: str) -> queue_objects.Fake:
        raise ClusterError(write())

    monkeypatch.setattr(cluster_client, "opened", opened)
    for seed in SEEDS:
        write = Writer(seed)
        for words in (["list"], ["open", "gold"], ["get", write()], [write()]):
            done = testing.CliRunner().invoke(main.vscheduler, ["queue", *words])
            assert done.exit_code in {1, 2}
            harmless(done.stdout)
            lines = harmless(done.stderr)
            assert len(lines) == 2 or done.exit_code == 2


def seen(write: Writer) -> queue_watch.View:
    """What a watch of that cluster has seen, and what troubles it."""
    source = cluster(write)
    view = queue_watch.View()
    view.take([(Kind.QUEUE, source.list(Kind.QUEUE))])
    view.take([(Kind.POD_GROUP, source.list(Kind.POD_GROUP))])
    view.troubles[Kind.QUEUE] = write()
    return view


def test_queues_that_are_watched(capsys: pytest.CaptureFixture[str]) -> None:
    """In a file: a line each, pages, and objects."""
    for seed in SEEDS:
        style = Style(now=0.0)
        view = seen(Writer(seed))
        for show, folded in (
            (Log(_rows, style), False),
            (Pages(_lines, style), False),
            (Objects("json", []), False),
            (Objects("yaml", []), True),
        ):
            show(view, list(view.queues.values()))
            out, err = capsys.readouterr()
            assert "gold" in out
            harmless(out, folded=folded)
            assert len(harmless(err)) == 2


def _rows(view: queue_watch.View, style: Style) -> list[Row]:
    return queue_tables.list_rows(view.figures(), style)


def _lines(view: queue_watch.View, style: Style) -> list[str]:
    return [
        line
        for figure in view.figures()
        for line in queue_tables.block(figure, view.waiting(figure.name), style)
    ]


def test_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets our colours, and nothing that moves, links or names but what rich sends anyway."""
    made = Screen
    for seed in SEEDS:
        shown = []
        for tame in (False, True):
            stream = io.StringIO()
            monkeypatch.setattr(
                output, "Screen", lambda _, to=stream: made(to, force_terminal=True, width=3000)
            )
            view = seen(Writer(seed, tame=tame))
            style = Style(now=0.0, width=3000, paint=queue_watch.paint)
            with queue_watch.terminal(_lines, style) as show:
                show(view, [])
            shown.append(stream.getvalue())
        hidden = [
            [each for each in text if unicodedata.category(each) in plain_text.HIDDEN]
            for text in shown
        ]
        assert hidden[0] == hidden[1], seed
        assert "\x1b[31m" not in shown[0]


def test_the_demo() -> None:
    """Its log, its tables and its last words."""
    for seed in SEEDS:
        write, stream = Writer(seed), io.StringIO()
        group = Group(
            gang=demo_view.WAITING[0], phase=write(), bound=0, running=0, counted=0,
            reason=write(),
        )  # fmt: skip
        view = demo_view.View(shares={}, groups=(group,))
        PlainLines(stream)(view, 1.0)
        assert len(harmless(stream.getvalue())) == 2
        stream = io.StringIO()
        Screen(stream).print(demo_view.picture(view, 1.0))
        lines = harmless(stream.getvalue())
        assert len(lines) == 1 + len(demo_view.TENANTS) + 1 + 1 + 1 + 1
