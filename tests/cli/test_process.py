"""The command ``zoo`` as a process of its own: pipes, terminals, exit codes, and what it imports."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from zoo.cards.catalogue import catalogue
from zoo.cards.families import families

HEAVY = ("torch", "torchvision", "timm", "pandas", "numpy", "sklearn", "rich", "filelock")
ESCAPE = "\x1b["


def zoo(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zoo", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def on_terminal(columns: int, *arguments: str, **environment: str) -> str:
    """What a verb prints on a terminal of that many columns."""
    import fcntl
    import termios

    controller, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    with subprocess.Popen(
        [sys.executable, "-m", "zoo", *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**inherited, "TERM": "xterm", **environment},
    ) as process:
        os.close(terminal)
        printed = b""
        while True:
            try:
                chunk = os.read(controller, 65_536)
            except OSError:  # how Linux says that the process has ended
                break
            if not chunk:
                break
            printed += chunk
    os.close(controller)
    assert process.returncode == 0, printed
    return printed.decode().replace("\r\n", "\n")


def test_a_pipe_gets_one_plain_line_an_encoder_and_nothing_else() -> None:
    printed = zoo("list")
    assert printed.returncode == 0
    assert ESCAPE not in printed.stdout
    assert [line.split()[0] for line in printed.stdout.splitlines()] == ["encoder", *catalogue()]


@pytest.mark.parametrize("arguments", [("--help",), ("show", "--help"), ("list", "msn"), ("show", "no_such_encoder")])
def test_the_package_runs_as_the_command_does(arguments: tuple[str, ...]) -> None:
    ours = subprocess.run([sys.executable, "-m", "zoo", *arguments], capture_output=True, text=True, check=False)
    installed = Path(sys.executable).with_name("zoo")
    command = subprocess.run([installed, *arguments], capture_output=True, text=True, check=False)
    assert (ours.returncode, ours.stdout, ours.stderr) == (command.returncode, command.stdout, command.stderr)
    assert ours.stdout.startswith("Usage: zoo ") == ("--help" in arguments)


def test_a_reader_that_has_seen_enough_ends_it_quietly() -> None:
    command = [sys.executable, "-m", "zoo", "list", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


EVERY_KIND_OF_OUTPUT = [
    ("list",),
    ("list", "--json"),
    ("show", "dino_vitS16"),
    ("compare", "dino_vitS16", "mae_vitB16"),
    ("recommend", "--labels", "20k"),
    ("completion", "bash"),
    ("list", "--help"),
    ("--version",),
]


def redirected(to: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command with a redirection that only a shell can write."""
    line = f'exec "$@" {to}'
    shell = ["sh", "-c", line, "sh", sys.executable, "-m", "zoo", *arguments]
    return subprocess.run(shell, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", EVERY_KIND_OF_OUTPUT, ids=" ".join)
def test_output_that_cannot_be_written_is_one_sentence(arguments: tuple[str, ...]) -> None:
    printed = redirected("> /dev/full", *arguments)
    assert printed.returncode == 1
    assert printed.stderr.startswith("Error: ") and printed.stderr.count("\n") == 1
    assert "output could not be written (No space left on device)" in printed.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("arguments", EVERY_KIND_OF_OUTPUT, ids=" ".join)
def test_a_closed_stream_is_like_the_null_device(arguments: tuple[str, ...], closed: str) -> None:
    printed = redirected(closed, *arguments)
    assert printed.returncode == 0
    assert "Traceback" not in printed.stderr
    assert bool(printed.stdout) == (closed == "2>&-")


def test_an_interrupt_ends_it_with_130_and_no_traceback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a proxy that never answers: every host is waited for
        environment = {name: value for name, value in os.environ.items() if name.upper() != "NO_PROXY"}
        environment["HTTPS_PROXY"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen(
            [sys.executable, "-m", "zoo", "doctor"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # ignored in the background
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            while "HTTPS_PROXY" not in process.stdout.readline():  # the last line before the hosts are asked
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            printed = process.stderr.read()
    assert process.returncode == 130
    assert "Traceback" not in printed


def test_misuse_and_absence_have_their_exit_codes_and_one_line_each() -> None:
    for arguments, code in ((("show", "dino_vits1"), 2), (("list", "nosuchthing"), 1)):
        printed = zoo(*arguments)
        assert (printed.returncode, printed.stdout) == (code, "")
        assert printed.stderr.startswith("Error: ")
        assert printed.stderr.count("\n") == 1


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("results",),
        ("list", "--help-columns"),
        ("recommend", "--labels", "20k"),
        ("compare", "dino_vitS16", "mae_vitB16"),
        ("compare", "dino_vitS16", "mae_vitB16", "swav_rn50", "clip_rn50x4"),
        ("list", "--columns", "encoder,views,augmentations,train_test"),
    ],
    ids=" ".join,
)
def test_tables_fit_the_terminal(columns: int, arguments: tuple[str, ...]) -> None:
    lines = on_terminal(columns, *arguments, NO_COLOR="1").splitlines()
    whole = ("https://", "zoo choose IMAGES --encoders")  # addresses and the next command are copied in one piece
    assert max(len(line) for line in lines if not any(part in line for part in whole)) <= columns


def test_a_terminal_gets_colour_unless_it_asks_for_none() -> None:
    assert ESCAPE in on_terminal(100, "list", "dino")
    assert ESCAPE not in on_terminal(100, "list", "dino", NO_COLOR="1")


def test_a_narrow_terminal_loses_no_character_of_a_name() -> None:
    printed = on_terminal(80, "list", "--columns", "encoder,pretraining_data", NO_COLOR="1")
    assert all(encoder in printed for encoder in catalogue())
    whole = {line.split()[0] for line in on_terminal(80, "list", "--all", NO_COLOR="1").splitlines()}
    assert whole >= {*catalogue()}


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_a_terminal_is_first_shown_families_in_a_line_each(columns: int) -> None:
    header, *lines = on_terminal(columns, "list", NO_COLOR="1").splitlines()
    known = {family.name: len(family.encoders) for family in families(catalogue())}
    assert header.split()[:4] == ["family", "encoders", "networks", "measured"]
    assert {line.split()[0]: int(line.split()[1]) for line in lines[: len(known)]} == known
    assert f"{len(known)} families, {len(catalogue()):,} encoders" in lines[len(known)]
    assert "zoo list --all" in " ".join(lines[-2:])


def test_variants_of_a_network_stand_below_it_on_a_terminal() -> None:
    lines = on_terminal(100, "list", "dino_vitB", NO_COLOR="1").splitlines()[1:]
    ids = [line.partition("  ")[0] or f"  {line.split()[0]}" for line in lines]
    assert ids[:2] == ["dino_vitB8", "  dino_vitB8_last"]
    assert ids[2:5] == ["dino_vitB16", "  dino_vitB16_last", "  dino_vitB16_extractS"]
    assert any("indented: a variant of the network above" in line for line in lines)


def test_the_first_column_of_a_comparison_stays_whole_at_120_columns() -> None:
    encoders = ("dino_vitS16", "mae_vitB16", "swav_rn50", "clip_rn50x4")
    printed = on_terminal(120, "compare", *encoders, NO_COLOR="1")
    rows = {line.split(" ")[0] for line in printed.splitlines()}
    assert {"top1acc_in1k-1%_official", "projection_nparameters", "approximation_plus_usability"} <= rows


def test_a_shell_completes_names_of_encoders_and_verbs() -> None:
    printed = zoo(_ZOO_COMPLETE="bash_complete", COMP_WORDS="zoo show DINO_vitS16_", COMP_CWORD="2")
    offered = printed.stdout.split()
    assert {"plain,dino_vitS16_last", "plain,dino_vitS16_extractB"} <= set(offered)
    assert all(line.casefold().startswith("plain,dino_vits16_") for line in offered)
    printed = zoo(_ZOO_COMPLETE="bash_complete", COMP_WORDS="zoo re", COMP_CWORD="1")
    assert printed.stdout.split() == ["plain,results", "plain,recommend", "plain,register"]


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("zoo list --sort error_3", ["error_30shot", "error_3shot"]),
        ("zoo list --columns Z_", ["z_dim", "z_layer"]),
        ("zoo list --columns encoder,z_dim,z_", ["encoder,z_dim,z_layer"]),
        ("zoo recommend --licence A", ["any", "Apache-2.0"]),
        ("zoo recommend --licence p", ["permissive"]),
        ("zoo curve --task n", ["normals"]),
        ("zoo curve --task normals --metric n", ["normals_l1_error", "normals_angular_error"]),
    ],
)
def test_a_shell_completes_values_of_options(words: str, completed: list[str]) -> None:
    printed = zoo(_ZOO_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1))
    assert sorted(printed.stdout.split()) == sorted(f"plain,{value}" for value in completed)


