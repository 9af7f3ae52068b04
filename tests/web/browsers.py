"""A headless browser, and what a person does with the page."""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from axe_core_python.selenium import Axe
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.05
SCRIPT_SECONDS = 300.0
"""For axe-core on a busy machine."""
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
"""Root can't use the sandbox of Chromium; the tests open only pages of ours."""


@dataclass(slots=True)
class Person:
    """Looks at the page."""

    driver: webdriver.Chrome

    def open(self, url: str, width: int = 1600, scheme: str = "light") -> None:
        """Open the page in a window of this width, without any session."""
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.resize(width, 1000)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        self.driver.get(url)

    def resize(self, width: int, height: int) -> None:
        """Give the window another size; below 500 pixels it is a telephone's."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
        )

    def sign_in(self, token: str) -> None:
        """Type the token, press Enter, and wait for the page."""
        self.until(lambda: self.one("#token").is_displayed())
        self.one("#token").send_keys(token, Keys.ENTER)
        self.until(lambda: self.one("#page").is_displayed())
        self.until(lambda: self.one("#connection").text == "Live")
        self.until(lambda: self.many("#view .panel"))

    def go(self, address: str) -> None:
        """Go to a view by its address, such as `jobs?state=running`."""
        script = "location.hash = arguments[0]"
        self.driver.execute_script(script, f"#/{address}")
        view = address.partition("?")[0].partition("/")[0] or "overview"
        self.until(lambda: self.many(f".view-{view} .panel:not([hidden]) *"))
        self.until(lambda: self.many(f".view-{view} h1"))

    def one(self, selector: str) -> WebElement:
        """The first element."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def many(self, selector: str) -> list[WebElement]:
        """All elements."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    @property
    def text(self) -> str:
        """All that is to be read."""
        return str(self.driver.execute_script("return document.body.innerText"))

    @property
    def focused(self) -> str:
        """What has the focus: its identifier, else its text or label."""
        element = self.driver.switch_to.active_element
        named = element.get_attribute("id") or element.text
        return str(named or element.get_attribute("aria-label"))

    def press(self, *keys: str) -> None:
        """Press keys, whatever has the focus."""
        for key in keys:
            webdriver.ActionChains(self.driver).send_keys(key).perform()

    def until(self, done: Callable[[], object]) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with contextlib.suppress(Exception):  # what is replaced meanwhile is looked up again
                if done():
                    return
            assert time.monotonic() < deadline, self.text
            time.sleep(POLL_SECONDS)

    def violations(self) -> list[str]:
        """What axe-core finds fault with."""
        found: dict[str, Any] = Axe().run(self.driver)
        return [
            f"{each['id']}: {node['html'][:200]}: {node.get('failureSummary', '')[:300]}"
            for each in found["violations"]
            for node in each["nodes"]
        ]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        script = (
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return int(self.driver.execute_script(script))


@contextlib.contextmanager
def person() -> Iterator[Person]:
    """A person with a browser of their own."""
    options = webdriver.ChromeOptions()
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert chromium, "see tests/web/__main__.py"
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    opened = webdriver.Chrome(options=options, service=Service(driver))
    opened.set_script_timeout(SCRIPT_SECONDS)
    try:
        yield Person(opened)
    finally:
        opened.quit()
