"""How fast the site is: writing it, writing it again, and its first page in headless Chromium, with the goals beside.

    python benchmarks/site_pages.py [--repetitions 9] [--folder DIR] [--studies] [--json]

The site has every encoder of the zoo. Sizes are compressed as web servers do it (gzip, level 6). The first page comes
from loopback, in a fresh context each time, at the machine's speed and with the processor throttled four times, by
turns. Times count from the start of the navigation. The page is interactive when its scripts have run: plot, filters
and search answer (the mark ``zoo-interactive``). The table can be sorted when DataTables has taken it over, which waits
until nothing else is to be done (``zoo-table``); the longest task is the longest time without an answer. An action
is timed from its event to the end of the frame that shows its result.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.browser import browsing, serving_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

SPEEDS = {"": 1, ", four times slower": 4}
GOALS = {
    "write all pages, s": 60.0,
    "first page compressed, KB": 400.0,
    "all files, MB": 40.0,
    "own script, KB": 30.0,
    "interactive, ms": 1000.0,
    "interactive, four times slower, ms": 1000.0,
    "sort, ms": 100.0,
    "search, ms": 100.0,
    "filter, ms": 100.0,
}
_WATCH = """
window.longest = 0;
new PerformanceObserver(list => {
  for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
}).observe({ type: "longtask", buffered: true });
"""
_MARK = "name => performance.getEntriesByName(name)[0]?.startTime"
_ACT = """([selector, kind, value]) => new Promise(done => {
  const target = document.querySelector(selector), start = performance.now();
  if (kind === "click") target.click();
  else {
    target.value = value;
    for (const name of ["input", "change"]) target.dispatchEvent(new Event(name, { bubbles: true }));
  }
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
})"""


def main() -> int:
    """Measures and prints one table."""
    parser = argparse.ArgumentParser(description="Time the site: writing it, and its first page in Chromium.")
    parser.add_argument("--repetitions", type=int, default=9, help="how often the page is opened at each speed [9]")
    parser.add_argument("--folder", type=Path, help="a site that is there already, which is not timed as it is written")
    parser.add_argument("--studies", action="store_true", help="with the studies, whose first run takes minutes")
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary, "site")
        found = {} if options.folder else written(folder, with_studies=options.studies)
        found |= sizes(folder) | opened(folder, options.repetitions)
    print(json.dumps(found, indent=1) if options.json else _table(found))
    return int(any(found[name] > goal for name, goal in GOALS.items() if name in found))


def written(folder: Path, *, with_studies: bool) -> dict[str, float]:
    """Seconds of ``zoo site``, a process, once for everything and once where nothing has changed."""
    command = [sys.executable, "-c", "from zoo.cli import main; main()", "site", "--out", str(folder)]
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        subprocess.run([*command, *([] if with_studies else ["--no-studies"])], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - start)
    return {"write all pages, s": seconds[0], "write them again, s": seconds[1]}


def sizes(folder: Path) -> dict[str, float]:
    """Of the first page with what it loads, compressed; of our own script; of all files."""
    page = (folder / "index.html").read_text(encoding="utf-8")
    loaded = ["index.html", *re.findall(r'<(?:script|link)[^>]*(?:src|href)="([^"#:]+\.(?:js|css|svg))"', page)]
    compressed = {name: len(gzip.compress((folder / name).read_bytes(), 6)) / 1000 for name in dict.fromkeys(loaded)}
    own = [name for name in compressed if re.match(r"assets/site-\w+\.js", name)]
    return {
        "first page compressed, KB": sum(compressed.values()),
        **{f"  {name}, KB": size for name, size in compressed.items()},
        "own script, KB": sum((folder / name).stat().st_size for name in own) / 1000,
        "all files, MB": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6,
        "files": float(sum(path.is_file() for path in folder.rglob("*"))),
    }


def opened(folder: Path, repetitions: int) -> dict[str, float]:
    """Medians in milliseconds."""
    times: dict[str, list[float]] = {}
    with browsing() as browser, serving_folder(folder, "/zoo/") as address:
        for _ in range(repetitions):
            for words, rate in SPEEDS.items():
                with slowed(browser, rate) as page:
                    page.goto(address + "index.html")
                    page.wait_for_function(_MARK, arg="zoo-table")
                    found = {"interactive": page.evaluate(_MARK, "zoo-interactive")}
                    found |= {"sortable": page.evaluate(_MARK, "zoo-table")}
                    found |= {"longest task": page.evaluate("window.longest")}
                    found |= {name: page.evaluate(_ACT, action) for name, action in actions(page).items()}
                    for name, value in found.items():
                        times.setdefault(f"{name}{words}, ms", []).append(value)
    return {name: median(found) for name, found in times.items()}


def actions(page: Page) -> dict[str, tuple[str, str, str]]:
    """Selector, kind and value of what a visitor does with the table of the first page."""
    found = {
        "sort": (
            "table.dataTable thead th:nth-child(2) .dt-column-order, table.dataTable thead th:nth-child(2)",
            "click",
            "",
        ),
        "search": ("input[type=search]", "input", "vit"),
        "filter": (
            "select",
            "input",
            page.evaluate("document.querySelector('select option:nth-child(2)')?.value ?? ''"),
        ),
    }
    return {name: action for name, action in found.items() if page.locator(action[0]).count()}


@contextmanager
def slowed(browser: Browser, rate: int) -> Iterator[Page]:
    """A page in a context without a cache, on a processor so many times slower."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    context.add_init_script(_WATCH)
    page = context.new_page()
    session: Any = context.new_cdp_session(page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": rate})
    try:
        yield page
    finally:
        context.close()


def _table(found: dict[str, float]) -> str:
    wide = max(map(len, found))
    lines = [f"{'':{wide}}  {'goal':>6}  {'found':>8}"]
    lines += [f"{name:{wide}}  {GOALS.get(name, ''):>6}  {value:8.1f}" for name, value in found.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
