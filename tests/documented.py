"""The commands of README.md, CONTRIBUTING.md and docs/, and how each of them is tested."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": ROOT / "README.md",
    "CONTRIBUTING.md": ROOT / "CONTRIBUTING.md",
    **{path.name: path for path in sorted((ROOT / "docs").glob("*.md"))},
}
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
"""What a block is written in, and the block; commands are in blocks that don't say."""
BROKEN = re.compile(r"(\\|\|)\n\s*")
"""The end of a line that goes on."""
COMMAND = re.compile(
    r"(?:\$ )?"
    r"(?P<text>(?:\.|docker|eval|helm|kill|kubectl|make|pip|pytest|python|sed|vscheduler) .+)"
)
HERE = ("On this machine",)
"""Sections of docs/quick-start.md that are followed as a whole."""

INTEGRATION = "tests/integration/"
PAST = "tests/unit/cli/job/test_past.py::"


class Way(StrEnum):
    """How a command is tested."""

    OFFLINE = "tests/meta/test_commands.py runs it on files of these names"
    MAKE = "tests/meta/test_commands.py asks make what it would do"
    CLUSTER = "tests/integration/test_documented_commands.py runs it on the sandbox"
    FOLLOWED = "the same follows the page from its start"
    ELSEWHERE = "a test that is named below does the same, and more"


ELSEWHERE: Mapping[str, str] = {
    "docker build -t registry.example.com/vscheduler:0.1.0 .": (
        f"{INTEGRATION}test_image.py::test_the_image_schedules"
    ),
    "docker push registry.example.com/vscheduler:0.1.0": (
        f"{INTEGRATION}test_image.py::test_the_image_schedules"
    ),
    "helm install vscheduler charts/vscheduler --namespace volcano-system --create-namespace "
    "--set image.repository=registry.example.com/vscheduler": (
        f"{INTEGRATION}test_helm.py::test_the_chart_is_installed_changed_and_removed"
    ),
    "kubectl apply -n monitoring -f manifests/monitoring/": (
        f"{INTEGRATION}test_manifests.py::test_the_api_server_takes_everything"
    ),
    "pip install .": f"{INTEGRATION}test_image.py::test_the_image_schedules",
    "pytest tests/scenarios tests/meta": "Makefile::test",
    "pytest tests/scenarios/test_maintenance.py tests/meta tests/unit/core/config": (
        "tests/meta/test_catalogues.py::test_the_first_change_works"
    ),
    "pytest tests/unit": "Makefile::test",
    "python -m tests.oracle gangs-ports --seed 7": "Makefile::test-oracle",
    "python -m tests.oracle taints --worlds 200": "Makefile::test-oracle",
    "python -m sandbox build": "Makefile::binaries",
    "python -m sandbox --nodes 10": (
        f"{INTEGRATION}test_sandbox.py::test_sandbox_ends_with_its_parent"
    ),
    "python -m sandbox --directory d --keep": (
        f"{INTEGRATION}test_sandbox.py::test_kept_sandbox_runs_until_it_is_stopped"
    ),
    "python -m sandbox stop --directory d": (
        f"{INTEGRATION}test_sandbox.py::test_kept_sandbox_runs_until_it_is_stopped"
    ),
    "python -m sandbox demo --keep": (
        f"{INTEGRATION}test_demo.py::test_the_demo_shows_what_it_should_and_leaves_nothing"
    ),
    'eval "$(_VSCHEDULER_COMPLETE=bash_source vscheduler)"': (
        "tests/unit/cli/test_completion.py::test_the_shell_gets_its_script"
    ),
    "vscheduler job list -w": (
        f"{INTEGRATION}test_job_commands.py::test_a_watch_tells_what_changes"
    ),
    "vscheduler queue close research": (
        f"{INTEGRATION}test_queue_opening.py::test_the_command_opens_and_closes"
    ),
    "vscheduler queue open research": (
        f"{INTEGRATION}test_queue_opening.py::test_the_command_opens_and_closes"
    ),
    "vscheduler queue list -w --sort-by share": (
        f"{INTEGRATION}test_queue_commands.py::test_a_watch_tells_what_changes"
    ),
    "vscheduler job history -n team-a --since 7d": f"{PAST}test_filters",
    "vscheduler job history -A --queue vision --state completed -o csv": (
        f"{PAST}test_values_are_exact"
    ),
    "vscheduler report --since 7d --by job -n team-a": (
        f"{PAST}test_a_report_by_job_has_a_row_for_those_without_one"
    ),
    "vscheduler report --since 30d --by user": f"{PAST}test_a_report_sums_up",
    "vscheduler status": "tests/unit/cli/test_status.py::test_all_is_well",
    "vscheduler run --kubeconfig ~/.kube/config": (
        f"{INTEGRATION}test_documented_commands.py::test_the_quick_start_leads_to_gangs_that_run"
    ),
    **{
        f"vscheduler run --scheduler-name={name} --leader-elect-resource-name={name} "
        "--leader-elect-resource-namespace=volcano-system": (
            f"{INTEGRATION}test_side_by_side.py::test_the_articles_two_schedulers_live_side_by_side"
        )
        for name in ("volcano-online", "volcano-offline")
    },
}
"""Commands of which another test does the work: without containers, or with more to look at."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a page, without its comment."""

    page: str
    section: str
    text: str

    @property
    def way(self) -> Way | None:
        """How it is tested; None where nobody has said."""
        if self.text in ELSEWHERE:
            return Way.ELSEWHERE
        if self.page == "quick-start.md" and self.section in HERE:
            return Way.FOLLOWED
        for way, starts in (
            (Way.OFFLINE, ("vscheduler check ", "vscheduler replay ", "vscheduler simulate ")),
            (Way.MAKE, ("make ",)),
            (Way.CLUSTER, ("kubectl ", "sed ", "vscheduler job ", "vscheduler queue ")),
        ):
            if self.text.startswith(starts):
                return way
        return None


def commands() -> Iterator[Command]:
    """All of them, page by page, in their order."""
    for name, path in PAGES.items():
        for part in re.split(r"^## ", path.read_text(), flags=re.MULTILINE):
            for block in (text for language, text in BLOCK.findall(part) if not language):
                for line in BROKEN.sub(lambda end: end[1].strip("\\"), block).splitlines():
                    found = COMMAND.fullmatch(line.strip())
                    if found is not None:
                        text = re.sub(r"\s+# .*", "", found["text"])
                        yield Command(name, part.partition("\n")[0], text.strip())
