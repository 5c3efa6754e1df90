"""How long a site takes to write, how large it is, and how soon its first page answers in Chromium.

    python benchmarks/site.py [--repetitions 9] [--without studies ...] [--command] [--json]

``--command`` runs ``zoo site`` twice, from an empty cache and from the one that this filled, and prints nothing but its
seconds, those of the processors, megabytes and files.

The site of every encoder is made in memory, each kind of page timed by itself, and written to a temporary folder. Sizes
are those of its files; those of the first page have with it everything that it loads, each compressed by gzip at level
9, as a web server would send it.

The browser opens the first page from the disk, in a new context each time, as fast as the machine is and with its
processor slowed down four times; both alternate. Times in milliseconds are medians, from the start of the navigation:

* first paint: the browser's own ``first-contentful-paint``;
* interactive: the mark ``zoo-interactive``, when filters, search and plot answer; what the visitor does from then on
  takes effect at once;
* filter, sort: from the event that a word in the search field, or a click on a heading, makes until the frame after it
  is drawn, both there and back (all encoders again, the other direction), the longer of the two.

Measured on two processors with 1,085 encoders: ``--command`` 63 s from an empty cache (112 s of the processors), 11 s
from a full one, 42.5 MB. When these had other work: all pages 10.0 s without studies, 33.6 MB, first
page 295 KB, interactive after 294 ms (slowed 938), table after 671 ms (1,914), filter 59 ms (245), sort 92 ms (327).

Goals, for 1,000 encoders: under 60 s on two processors, 40 MB, 400 KB of the first page, 1 s until interactive, 100 ms
a filter and a sort.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.site.building import MAKERS
from zoo.site.contents import gather
from zoo.site.rendering import File, SiteRenderer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SLOWED = (1, 4)
_PATIENCE_MS, _STEP_MS, _REST_MS = 20_000, 50, 300
_TIMES = ("first paint", "interactive", "table", "filter", "sort")
_GOALS_MS = {"interactive": 1000, "filter": 100, "sort": 100}
_MARK = "name => performance.getEntriesByName(name)[0]?.startTime ?? null"
_UNTIL_DRAWN = """([act, selector, value]) => new Promise(resolve => {
  const one = document.querySelector(selector), from = performance.now();
  if (act === "click") one.click();
  else { one.value = value; one.dispatchEvent(new Event("input", { bubbles: true })); }
  const drawn = () => requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - from)));
  if (act !== "click") return drawn();
  const head = one.closest("th"), before = head.ariaSort, first = document.querySelector("tbody tr");
  const isSorted = () => head.ariaSort !== before && document.querySelector("tbody tr") !== first;
  const look = () => isSorted() ? drawn() : setTimeout(look);
  look();
})"""


def timed_files(without: Sequence[str]) -> tuple[list[File], dict[str, float]]:
    """All files of the site, and the seconds of each kind of page."""
    start = time.perf_counter()
    contents = gather()
    seconds = {"reading cards and results": time.perf_counter() - start}
    renderer, files = SiteRenderer(contents), list[File]()
    for name, make in MAKERS.items():
        if name in without:
            continue
        start = time.perf_counter()
        files += make(contents, renderer)
        seconds[name] = time.perf_counter() - start
    return [*files, *renderer.assets.values()], seconds


def commands(without: Sequence[str]) -> dict[str, dict[str, float]]:
    """Wall and processor seconds, bytes and files of ``zoo site`` from an empty and from a full cache."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        apart = {"ZOO_HOME": f"{folder}/home", "ZOO_CACHE": f"{folder}/cache"}
        command = [sys.executable, "-m", "zoo", "site", "--out", f"{folder}/site", "--json"]
        command += ["--no-studies"] * ("studies" in without)
        for cache in ("empty", "full"):
            before, start = os.times(), time.perf_counter()
            run = subprocess.run(command, env=os.environ | apart, stdout=subprocess.PIPE, check=True)
            seconds, after, said = time.perf_counter() - start, os.times(), json.loads(run.stdout)
            processors = after.children_user + after.children_system - before.children_user - before.children_system
            found[cache] = {"seconds": seconds, "processor_seconds": processors}
            found[cache] |= {"bytes": said["size_bytes"], "files": said["files"]}
    return found


def sizes(files: Sequence[File], seconds: float, folder: Path) -> dict[str, Any]:
    """Bytes of the site and of its first page."""
    by_path = {file.path: file.content for file in files}
    page = by_path["index.html"]
    named = {path.decode() for path in re.findall(rb'(?:src|href|data-script)="(assets/[^"]+)"', page)}
    compressed = {path: len(gzip.compress(by_path[path], 9, mtime=0)) for path in ("index.html", *sorted(named))}
    [script] = (path for path in by_path if re.fullmatch(r"assets/site-\w+\.js", path))
    start = time.perf_counter()
    for path, content in by_path.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return {
        "files": len(by_path),
        "bytes": sum(map(len, by_path.values())),
        "seconds": seconds,
        "seconds_to_write": time.perf_counter() - start,
        "first_page_compressed": compressed,
        "script_bytes": len(by_path[script]),
        "script_compressed": compressed[script],
    }


