"""The console in a real browser: what only JavaScript, CSS and the content security policy can break.

Needs Debian's `chromium` and `chromium-driver` (`make browser` installs them); says so where they are not.
"""

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from rocketeer import Message, Producer
from rocketeer.config.ports import free_ports
from rocketeer.console.app import make_app
from rocketeer.console.config import ClusterConfig, ConsoleConfig
from rocketeer.testing import Cluster

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None, reason="no chromium and chromedriver: make browser"
    ),
    pytest.mark.timeout(300),
]
WAIT_S = 60
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--window-size=1200,1000",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip


@pytest.fixture(scope="module")
def address(shop: Cluster) -> Iterator[str]:
    _, port = free_ports()
    config = ConsoleConfig(clusters=(ClusterConfig(name="shop", nameserver=shop.nameserver),))
    server = uvicorn.Server(
        uvicorn.Config(make_app(config), host="127.0.0.1", port=port, log_level="warning")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    give_up_s = time.monotonic() + WAIT_S
    while not server.started and time.monotonic() < give_up_s:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(WAIT_S)


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chrome')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    driver.set_page_load_timeout(WAIT_S)
    yield driver
    driver.quit()


def until(chrome: webdriver.Chrome, condition: object) -> None:
    WebDriverWait(chrome, WAIT_S).until(condition)  # type: ignore[arg-type]


def complaints(chrome: webdriver.Chrome) -> list[str]:
    return [
        entry["message"]
        for entry in chrome.get_log("browser")
        if "favicon" not in entry["message"] and "[DOM]" not in entry["message"]
    ]  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    "path",
    ["/", "/cluster", "/topics", "/groups", "/producers", "/messages?topic=hostile", "/dead-letters", "/delayed",
     "/transactions", "/trace?id=x", "/access", "/operations"],
)  # fmt: skip
def test_no_page_makes_the_browser_complain(chrome: webdriver.Chrome, address: str, path: str) -> None:
    chrome.get(f"{address}/c/shop{path}")
    assert chrome.find_element(By.TAG_NAME, "h1").text
    assert complaints(chrome) == []


def test_the_dashboard_draws_a_chart_and_goes_on_by_itself(
    chrome: webdriver.Chrome, address: str, shop: Cluster
) -> None:
    chrome.get(f"{address}/c/shop/")
    until(chrome, lambda driver: driver.find_elements(By.CSS_SELECTOR, ".chart canvas"))
    with Producer("shop", nameserver=shop.nameserver) as producer:

        def more(driver: webdriver.Chrome) -> bool:
            producer.send(Message("orders", b"more"))
            return driver.find_element(By.ID, "in-tps").text not in ("", "0.0", "\u2013")

        until(chrome, more)
    assert complaints(chrome) == []


def test_a_message_that_is_a_script_is_text(chrome: webdriver.Chrome, address: str) -> None:
    chrome.get(f"{address}/c/shop/messages?topic=hostile")
    chrome.find_elements(By.CSS_SELECTOR, "tbody a")[0].click()
    assert '<script>alert("x")</script>' in chrome.find_element(By.TAG_NAME, "main").text
    assert complaints(chrome) == []


def test_a_topic_is_made_and_a_dangerous_action_is_confirmed(chrome: webdriver.Chrome, address: str) -> None:
    chrome.get(f"{address}/c/shop/topics")
    chrome.find_element(By.CSS_SELECTOR, "details.action summary").click()
    chrome.find_element(By.NAME, "topic").send_keys("by-browser")
    chrome.find_element(By.CSS_SELECTOR, "details.action button").click()
    until(
        chrome, lambda driver: any("by-browser" in said.text for said in driver.find_elements(By.ID, "said"))
    )
    chrome.get(f"{address}/c/shop/topics/by-browser")
    (danger,) = chrome.find_elements(By.CSS_SELECTOR, "details.dangerous")
    danger.find_element(By.TAG_NAME, "summary").click()
    danger.find_element(By.TAG_NAME, "button").click()
    until(chrome, lambda driver: driver.find_elements(By.CSS_SELECTOR, ".will"))
    assert "0 messages are in it." in chrome.find_element(By.CSS_SELECTOR, ".will").text
    chrome.find_element(By.LINK_TEXT, "Cancel").click()
    until(chrome, lambda driver: driver.current_url.endswith("/topics/by-browser"))
    chrome.find_element(By.CSS_SELECTOR, "details.dangerous summary").click()
    chrome.find_element(By.CSS_SELECTOR, "details.dangerous button").click()
    chrome.find_element(By.CSS_SELECTOR, "button.danger").click()
    until(chrome, lambda driver: "is deleted" in driver.find_element(By.TAG_NAME, "main").text)


def test_the_keyboard_reaches_the_content(chrome: webdriver.Chrome, address: str) -> None:
    chrome.get(f"{address}/c/shop/topics")
    chrome.switch_to.active_element.send_keys("\ue004")  # Tab
    assert chrome.switch_to.active_element.get_attribute("class") == "skip"


def test_a_phone_needs_no_sideways_scrolling(chrome: webdriver.Chrome, address: str, tmp_path: Path) -> None:
    chrome.set_window_size(390, 800)
    try:
        for path in ("/", "/topics", "/groups", "/messages?topic=orders"):
            chrome.get(f"{address}/c/shop{path}")
            width = chrome.execute_script("return document.documentElement.scrollWidth")  # type: ignore[no-untyped-call]
            shown = chrome.execute_script("return document.documentElement.clientWidth")  # type: ignore[no-untyped-call]
            assert width <= shown + 1, path
    finally:
        chrome.set_window_size(1200, 1000)
