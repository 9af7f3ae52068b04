"""docs/ and README.md name whatever there is, and nothing that isn't there."""

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from vscheduler.cli import main
from vscheduler.controllers.queues import queue_reconcile
from vscheduler.daemon.observability import metric_table
from vscheduler.mirror import queue_status, statuses
from vscheduler.mirror.translate import pod_owners
from vscheduler.mirror.wording import gang_sentences, sentences
from vscheduler.model import jobs
from vscheduler.model.decisions import LimitedBy, ReasonCode
from vscheduler.model.queues import ProblemCode

ROOT = Path(__file__).parents[2]
PAGES = {path.name: path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))}
README = (ROOT / "README.md").read_text()
TEXTS = {"README.md": README, **PAGES}
ALL = "\n".join(TEXTS.values())
ROOMS = ("cli", "cluster", "controllers", "core", "daemon", "mirror", "model")
SOURCES = sorted(path for room in ROOMS for path in (ROOT / "vscheduler" / room).rglob("*.py"))

MODULES = sorted((ROOT / "vscheduler").rglob("*.py"))

GROUPS = r"(?:[a-z0-9-]+\.)*(?:volcano\.sh|vscheduler\.io|k8s\.io|kubernetes\.io)"
KEY = re.compile(rf"{GROUPS}/[A-Za-z](?:[\w.-]*\w)?")
API_VERSION = re.compile(r"/v\d+(?:(?:alpha|beta)\d+)?$")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+[a-z]")

STRANGERS = {
    "--all", "--all-namespaces", "--field-manager", "--for", "--replicas", "--server-side",
    "--subresource", "--timeout", "--type",  # kubectl
    "--create-namespace", "--set", "--take-ownership", "--values",  # helm
    "--directory", "--keep", "--no-browser", "--nodes", "--with-scheduler",  # python -m sandbox
    "--with-gang-api",
    "--runtime-config",  # kube-apiserver
    "--at-length", "--lease-timing",  # pytest, of this repository
    "--calm", "--denied", "--devices", "--fault", "--hours", "--job-seconds", "--jobs",
    "--lease-seconds", "--network", "--often", "--pauses", "--quiet", "--shrink", "--usual",
    "--volumes", "--workers",  # python -m tests.simulation
    "--crds", "--kubelets", "--peer", "--peer-name", "--peer-without-groups", "--rest",
    "--restart", "--starved", "--runs",  # make bench
    "--attempts", "--gangs", "--packing",  # make bench-gangs
    "--gang-api",  # make bench
    "--schedulers",  # python -m tests.benchmarks.core.size
    "--one-by-one", "--size",  # python -m tests.benchmarks.core.starved
    "--seed", "--worlds",  # make test-oracle
}  # fmt: skip
"""Flags of other programs, which docs speak of."""

OF_KUBERNETES = {"kubernetes.io/metadata.name"}
"""Keys that every cluster has."""

EVENT_TYPES = {"Normal", "Warning"}


def commands(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """The command, and those within it, by the words that call them."""
    yield words, command
    if isinstance(command, click.Group):
        for name in command.commands:
            yield from commands(f"{words} {name}", command.commands[name])


COMMANDS = dict(commands("vscheduler", main.vscheduler))


def flags(command: click.Command) -> set[str]:
    """The long flags that it takes."""
    found = [param for param in command.params if isinstance(param, click.Option)]
    return {word for each in found for word in each.opts if word.startswith("--")}


def page_of(words: str) -> str:
    """The text that explains a command."""
    names = {
        "check": "check.md",
        "convert": "coming-from-kueue.md",
        "job": "jobs.md",
        "job history": "history.md",
        "plugin": "plugins.md",
        "replay": "replay.md",
        "report": "history.md",
        "simulate": "simulate.md",
        "queue": "queues.md",
        "what-if": "queues.md",
        "run": "volcano.md",
        "status": "operations.md",
    }
    command, *within = words.split()[1:] or [""]
    return PAGES.get(names.get(" ".join((command, *within)), names.get(command, "")), README)


@functools.cache
def strings(path: Path) -> frozenset[str]:
    """The texts of a module that aren't docstrings."""
    tree = ast.parse(path.read_text())
    spoken = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }  # docstrings of modules, classes, functions and attributes alike
    return frozenset(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in spoken
    )


