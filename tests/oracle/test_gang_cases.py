from pathlib import Path

from tests.oracle.gang_api import cases

PAGE = Path(__file__).parents[2] / "docs" / "kubernetes-podgroup.md"


def test_the_page_has_what_was_seen() -> None:
    """The table side by side is that of the cases, which tests run on both schedulers."""
    assert "\n".join(cases.table(cases.expected())) in PAGE.read_text(encoding="utf-8")
