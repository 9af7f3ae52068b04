"""The glossary has every word that the pages about the code use as a name."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("architecture.md", "cycles.md", "statuses.md", "processes.md")


def terms() -> set[str]:
    """Return the words of the glossary's first column; a row may explain several."""
    rows = re.findall(
        r"^\| ([\w, ]+) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE
    )
    return {term for row in rows for term in row.split(", ")}


def classes() -> set[str]:
    """Return the names of all public classes of the package."""
    return {
        name
        for path in (ROOT / "vscheduler").rglob("*.py")
        for name in re.findall(r"^ *class ([A-Z]\w*)", path.read_text(), re.MULTILINE)
    }


def test_every_class_on_the_map_is_explained() -> None:
    """Whoever reads about a class finds the field's term for it."""
    prose = "\n".join((ROOT / "docs" / page).read_text() for page in PAGES)
    named = set(re.findall(r"\b[A-Z]\w*[a-z]\w*\b", prose)) & classes()
    assert len(named) > 20
    everyday = {"Body", "Calls", "Commands", "Decisions", "Leases", "Node"}
    assert named - everyday - terms() == set()


def test_every_folder_on_the_map_is_explained() -> None:
    """Whoever reads the name of a folder finds the field's term for it."""
    drawn = re.findall(r"[├└]── (\w+)/ ", (ROOT / "docs" / "architecture.md").read_text())
    assert len(drawn) > 20
    assert set(drawn) - terms() == set()


def test_the_glossary_names_what_is_there() -> None:
    """A class that is gone leaves no row behind; words in lower case are no classes."""
    named = {term for term in terms() if re.fullmatch(r"[A-Z]\w*", term)}
    assert named - classes() == set()
