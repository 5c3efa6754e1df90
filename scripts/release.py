"""Makes a checkout ready for a release: who hosts it, and whether version, tag and changelog agree.

python scripts/release.py https://github.com/ann/ssl-zoo           # puts the address where OWNER stands
python scripts/release.py https://github.com/ann/ssl-zoo --tag v1  # as the workflow does, and refuses what disagrees
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = ("zoo/version.py", "pyproject.toml", "CITATION.cff", "README.md", "docs/loading.md")
"""Where OWNER/ssl-zoo stands for the account and the name of the repository."""
PLACEHOLDER = "OWNER/ssl-zoo"
_ADDRESS = re.compile(r"https://[\w.-]+/([\w.-]+/[\w.-]+?)(?:\.git)?/?")


def put_address(root: Path, address: str) -> list[str]:
    """Puts the address of the repository where the placeholder is, and returns the files that have changed."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise SystemExit(f"Got {address!r}, expected an address such as https://github.com/ann/ssl-zoo.")
    whole = address.removesuffix("/").removesuffix(".git")
    changed = []
    for name in FILES:
        text = (root / name).read_text(encoding="utf-8")
        new = text.replace(f"https://github.com/{PLACEHOLDER}", whole).replace(PLACEHOLDER, found[1])
        if new != text:
            (root / name).write_text(new, encoding="utf-8")
            changed.append(name)
    return changed


def find_disagreements(root: Path, tag: str) -> list[str]:
    """What of a checkout does not fit the tag of a release, a sentence each."""
    version = re.search(r'__version__ = "(.+)"', (root / "zoo" / "version.py").read_text(encoding="utf-8"))
    assert version is not None
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.search(rf"^## {re.escape(version[1])}(.*)$", changes, re.MULTILINE)
    wrong = [f"The tag is {tag}, expected v{version[1]}, the version of zoo/version.py."] * (tag != f"v{version[1]}")
    if heading is None or "unreleased" in heading[1]:
        wrong.append(f"CHANGELOG.md has no '## {version[1]} (YYYY-MM-DD)'; date the section of this version.")
    left = [name for name in FILES if PLACEHOLDER in (root / name).read_text(encoding="utf-8")]
    wrong += [f"{name} still has {PLACEHOLDER}; name the repository." for name in left]
    return wrong


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="of the repository, such as https://github.com/ann/ssl-zoo")
    parser.add_argument("--tag", help="refuse a checkout that does not fit this tag")
    given = parser.parse_args(arguments)
    for name in put_address(ROOT, given.address):
        print(f"{name}: names {given.address}")
    if given.tag and (wrong := find_disagreements(ROOT, given.tag)):
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main(sys.argv[1:])
