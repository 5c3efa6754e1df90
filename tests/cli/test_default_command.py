"""Verbs below a verb."""

from __future__ import annotations

import sys
from types import ModuleType

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from zoo.cli.default_command import CommandWithVerbs, Verb
from zoo.cli.options import encoder_names


@click.command("count", cls=CommandWithVerbs, verbs={"twice": Verb("counting", "Count twice.")})
@click.argument("names", nargs=-1, shell_complete=encoder_names)
@click.option("--loud", is_flag=True, help="Loudly.")
def count_command(names: tuple[str, ...], loud: bool) -> None:
    """Count names."""
    click.echo(f"{len(names)}{'!' * loud}")


@click.command("twice")
@click.argument("names", nargs=-1, required=True)
def count_twice_command(names: tuple[str, ...]) -> None:
    """Count names twice."""
    click.echo(f"{2 * len(names)}")


top = click.Group("top", commands=[count_command])


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("zoo.cli.counting")
    module.count_twice_command = count_twice_command
    monkeypatch.setitem(sys.modules, "zoo.cli.counting", module)


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        ("", "0\n"),
        ("a b", "2\n"),
        ("--loud a", "1!\n"),
        ("twice a b", "4\n"),
        ("a twice", "2\n"),  # only the first argument can be a verb
        ("-- twice", "1\n"),
    ],
)
def test_the_first_argument_says_which_command_it_is(arguments: str, output: str) -> None:
    assert CliRunner().invoke(top, ["count", *arguments.split()]).output == output


def test_help_names_the_verbs_below_and_each_has_its_own() -> None:
    upper = CliRunner().invoke(top, ["count", "--help"], prog_name="top").output
    assert "Loudly." in upper
    assert "count twice  Count twice." in upper
    lower = CliRunner().invoke(top, ["count", "twice", "--help"], prog_name="top").output
    assert lower.startswith("Usage: top count twice [OPTIONS] NAMES...")


def test_a_shell_completes_verbs_first_and_encoders_always() -> None:
    complete = ShellComplete(top, {}, "top", "_TOP_COMPLETE")
    assert [one.value for one in complete.get_completions(["count"], "twic")] == ["twice"]
    assert [one.value for one in complete.get_completions(["count", "dino_vitS16"], "twic")] == []
    assert "dino_vitS16" in [one.value for one in complete.get_completions(["count", "dino_vitS16"], "dino")]