def test_completion_is_silent_where_a_card_is_broken(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "mine.toml").write_text("nonsense")
    environment = {"_ZOO_COMPLETE": "bash_complete", "COMP_WORDS": "zoo show d", "COMP_CWORD": "2"}
    printed = zoo(ZOO_HOME=str(tmp_path), **environment)
    assert "plain,dino_rn50" in printed.stdout.split()
    assert printed.stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("list",),
        ("list", "--json"),
        ("list", "--where", "train_test < 20", "--sort", "z_dim"),
        ("show", "dino_vitS16"),
        ("results",),
        ("compare", "dino_vitS16", "mae_vitB16"),
        ("recommend", "--labels", "20k"),
        ("doctor", "--offline"),
    ],
    ids=" ".join,
)
def test_no_heavy_library_is_imported(arguments: tuple[str, ...]) -> None:
    script = f"""
import contextlib, io, json, sys
import zoo
if {arguments!r}:
    from zoo.cli import zoo as command
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        command.main({list(arguments)!r}, standalone_mode=False)
print(json.dumps(sorted(set({HEAVY!r}) & set(sys.modules))))
"""
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(printed.stdout) == []


def test_listing_imports_no_other_verb() -> None:
    script = "from zoo.cli import zoo\nimport sys\nzoo.main(['list', '--limit', '1'], standalone_mode=False)\n"
    script += "print(*(name for name in sys.modules if name.startswith('zoo.cli.')))"
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = set(printed.stdout.splitlines()[-1].split())
    assert imported == {f"zoo.cli.{name}" for name in ("list", "default_command", "facts", "options", "output")}
