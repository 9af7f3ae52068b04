"""A browser for the demo's page, where this session has one with windows."""

import os
import sys
import webbrowser
from collections.abc import Mapping

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
"""Set where a Linux session can show windows. Browsers in a terminal would hide the demo."""


def shows(link: str, *, environment: Mapping[str, str] = os.environ) -> bool:
    """Open a link; return False where no browser can show it."""
    if sys.platform == "linux" and not any(map(environment.get, DISPLAYS)):
        return False
    try:
        return webbrowser.open(link)
    except (webbrowser.Error, OSError):
        return False