def opened(browser: Browser, address: str, slowed: int) -> dict[str, float]:
    """Times of one visit of the first page, in milliseconds."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    page = context.new_page()
    context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slowed})
    page.goto(address)
    page.mouse.move(1, 1)  # the data are loaded with the first thing that a visitor does
    for _ in range(_PATIENCE_MS // _STEP_MS):
        if page.evaluate(_MARK, "zoo-interactive") is not None:
            break
        page.wait_for_timeout(_STEP_MS)
    marks = {"first paint": "first-contentful-paint", "interactive": "zoo-interactive"}
    times = {name: page.evaluate(_MARK, mark) for name, mark in marks.items()}
    search, heading = "#filters [name=q]", "th[data-name=parameters] button"
    acts = {
        "filter": [["input", search, "dino"], ["input", search, ""]],
        "sort": [["click", heading, ""], ["click", heading, ""]],
    }
    for name, both in acts.items():
        taken = []
        for one in both:
            page.wait_for_timeout(_REST_MS)
            taken.append(page.evaluate(_UNTIL_DRAWN, one))
        times[name] = max(taken)
    context.close()
    return times


def visits(address: str, repetitions: int) -> dict[int, dict[str, float]]:
    """By how much the processor is slowed down the median of every time."""
    from playwright.sync_api import sync_playwright

    found: dict[int, list[dict[str, float]]] = {slowed: [] for slowed in SLOWED}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for number in range(repetitions + 1):
            for slowed in SLOWED:
                times = opened(browser, address, slowed)
                if number:  # the first warms the disk
                    found[slowed].append(times)
        browser.close()
    return {
        slowed: {name: statistics.median(times[name] for times in all_times) for name in _TIMES}
        for slowed, all_times in found.items()
    }


def chromium() -> str | None:
    """The browser of the system, or None for Playwright's own."""
    known = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    return known if Path(known).exists() else None


def report(record: dict[str, Any], say: Callable[[str], None] = print) -> None:
    """Prints everything, goals next to it."""
    size = record["size"]
    say(f"load average {record['load_average']:.1f}, {record['processors']} processors")
    for name, seconds in record["seconds"].items():
        say(f"{name:28}{seconds:8.2f} s")
    say(f"{'all, with writing':28}{size['seconds'] + size['seconds_to_write']:8.2f} s   goal < 60 s")
    say(f"{'files':28}{size['files']:8}")
    say(f"{'size':28}{size['bytes'] / 1e6:8.1f} MB  goal < 40 MB")
    compressed = f"{size['script_compressed'] / 1e3:.1f} compressed"
    say(f"{'script of the site':28}{size['script_bytes'] / 1e3:8.1f} KB  {compressed}")
    for path, n_bytes in size["first_page_compressed"].items():
        say(f"  {re.sub('-[0-9a-f]{10}', '', path):26}{n_bytes / 1e3:8.1f} KB")
    total = sum(size["first_page_compressed"].values())
    say(f"{'first page, compressed':28}{total / 1e3:8.1f} KB  goal < 400 KB")
    say(f"\nfirst page, median of {record['repetitions']}" + "".join(f"{f'slowed {n}x':>14}" for n in SLOWED))
    for name in _TIMES:
        goal = f"   goal < {_GOALS_MS[name]} ms" if name in _GOALS_MS else ""
        say(f"{name:28}" + "".join(f"{record['times'][slowed][name]:11.0f} ms" for slowed in SLOWED) + goal)


def main() -> None:
    """Measure everything and print one table, or one JSON document."""
    parser = argparse.ArgumentParser(description="Time, size and first page of a site of everything.")
    parser.add_argument("--repetitions", type=int, default=9, help="counted visits of the first page [9]")
    parser.add_argument("--without", nargs="*", default=[], choices=MAKERS, help="kinds of pages to leave out")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--command", action="store_true", help="time the command from an empty and from a full cache")
    options = parser.parse_args()
    if options.command:
        ran = commands(options.without)
        print(json.dumps(ran, indent=1) if options.json else f"load average {os.getloadavg()[0]:.1f}")
        for cache, one in ran.items() if not options.json else ():
            print(
                f"{cache} cache: {one['seconds']:.1f} s (processors {one['processor_seconds']:.1f} s), "
                f"{one['bytes'] / 1e6:.1f} MB, {one['files']} files; goals < 60 s, < 40 MB"
            )
        return
    files, seconds = timed_files(options.without)
    with tempfile.TemporaryDirectory() as folder:
        size = sizes(files, sum(seconds.values()), Path(folder))
        times = visits(Path(folder, "index.html").as_uri(), options.repetitions)
    record = {
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan"),
        "processors": os.cpu_count(),
        "repetitions": options.repetitions,
        "seconds": seconds,
        "size": size,
        "times": times,
    }
    if options.json:
        print(json.dumps(record, indent=1))
    else:
        report(record)


if __name__ == "__main__":
    main()