def keys_in_code() -> set[str]:
    """Annotations, labels, finalizers, taints and types of conditions that the code names."""
    found = {
        text
        for path in SOURCES
        for text in strings(path)
        if KEY.fullmatch(text) and not API_VERSION.search(text)
    }
    return found - OF_KUBERNETES


def events_in_code() -> set[str]:
    """Reasons of events: what follows their type, wherever that stands."""
    found = set()
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        names = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Tuple) or len(node.elts) != 3:
                continue
            kinds = {
                each.value for each in ast.walk(node.elts[0]) if isinstance(each, ast.Constant)
            }
            if kinds and kinds <= EVENT_TYPES:
                reason = node.elts[1]
                if isinstance(reason, ast.Constant):
                    found.add(str(reason.value))
                else:
                    assert isinstance(reason, ast.Name), ast.dump(node)
                    found.add(str(names[reason.id]))
    return found


def section(page: str, title: str) -> str:
    """The part of a page below a heading."""
    _, found, after = PAGES[page].partition(f"\n## {title}\n")
    assert found, title
    return after.partition("\n## ")[0]


def cells(text: str, column: int) -> list[str]:
    """One column of its tables, rows of titles left out."""
    rows = [
        re.split(r" ?(?<!\\)\| ?", line)[1:-1] for line in text.splitlines() if line.startswith("|")
    ]
    return [row[column] for row in rows if len(row) > column]


def quoted(text: str) -> set[str]:
    """What stands in backticks."""
    return set(re.findall(r"`([^`]+)`", text))


@pytest.mark.parametrize("words", COMMANDS)
def test_every_flag_is_in_the_docs(words: str) -> None:
    """On the page about its command; --help and --version are everybody's."""
    text = page_of(words)
    missing = {
        flag
        for flag in flags(COMMANDS[words]) - {"--help", "--version", "--output"}
        if not re.search(rf"{flag}(?![\w-])", text)
    }
    assert missing == set()


def test_every_flag_of_the_docs_exists() -> None:
    """Of some command of ours, or of a program that is known here."""
    known = STRANGERS.union(*map(flags, COMMANDS.values()), {"--help", "--version"})
    volcano = set(FLAG.findall(PAGES["volcano.md"]))
    for name, text in TEXTS.items():
        if name != "volcano.md":
            assert set(FLAG.findall(text)) - known - volcano == set(), name


def test_every_key_is_in_the_docs() -> None:
    """Annotations, labels and finalizers that are read or written, and types of conditions."""
    found = keys_in_code()
    assert len(found) > 25
    assert {key for key in found if key not in ALL} == set()


def test_every_key_of_ours_in_the_docs_exists() -> None:
    """Nobody writes an annotation that nothing reads."""
    policies = (ROOT / "manifests" / "admission").rglob("*.yaml")
    known = keys_in_code()
    known |= {key for path in policies for key in KEY.findall(path.read_text())}
    named = {key for text in TEXTS.values() for key in KEY.findall(text) if "vscheduler.io/" in key}
    named = {key for key in named if not key.startswith("holder-binds.")}
    assert {key for key in named if key not in known} == set()


def test_every_metric_of_the_docs_exists() -> None:
    """docs/metrics.md has them all, and no page another one."""
    known = {row.name for row in metric_table.EVERY}
    for name, text in TEXTS.items():
        found = set(re.findall(r"\b(?:vscheduler_[a-z_]+|volcano_[a-z_]+)\b", text))
        found = {each for each in found if not each.endswith("_")}
        assert {each for each in found if each not in known} == set(), name


def test_every_event_is_in_the_docs() -> None:
    """docs/operations.md has a row for each reason, and none that isn't recorded."""
    rows = [cell.strip("`") for cell in cells(section("operations.md", "What events say"), 0)]
    assert sorted(rows[2:]) == sorted(events_in_code())


def test_every_reason_to_wait_is_in_the_docs() -> None:
    """What it is stands in docs/simulate.md, what to do in docs/operations.md; in both all."""
    codes = [str(code) for code in ReasonCode]
    explained = cells(section("simulate.md", "Reasons"), 0)[2:]
    assert [each.strip("`") for each in explained] == codes
    advised = cells(section("operations.md", "What to do when a job waits"), 0)[2:]
    assert sorted(code for cell in advised for code in quoted(cell)) == sorted(codes)


