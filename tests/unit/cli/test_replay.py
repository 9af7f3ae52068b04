import gzip
import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import testing

from vscheduler.cli import main
from vscheduler.testing import pictures

SWF = """\
; MaxNodes: 2
; MaxProcs: 4
1 0 0 100 2 -1 -1 2 120 -1 1 5 1 1 1 -1 -1 -1
2 1 0 50 4 -1 -1 4 120 -1 1 6 1 1 2 -1 -1 -1
3 2 0 10 1 -1 -1 1 120 -1 1 5 1 1 1 -1 -1 -1
"""
TABLE = "submit,duration,pods,gpu,queue\n0,60,2,2,vision\n10,60,1,4,speech\n"

FIFO = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}]
"""


def invoke(*arguments: str | Path, text: str | None = None) -> testing.Result:
    """Run the command as a person does."""
    return testing.CliRunner().invoke(main.vscheduler, ["replay", *map(str, arguments)], text)


def tree(*arguments: str | Path, text: str | None = None) -> dict[str, Any]:
    """The result as a program gets it."""
    done = invoke(*arguments, "-o", "json", text=text)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a trace in each format, and a configuration."""
    (tmp_path / "log.swf").write_text(SWF)
    (tmp_path / "jobs.csv").write_text(TABLE)
    (tmp_path / "fifo.conf").write_text(FIFO)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def times(found: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Start and end of jobs, by id."""
    return {job["id"]: (job["start"], job["end"]) for job in found["jobs"]}


@pytest.mark.usefixtures("desk")
def test_a_trace_brings_its_cluster() -> None:
    """The second job needs all four CPUs; the third starts beside the first."""
    found = tree("log.swf", "--scheduler-conf", "fifo.conf")
    assert times(found) == {"1": (0, 100), "2": (100, 150), "3": (2, 12)}
    assert found["waits"]["byQueue"]["queue-2"]["max"] == 99
    assert found["capacity"] == 4


@pytest.mark.usefixtures("desk")
def test_nodes_as_asked_for_count() -> None:
    """Six nodes of one CPU, and as many as it takes for all CPUs of the trace."""
    assert times(tree("log.swf", "--nodes", "6", "--scheduler-conf", "fifo.conf"))["2"] == (1, 51)
    assert tree("log.swf", "--node-cpus", "3")["capacity"] == 6
    assert tree("log.swf", "--node-cpus", "3", "--nodes", "1")["unstarted"][0]["id"] == "2"


@pytest.mark.usefixtures("desk")
def test_a_table_says_how_jobs_fared() -> None:
    """With progress on stderr."""
    done = invoke("log.swf", "--scheduler-conf", "fifo.conf")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["wait,", "longest", "1m39s"] in rows
    assert ["queue-2", "1", "1m39s", "1m39s", "1m39s", "1m39s", "1m39s"] in rows
    assert "fifo.conf: 100 % of 3 jobs have ended" in done.stderr
    assert "queues made, of weight 1: queue-1, queue-2" in done.stderr


@pytest.mark.usefixtures("desk")
def test_two_configurations_stand_side_by_side() -> None:
    """With differences: the built-in one is the second."""
    found = tree("log.swf", "--scheduler-conf", "fifo.conf", "--against", "")
    assert [each["name"] for each in found["replays"]] == ["fifo.conf", "built-in"]
    assert found["differences"]["waits"]["all"]["jobs"] == 0
    done = invoke("log.swf", "--scheduler-conf", "fifo.conf", "--against", "")
    assert done.stdout.split("\n")[0].split() == ["FIGURE", "FIFO.CONF", "BUILT-IN", "DIFFERENCE"]


@pytest.mark.usefixtures("desk")
def test_a_cluster_of_manifests_has_its_nodes_and_queues(tmp_path: Path) -> None:
    """Its own jobs are left out; pods of other schedulers stay."""
    picture = """
        node  n1 cpu=8 nvidia.com/gpu=4     node n2 cpu=8
        queue vision weight=3
        job   vision/old min=1 cpu=1 nvidia.com/gpu=4  n1
    """
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(pictures.documents(picture)))
    found = tree("jobs.csv", "--cluster", "cluster.yaml")
    assert times(found) == {"1": (0, 60), "2": (60, 120)}
    assert found["capacity"] == 4
    done = invoke("jobs.csv", "--cluster", "cluster.yaml")
    assert "queues made, of weight 1: speech" in done.stderr


@pytest.mark.usefixtures("desk")
def test_all_jobs_may_be_in_one_queue() -> None:
    """The figures are by the queues of the trace all the same."""
    found = tree("jobs.csv", "--nodes", "1", "--node-gpus", "4", "--one-queue")
    assert list(found["waits"]["byQueue"]) == ["speech", "vision"]


@pytest.mark.usefixtures("desk")
def test_packed_traces_and_stdin_are_read() -> None:
    """The format is known by the name, or by the first character."""
    Path("log.swf.gz").write_bytes(gzip.compress(SWF.encode()))
    assert tree("log.swf.gz") == tree("log.swf") == tree("-", text=SWF)


@pytest.mark.usefixtures("desk")
def test_what_cannot_be_used_is_said() -> None:
    """Lines with their field, columns without a meaning, and how many more there are."""
    bad = "\n".join(["submit,duration,colour", "0,1,red", *["x,1,red"] * 25])
    done = invoke("-", "--nodes", "1", text=bad)
    lines = done.stderr.splitlines()
    assert lines[0] == "stdin: left out: line 3: submit: 'x' is not a number"
    assert lines[20:22] == [
        "stdin: left out: 5 more lines",
        "stdin: column colour means nothing here",
    ]
    assert done.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("jobs.csv",), 2, "the trace doesn't tell of its nodes: give --nodes, or --cluster"),
        (("log.swf", "--cluster", ".", "--nodes", "1"), 2, "--cluster brings its own nodes"),
        (("log.swf", "--node-memory", "4x"), 2, "'4x' is not a quantity"),
        (("fifo.conf", "--nodes", "1"), 1, "fifo.conf: line 1: has no column submit"),
        (("log.swf", "--against", "missing.conf"), 1, "missing.conf: "),
        (("none.swf",), 2, "does not exist"),
    ],
)
@pytest.mark.usefixtures("desk")
def test_wrong_use_is_refused(arguments: tuple[str, ...], status: int, said: str) -> None:
    """With a sentence."""
    done = invoke(*arguments)
    assert done.exit_code == status
    assert said in " ".join(done.stderr.replace("│", "").split())


@pytest.mark.usefixtures("desk")
def test_a_report_is_one_page_without_anything_remote() -> None:
    """Charts and tables of both policies; names can't be markup."""
    Path("<b>.conf").write_text(FIFO)
    done = invoke("log.swf", "--scheduler-conf", "<b>.conf", "--against", "", "-o", "html")
    page = done.stdout
    assert done.exit_code == 0
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<img") == 1
    assert "data:image/svg+xml;base64," in page
    assert "<script" not in page
    assert "http" not in page
    assert "&lt;b&gt;.conf" in page
    assert "<b>" not in page
    assert "<td>1m39s</td>" in page


@pytest.mark.usefixtures("desk")
def test_charts_are_an_image_of_their_own() -> None:
    """And the same each time."""
    done = invoke("log.swf", "-o", "svg")
    root = ET.fromstring(done.stdout)  # noqa: S314 - our own
    assert root.tag.endswith("svg")
    assert "CPUs in use, in % of all" in done.stdout
    assert invoke("log.swf", "-o", "svg").stdout == done.stdout


@pytest.mark.usefixtures("desk")
def test_without_the_library_charts_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else does without it."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = invoke("log.swf", "-o", "html")
    assert done.exit_code == 1
    assert "pip install 'vscheduler[charts]'" in done.stderr
    assert invoke("log.swf").exit_code == 0


@pytest.mark.usefixtures("desk")
def test_a_mode_of_backfill_is_that_of_the_policy() -> None:
    """The small job would still run when the one that needs all is promised a start."""
    promised = {"1": (0.0, 100.0), "2": (100.0, 150.0), "3": (150.0, 160.0)}
    for mode, expected in (
        ("none", {"1": (0.0, 100.0), "2": (100.0, 150.0), "3": (2.0, 12.0)}),
        ("easy", promised),
        ("conservative", promised),
    ):
        found = tree("log.swf", "--scheduler-conf", "fifo.conf", "--backfill", mode)
        assert times(found) == expected, mode
    both = tree("log.swf", "--scheduler-conf", "fifo.conf", "--against", "easy")["replays"]
    assert [times(each)["3"] for each in both] == [(2.0, 12.0), (150.0, 160.0)]
