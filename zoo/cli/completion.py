"""``zoo completion``: the script that teaches a shell to complete verbs, options and encoder names."""

from __future__ import annotations

import click

_EPILOG = """\b
Put the line of your shell into its start-up file:
  eval "$(zoo completion bash)"       in .bashrc
  eval "$(zoo completion zsh)"        in .zshrc
  zoo completion fish | source        in config.fish
"""


@click.command("completion", epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    kinds = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
    # BashComplete.source() starts bash to ask for its version; the script itself is the same for every version
    completion = kinds[shell](ctx.find_root().command, {}, "zoo", "_ZOO_COMPLETE")
    click.echo(completion.source_template % completion.source_vars())
