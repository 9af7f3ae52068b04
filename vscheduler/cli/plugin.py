"""`vscheduler plugin new NAME`: a package with a plugin and its test, to start from."""

import re
from pathlib import Path

import click

from vscheduler.cli import screen

NAME = re.compile(r"[a-z][a-z0-9-]*")

MODULE = '''"""{name}: which nodes its pods avoid, and which they prefer."""

from vscheduler.core.api.contracts import Argument, FilterResult, On, Plugin, depends_on


class {kind}(Plugin):
    """Pods stay off nodes with a label."""

    name = "{name}"
    arguments = {{"{name}.label": Argument(str, "example.com/{name}")}}

    @depends_on(On.NODE)
    def class_nodes(self, pod_class, layout):
        """Return the nodes that pods may use if these are empty; shares are computed from them."""
        column, _ = layout.label(self.argument("{name}.label"))
        return column < 0

    @depends_on(On.NODE)
    def filter_nodes(self, task, nodes):
        """Return which of the nodes pass, and what is said of the others."""
        label = self.argument("{name}.label")
        passing = nodes.of(self.class_nodes(None, nodes.layout))
        return [FilterResult(f"node(s) had label {{label}}", passing)]
'''

TEST = '''"""Tests of the plugin. They need no cluster."""

from {module} import {kind}
from vscheduler.testing import decide


def test_pods_stay_off_nodes_with_the_label():
    """The pod goes to the only other node."""
    decisions = decide(
        """
        node  kept cpu=4 label=example.com/{name}=yes
        node  open cpu=4
        queue q
        job   q/a min=1 cpu=1  -
        """,
        plugins=[{kind}],
        tiers="gang | {name} predicates",
    )
    assert decisions.binds == {{"a-0": "open"}}
'''

PROJECT = """[project]
name = "vscheduler-{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["vscheduler"]

[project.entry-points."vscheduler.plugins"]
{name} = "{module}:{kind}"

[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[tool.setuptools]
py-modules = ["{module}"]
"""


@click.group("plugin", cls=screen.Commands, short_help="Start a plugin of your own.")
def command() -> None:
    """Start a plugin of your own."""


@command.command(short_help="Create a package with a plugin and its test.")
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    help="Where the package is created; a folder called like the plugin, if it isn't given.",
)
def new(name: str, directory: Path | None) -> None:
    """Create a package with the plugin NAME and its test.

    The package registers the plugin; install it beside vscheduler, and name the plugin in the
    configuration.
    """
    if not NAME.fullmatch(name):
        message = f"{name}: a plugin's name has lower-case letters, digits and dashes"
        raise click.UsageError(message)
    folder = directory or Path(name)
    if folder.exists() and any(folder.iterdir()):
        message = f"{folder}: isn't empty"
        raise click.ClickException(message)
    module = f"vscheduler_{name.replace('-', '_')}"
    words = {"name": name, "module": module, "kind": name.title().replace("-", "")}
    folder.mkdir(parents=True, exist_ok=True)
    files = {f"{module}.py": MODULE, f"test_{module}.py": TEST, "pyproject.toml": PROJECT}
    for file, text in files.items():
        (folder / file).write_text(text.format(**words))
    screen.say(f"created {folder}: try `pip install -e {folder} pytest && pytest {folder}`")
