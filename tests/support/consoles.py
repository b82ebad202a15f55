"""A console that serves on a free port of this machine, and a browser to look at it with."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.ui import WebDriverWait

from rocketeer.config.ports import free_ports
from rocketeer.console.app import make_app
from rocketeer.console.config import ConsoleConfig
from rocketeer.console.pages import all_pages
from rocketeer.console.registry import Action

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="no chromium and chromedriver: make browser"
)
WAIT_S = 30
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--window-size=1200,1000",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
REGISTRY = all_pages()


@contextmanager
def serving(config: ConsoleConfig) -> Iterator[str]:
    """The console's address for as long as the block lasts."""
    _, port = free_ports()
    server = uvicorn.Server(
        uvicorn.Config(make_app(config), host="127.0.0.1", port=port, log_level="warning")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    give_up_s = time.monotonic() + WAIT_S
    while not server.started and time.monotonic() < give_up_s:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(WAIT_S)


class Browser:
    """Chromium. `acted` are the names of the actions that were done with it."""

    def __init__(self, profile: Path, downloads: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
        self.driver.set_page_load_timeout(WAIT_S)
        behaviour = {"behavior": "allow", "downloadPath": str(downloads)}
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
        self.downloads = downloads
        self.acted: set[str] = set()
        self.root = ""

    def open(self, path: str) -> str:
        """Go to a page of the console; its text, after a look whether the browser complains about it."""
        self.driver.get(self.root + path)
        assert self.complaints() == [], path
        return self.text

    @property
    def text(self) -> str:
        return self.driver.find_element(By.TAG_NAME, "main").text

    def complaints(self) -> list[str]:
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")  # type: ignore[no-untyped-call]
            if "[DOM]" not in entry["message"]
        ]

    def all(self, css: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def one(self, css: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def script(self, code: str, *arguments: object) -> object:
        return self.driver.execute_script(code, *arguments)  # type: ignore[no-untyped-call]

    def until(self, condition: object) -> None:
        WebDriverWait(self.driver, WAIT_S, poll_frequency=0.05).until(condition)  # type: ignore[arg-type]

    def leave(self, element: WebElement) -> None:
        """Click on what leads to another page, and wait until it is there."""
        # Clicked by script: a part that refreshes itself may move what the pointer aims at.
        self._leave("arguments[0].click()", element)

    def leave_by(self, link: str) -> None:
        """The same for what an expression finds, at one go: a part that refreshes itself may replace it."""
        self._leave(f"{link}.click()")

    def _leave(self, code: str, *arguments: object) -> None:
        page = self.one("html")
        self.script(code, *arguments)
        self.until(expected_conditions.staleness_of(page))
        self.until(lambda driver: self.script("return document.readyState") == "complete")

    def act(self, name: str, fields: dict[str, str] | None = None, *, path: str = "") -> str:
        """Fill in the form of an action, send it, confirm what must be confirmed; what the console said then."""
        action = REGISTRY.action(name)
        give_up_s = time.monotonic() + WAIT_S
        while True:
            try:
                self._fill_in(self._form(action, path), fields or {})
                break
            except StaleElementReferenceException:  # a part of the page refreshed itself just now
                assert time.monotonic() < give_up_s
        if action.dangerous and self.all(".will"):
            assert self.all(".will li"), "it says what it will do"
            self.leave(self.one("button.danger"))
        (said,) = self.all("#said")
        self.acted.add(name)
        assert self.complaints() == []
        return said.text

    def _fill_in(self, form: WebElement, fields: dict[str, str]) -> None:
        for field, value in fields.items():
            box = form.find_element(By.NAME, field)
            if box.get_attribute("type") == "checkbox":
                self.script("arguments[0].checked = arguments[1]", box, bool(value))
            else:
                self.script("arguments[0].value = arguments[1]", box, value)
        self.leave(form.find_element(By.TAG_NAME, "button"))

    def _form(self, action: Action, path: str) -> WebElement:
        end = path or action.path.rpartition("}")[2]
        forms = self.all(f"form[method=post][action$='{end}']")
        assert forms, f"no form for {action.name} on {self.driver.current_url}"
        return forms[0]

    def quit(self) -> None:
        self.driver.quit()