LIMITS = ("may have at most", "beside the", "kept for")
"""Words of sentences about limits, where waiting may not help."""


def test_sentences_about_limits_are_in_the_docs() -> None:
    """Both tables say them as wording does."""
    source = "".join(inspect.getsource(module) for module in (sentences, gang_sentences))
    text = re.sub(r"\{[^}]*\}", "…", source)
    assert [words for words in LIMITS if words not in text] == []
    for page, title in (
        ("simulate.md", "Reasons"),
        ("operations.md", "What to do when a job waits"),
    ):
        assert [words for words in LIMITS if words not in section(page, title)] == []


def test_every_condition_of_queues_is_in_the_docs() -> None:
    """docs/operations.md has each type, and each reason that it comes with."""
    text = section("operations.md", "What conditions of Queues say")
    fair = {str(bound) for bound in LimitedBy} | {
        queue_status.NO_REQUEST,
        queue_status.SET_ASIDE,
    }
    inner = {str(ProblemCode.INNER_JOBS)}  # only ever said of a queue that is set aside
    tree = {str(code) for code in ProblemCode} - inner
    controller = Path(queue_reconcile.__file__).read_text()
    tree |= set(re.findall(r'"(TooDeep|Children\w+)"', controller))
    others = set(re.findall(r'_condition\([A-Z_]+, "\w+", "(\w+)"', controller))
    others |= {"PodGroups", "ChildQueues"}
    assert others >= {"ParentClosed", "RootStaysOpen", "Unreadable"}
    named = {word for cell in cells(text, 1)[2:] for word in quoted(cell)}
    assert named == fair | tree | others
    types = {word for cell in cells(text, 0)[2:] for word in quoted(cell)}
    found = {key for key in keys_in_code() if re.fullmatch(r"vscheduler\.io/[A-Z]\w+", key)}
    of_pod_groups = {pod_owners.CONDITION}
    native = {jobs.PHASE, jobs.SUCCEEDED_PODS, statuses.NATIVE_UNSCHEDULABLE}
    assert types == {"<scheduler name>/FairShare", *found - of_pod_groups - native}
    assert of_pod_groups <= quoted(PAGES["controllers.md"])
    assert all(f"`{key}`" in PAGES["kubernetes-podgroup.md"] for key in native)


def test_log_events_of_the_docs_exist() -> None:
    """Who searches the log for one finds it."""
    known = {text for path in SOURCES for text in strings(path)}
    kinds = r"(?:cycle|config|configuration|flags|lease|node|object|owners|podgroup|queue)"
    for name, text in TEXTS.items():
        named = set(re.findall(rf"`({kinds}\.[a-z_]+)`", text)) - {"queue.md"}
        assert {each for each in named if each not in known} == set(), name


def test_the_readme_lists_every_page() -> None:
    """Whoever reads on finds each under the group that it is for."""
    _, _, after = README.partition("\n## Read on\n")
    listed = re.findall(r"\]\(docs/([\w-]+\.md)\)", after.partition("\n## ")[0])
    assert sorted(listed) == sorted(PAGES)


def test_the_speed_in_the_readme_is_that_of_the_docs() -> None:
    """Each row of the short table has its figures from a row of docs/benchmarks.md."""
    _, _, after = README.partition("\n## How fast\n")
    rows = re.findall(r"^\|.*\| (\S+scheduler) \| (\S+) \| (.+) \| (\S+) \|$", after, re.MULTILINE)
    assert len(rows) == 4
    measured = section("benchmarks.md", "Results").splitlines()
    for name, pods, waits, seconds in rows:
        full = (f"| {name} | {pods} (", f"| {waits} |", f"| {seconds} |")
        assert any(all(part in line for part in full) for line in measured), name


def test_the_map_names_what_is_there() -> None:
    """Files and folders of docs/architecture.md: by their path, or by the name of one beside it."""
    prose = re.sub(r"^```.*?^```", "", PAGES["architecture.md"], flags=re.MULTILINE | re.DOTALL)
    roots = (ROOT, ROOT / "vscheduler", ROOT / "tests")
    named = {word for word in quoted(prose) if re.fullmatch(r"[\w./-]+(?:\.py|\.ya?ml|/)", word)}
    assert len(named) > 60
    beside = {path.name for root in roots[1:] for path in root.rglob("*.py")}
    assert {
        word
        for word in named
        if not any((root / word).exists() for root in roots) and word not in beside
    } == set()


