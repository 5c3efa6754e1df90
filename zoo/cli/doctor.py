"""``zoo doctor``: whether this installation is sound, and what is where."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain, groupby

import click

from .checks import Check, content, versions
from .output import NothingFound, entry, json_option, print_json
from .surroundings import caches, network

_MARKS = {"ok": "", "warning": "warning: ", "problem": "PROBLEM: "}
_COLOURS = {"ok": None, "warning": "yellow", "problem": "red"}


@click.command("doctor", epilog="\b\nExamples:\n  zoo doctor\n  zoo doctor --offline --json")
@click.option("--offline", is_flag=True, help="Ask no host; ZOO_OFFLINE=1 does the same.")
@json_option
def command(offline: bool, as_json: bool) -> None:
    """Check this installation.

    Versions, content, caches and the network. Exit code 1 if there is a problem, as a cache is that cannot be written;
    an absent extra or a host that does not answer is none.
    """
    checks = chain(versions(), content(), caches(), network(offline=offline))
    if as_json:
        found = list(checks)
        sound = all(check.status != "problem" for check in found)
        print_json({"sound": sound, "checks": [asdict(check) for check in found]})
    else:
        found = _print(checks)
    problems = [check.name for check in found if check.status == "problem"]
    if problems:
        raise NothingFound(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}: {', '.join(problems)}.")


def _print(checks: chain[Check]) -> list[Check]:
    """Print each check as it is made; the network is asked last and takes longest."""
    found: list[Check] = []
    for topic, members in groupby(checks, key=lambda check: check.topic):
        click.echo(("\n" if found else "") + click.style(topic.capitalize(), bold=True))
        for check in members:
            text = "\n".join(entry(check.name, _MARKS[check.status] + check.detail))
            click.secho(text, fg=_COLOURS[check.status])
            found.append(check)
    if all(check.status != "problem" for check in found):
        click.echo("\nNo problem found.")
    return found
