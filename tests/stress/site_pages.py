"""Every page of the site with all encoders, in Chromium, from the disk: errors, requests, width, axe-core.

    python tests/stress/site_pages.py [--only 'PATTERN'] [--width 360] [--no-axe] [--studies]

The tests do the same with forty encoders. Prints every page that has something wrong and exits with 1 if there is one.
With axe-core, a thousand pages take about ten minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.browser import Watch, browsing, inaccessible


def main() -> int:
    """Opens, counts and prints."""
    parser = argparse.ArgumentParser(description="Open every page of the site with all encoders.")
    parser.add_argument("--only", default="*", help="pages, such as 'encoders/*' [all]")
    parser.add_argument("--width", type=int, default=360, help="of the window in pixels [360]")
    parser.add_argument("--no-axe", action="store_true", help="without axe-core")
    parser.add_argument("--studies", action="store_true", help="with the studies, whose first run takes minutes")
    parser.add_argument("--folder", type=Path, help="a site that is there already [a new one]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary, "site")
        if options.folder is None:
            from zoo.site import gather, site_files, write_site

            write_site(site_files(replace(gather(), with_studies=options.studies)), folder)
        return look_at(folder.resolve(), options.only, options.width, with_axe=not options.no_axe)


def look_at(folder: Path, pattern: str, width: int, *, with_axe: bool) -> int:
    """1 if a page of the folder has something wrong."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))
    paths = [path for path in paths if fnmatch(path, pattern)]
    n_wrong = 0
    with browsing() as browser:
        context = browser.new_context(viewport={"width": width, "height": 800})
        for path in paths:
            page, watch = context.new_page(), Watch(folder.as_uri() + "/")
            watch.over(page)
            page.goto(f"{folder.as_uri()}/{path}")
            wrong = watch.problems
            if (found := page.evaluate("document.scrollingElement.scrollWidth")) > width:
                wrong.append(f"{found} px wide")
            if with_axe:
                wrong += inaccessible(page)
                page.emulate_media(color_scheme="dark")
                wrong += [f"dark: {one}" for one in inaccessible(page)]
            page.close()
            n_wrong += bool(wrong)
            for one in wrong:
                print(f"{path}: {one}", flush=True)
    print(f"{len(paths)} pages, {n_wrong} of them with something wrong")
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
