"""A verb with verbs of its own: ``zoo results merge`` is another command, and ``zoo results NAME`` the verb itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class Verb:
    """The module of this package that defines a verb, as ``VERB_command``, and its line in the help above it."""

    module: str
    line: str


def command_of(verb: Verb, function: str) -> click.Command:
    """The command that the module of a verb defines under this name; imports the module."""
    command: click.Command = getattr(import_module(f".{verb.module}", __package__), function)
    return command


class CommandWithVerbs(click.Command):
    """A command that becomes another one if its first argument is the name of a verb below it.

    ``verbs`` has the verbs by name: SUB of VERB is the function ``VERB_SUB_command``. An argument that happens to be
    called like one of them is given behind ``--``, or after another.
    """

    def __init__(self, name: str | None, *, verbs: Mapping[str, Verb], **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self.verbs = dict(verbs)

    def verb(self, name: str) -> click.Command:
        """The command of a verb below this one."""
        return command_of(self.verbs[name], f"{self.name}_{name}_command")

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] in self.verbs:
            return self.verb(args[0]).make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        if not self.verbs:
            return
        with formatter.section("Verbs"):
            formatter.write_dl([(f"{ctx.info_name} {name}", verb.line) for name, verb in self.verbs.items()])