FILE = r"`(?P<file>[\w./]+\.py)`"
NAMES = r"(?P<names>`[A-Za-z_][\w.]*`(?:(?:, and|,| and) `[A-Za-z_][\w.]*`)*)"
NAMES_OF_FILES = (
    re.compile(rf"{FILE}(?:,|:)?\s+{NAMES}"),
    re.compile(rf"{NAMES}\s+(?:of|in)\s+{FILE}"),
)


def blocks(text: str) -> list[str]:
    """Return rows of tables, items of lists, and paragraphs."""
    parts = re.split(r"\n\s*\n|\n(?= *(?:\d+\.|[-*]) )|\n(?=\|)", prose_of(text))
    return [" ".join(part.split()) for part in parts]


@functools.cache
def defined(path: Path) -> frozenset[str]:
    """Return what a module defines; members of classes by their names, and as `Class.member`."""
    found: set[str] = set()

    def visit(body: list[ast.stmt], prefix: str = "") -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names = [node.name]
            else:
                targets = node.targets if isinstance(node, ast.Assign) else []
                targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
                names = [each.id for each in targets if isinstance(each, ast.Name)]
            found.update(names, (prefix + name for name in names))
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{node.name}.")

    visit(ast.parse(path.read_text()).body)
    return frozenset(found)


def modules(word: str) -> list[Path]:
    """Return the file of this path, or all files of this name."""
    for root in (ROOT, ROOT / "vscheduler", ROOT / "tests"):
        if (root / word).exists():
            return [root / word]
    return [path for path in MODULES if path.name == word]


@pytest.mark.parametrize("page", PAGES)
def test_names_are_in_the_files_that_they_are_said_to_be_in(page: str) -> None:
    """What stands beside a file, and private names beside any file of the same paragraph."""
    missing = []
    for block in blocks(PAGES[page]):
        for pattern in NAMES_OF_FILES:
            for found in pattern.finditer(block):
                names = {name for name in quoted(found["names"]) if not name.endswith(".py")}
                every = [defined(path) for path in modules(found["file"])]
                missing += [
                    f"{name} in {found['file']}"
                    for name in sorted(names)
                    if not any(name in each for each in every)
                ]
        near = [path for word in quoted(block) if word.endswith(".py") for path in modules(word)]
        private = (
            {word for word in quoted(block) if re.fullmatch(r"_[a-z]\w*", word)} if near else ()
        )
        missing += sorted(set(private) - frozenset[str]().union(*map(defined, near)))
    assert missing == []


CODE_PAGES = ("architecture.md", "cycles.md", "glossary.md", "processes.md", "statuses.md")


@pytest.mark.parametrize("page", CODE_PAGES)
def test_methods_on_the_map_exist(page: str) -> None:
    """`Class.method` is defined in some module."""
    known = frozenset[str]().union(*map(defined, MODULES))
    named = {word for word in quoted(PAGES[page]) if re.fullmatch(r"[A-Z]+[a-z]\w*\.\w+", word)}
    assert named - known == set()


def test_the_map_draws_every_folder() -> None:
    """The house of docs/architecture.md has a line for each folder of the package."""
    drawn = set(re.findall(r"[├└]── (\w+)/ ", PAGES["architecture.md"]))
    folders = {path.parent.name for path in (ROOT / "vscheduler").rglob("__init__.py")}
    assert drawn == folders - {"vscheduler"}


def prose_of(text: str) -> str:
    """The page without its code blocks."""
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """What headings can be linked to, as GitHub has it."""
    prose = prose_of(text)
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.replace(" ", "-") for title in kept}


LINE = 160
"""Characters of a line that a person reads at once."""


@pytest.mark.parametrize(
    "path",
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *(ROOT / "docs" / name for name in PAGES),
    ],
)
def test_lines_can_be_read_at_once(path: Path) -> None:
    """Nobody reads a paragraph in a cell: what a row can't say stands below its table."""
    long = [line for line in prose_of(path.read_text()).splitlines() if len(line) > LINE]
    assert long == []


@pytest.mark.parametrize(
    "path",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))],
)
def test_links_lead_somewhere(path: Path) -> None:
    """To a file of the repository, and to a heading of it."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (
            anchor and target.suffix == ".md" and anchor not in anchors(target.read_text())
        ):
            broken.append(link)
    assert broken == []
