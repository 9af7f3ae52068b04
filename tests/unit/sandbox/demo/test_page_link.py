"""Where the demo opens a browser."""

import sys
import webbrowser

import pytest

from sandbox.demo import page_link

LINK = "http://127.0.0.1:1/#sign-in=x"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The links that a browser was given, on Linux."""
    links: list[str] = []

    def open_(link: str) -> bool:
        links.append(link)
        return True

    monkeypatch.setattr(webbrowser, "open", open_)
    monkeypatch.setattr(sys, "platform", "linux")
    return links


def test_a_session_with_windows_shows_the_page(opened: list[str]) -> None:
    """By either of the two display servers."""
    for name in page_link.DISPLAYS:
        assert page_link.shows(LINK, environment={name: ":0"})
    assert opened == [LINK, LINK]


def test_a_session_without_windows_does_not(
    opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one without any browser."""
    assert not page_link.shows(LINK, environment={"DISPLAY": ""})
    assert opened == []

    def missing(_: str) -> bool:
        raise webbrowser.Error

    monkeypatch.setattr(webbrowser, "open", missing)
    assert not page_link.shows(LINK, environment={"DISPLAY": ":0"})


def test_who_came_over_ssh_is_told_how_to_reach_the_page() -> None:
    """The address is one of the other machine."""
    (line,) = page_link.forwarding(LINK, environment={"SSH_CONNECTION": "a 1 b 22"})
    assert "ssh -L 1:127.0.0.1:1 " in line
    assert page_link.forwarding(LINK, environment={}) == []
