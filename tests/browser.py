"""Pages in a real browser: where it is, what a page did that it must not, and a run without one, which says so aloud.

    def test_something(open_page):  # a fixture of tests/site/conftest.py
        page = open_page("choose.html", width=360)  # a page of Playwright; what it did wrong fails the test at its end

A test that asks for the fixture ``browser``, by itself or through another, needs Chromium. Where there is none, such
tests do not run, and the last lines of the run say so; ``.ci/run`` fails then by itself.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSIDE_A_CONTAINER = ("--no-sandbox", "--disable-dev-shm-usage")  # where neither namespaces nor a large /dev/shm are
WITHOUT_A_NETWORK = ("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--proxy-server=direct://")
REASON = (
    f"there is no Chromium: install it (apt-get install chromium), put one of {', '.join(NAMES)} on the path, or name "
    "it in $CHROMIUM"
)


def wait_until(page: Page, expression: str, arg: object = None) -> None:
    """Asks a page until an expression is true, ten seconds at most; pages refuse what Playwright polls."""
    for _ in range(100):
        if page.evaluate(expression, arg):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"The page never came to {expression}")


def chromium() -> str | None:
    """Path of a Chromium, None if there is none; ``$CHROMIUM`` comes before the path."""
    named = os.environ.get("CHROMIUM", "")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)


class WithoutBrowser:
    """A pytest plugin: without Chromium the tests in it are left out, aloud; the exit code stays that of the others."""

    def __init__(self) -> None:
        self.left_out: list[str] = []  # names of tests

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if chromium() is not None:
            return
        needing = [item for item in items if "browser" in getattr(item, "fixturenames", ())]
        self.left_out = [item.nodeid for item in needing]
        items[:] = [item for item in items if item not in needing]
        config.hook.pytest_deselected(items=needing)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["without_browser"] = self.left_out

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        self.left_out = getattr(node, "workeroutput", {}).get("without_browser", []) or self.left_out

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.left_out:
            terminalreporter.section("NOT TESTED IN A BROWSER", red=True, bold=True)
            for name in self.left_out:
                terminalreporter.line(f"  {name}")
            terminalreporter.line(f"{len(self.left_out)} tests DID NOT RUN: {REASON}.", red=True)


@contextmanager
def browsing() -> Iterator[Browser]:
    """Chromium without a window, which can reach nothing but this machine."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*INSIDE_A_CONTAINER, *WITHOUT_A_NETWORK])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watch:
    """What a page did that no page of the site may do."""

    root: str  # address of the folder; every request must begin with it
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def over(self, page: Page) -> None:
        """Watches a page from now on."""
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.problems.append(f"{page.url}: uncaught {error}"))
        page.on("request", self._requested)
        page.on("requestfailed", lambda request: self._failed(request))
        page.on("response", lambda response: self._answered(response.url, response.status))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.problems.append(f"{message.page.url if message.page else ''}: {message.type} {message.text}")

    def _requested(self, request: Request) -> None:
        self.requests.append(request.url)
        if not request.url.startswith((self.root, f"blob:{self.root}", "blob:null", "data:")):
            self.problems.append(f"{request.frame.url}: request to {request.url}")

    def _failed(self, request: Request) -> None:
        if "ERR_ABORTED" not in (request.failure or ""):  # which is how a download ends
            self.problems.append(f"{request.url} failed: {request.failure}")

    def _answered(self, url: str, status: int) -> None:
        if status >= 400:
            self.problems.append(f"{url} was answered by {status}")


@contextmanager
def serving_folder(folder: Path, below: str) -> Iterator[str]:
    """Serves a folder on loopback below a path such as ``/some/sub/path/``, and nothing else; yields the address."""

    class Handler(SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def translate_path(self, path: str) -> str:
            return super().translate_path(path.removeprefix(below)) if path.startswith(below) else os.devnull + "/"

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}{below}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


_COLOURS = ["color-contrast", "link-in-text-block"]  # rules of axe-core that depend on the colour scheme


def inaccessible(page: Page, *, colours_alone: bool = False) -> list[str]:
    """What axe-core finds on a page as it is shown now: rule, element and why; details are opened first.

    The library is run by the browser itself, so that the policy of the page stays as it is.
    """
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(_axe())
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    options = {"resultTypes": ["violations"], "preload": False}  # else it asks for style sheets once more
    options |= {"runOnly": _COLOURS} if colours_alone else {}
    found = page.evaluate("options => axe.run(document, options).then(result => result.violations)", options)
    return [
        f"{rule['id']} ({rule['help']}): {node['html'][:160]} {' '.join(node.get('failureSummary', '').split()[:60])}"
        for rule in found
        for node in rule["nodes"][:3]
    ]


@cache
def _axe() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


_WATCH_FOCUS = """() => {
  window.visited = new Set();
  window.hasLeft = false;
  addEventListener("focusin", event => window.visited.add(event.target), true);
  addEventListener("focusout", event => { window.hasLeft ||= !event.relatedTarget; }, true);
  document.activeElement.blur();
  window.hasLeft = false;
}"""
_UNREACHED = """() => {
  const reachable = "a[href], button, input, select, textarea, summary, [tabindex]";
  const shown = one => one.checkVisibility({ visibilityProperty: true }) && !one.disabled && one.tabIndex >= 0;
  const radios = new Set([...window.visited].filter(one => one.type === "radio").map(one => one.name));
  return [...document.querySelectorAll(reachable)]
    .filter(one => shown(one) && !window.visited.has(one) && !(one.type === "radio" && radios.has(one.name)))
    .map(one => one.outerHTML.slice(0, 120));
}"""


_AT_ONCE = 20  # tabs between two questions to the page


def unreached_by_keyboard(page: Page, most: int = 2000) -> list[str]:
    """Elements that the Tab key does not come to; AssertionError if it never comes out of the page again.

    A group of radio buttons is one stop, within which the arrow keys move.
    """
    page.evaluate(_WATCH_FOCUS)
    for _ in range(most // _AT_ONCE):
        for _ in range(_AT_ONCE):
            page.keyboard.press("Tab")
        if page.evaluate("window.hasLeft"):
            return page.evaluate(_UNREACHED)
    raise AssertionError(f"after {most} tabs the focus is still at {page.evaluate('document.activeElement.outerHTML')}")
