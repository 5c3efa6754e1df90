"""Generated documentation is fresh, and what the documentation promises is there."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from email.message import Message
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import click
import pytest
import torch
import yaml
from PIL import Image

import zoo
from docs import generate
from docs.pictures import list_parts
from tests.conftest import Run
from tests.each import for_each
from tests.test_names import VERBS as FIRST_WORDS
from zoo.cards.catalogue import load_catalogue
from zoo.cli import VERBS
from zoo.cli import zoo as command_line
from zoo.cli.options import complete_encoder_names
from zoo.encoders import build_encoder
from zoo.evaluation.protocols import PROTOCOLS
from zoo.loading import store_weights
from zoo.weights.store import FileOrigin


@for_each(
    ["README.md", "docs/reading.md", "docs/families.md", "docs/label-free.md", "docs/costs.md"]
    + [f"{folder}/README.md" for folder in ("metadata", "analysis", "results")]
)
def test_generated_parts_are_fresh(file: str, repository: Path) -> None:
    text = (repository / file).read_text()
    assert generate.render(text, generate.GENERATED[file]) == text, "run: make docs"


@pytest.mark.slow
def test_the_answer_of_a_choice_that_the_page_shows_is_what_comes(repository: Path) -> None:
    text = (repository / "docs/choosing.md").read_text()
    assert generate.render(text, generate.GENERATED["docs/choosing.md"]) == text, "run: make docs"


def test_a_stale_part_is_renewed_and_the_rest_is_left_alone() -> None:
    text = "before\n<!-- n:begin -->\nold\n<!-- n:end -->\nafter\n"
    assert generate.render(text, {"n": lambda: "new"}) == text.replace("old", "new")


def test_the_table_of_families_names_every_card_file(repository: Path) -> None:
    page = (repository / "docs" / "families.md").read_text()
    for file in (repository / "metadata").glob("*.toml"):
        is_listed = "\nlisted = false\n" not in file.read_text()
        assert (f"(../metadata/{file.name})" in page) is is_listed


def test_links_to_files_lead_somewhere(repository: Path) -> None:
    pages = [*repository.glob("*.md"), *repository.glob("*/*.md"), *repository.glob("docs/*/*.md")]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#]+)\)", page.read_text())]
    assert len(links) > 100
    broken = [(page.name, link) for page, link in links if link[:4] != "http" and not (page.parent / link).exists()]
    assert not broken


def test_the_first_page_is_short_and_shows_what_the_words_say(repository: Path) -> None:
    text = (repository / "README.md").read_text()
    assert text.count("\n") <= 110
    for tool in ("timm", "OpenCLIP", "VisBench", "MTEB", "FiftyOne", "SSL Zoo"):
        assert re.search(rf"^\| .* \| (\[{tool}\]\(https://|{tool}: )", text, re.MULTILINE), tool


def test_the_page_on_reading_results_has_the_parts_that_its_picture_shows(repository: Path) -> None:
    text = (repository / "docs" / "reading.md").read_text()
    parts = list_parts("dino_vitS16")
    words = [f"{name} {value:.1f}" for name, value in parts.items()]
    assert f"{words[0]}, {words[1]}, {words[2]} and {words[3]} add up to {sum(parts.values()):.1f} percent" in text
    table = {name for line in text.splitlines() for name in re.findall(r"`([\w.-]+)`", line) if line[:3] == "| `"}
    named = [name for name in PROTOCOLS if not any(name.startswith(one.rstrip(".")) for one in table)]
    assert not named, "protocols that docs/reading.md does not name"


def test_the_versions_of_package_changelog_and_citation_agree(repository: Path) -> None:
    assert f"## {zoo.__version__}" in (repository / "CHANGELOG.md").read_text()
    assert f"version: {zoo.__version__}" in (repository / "CITATION.cff").read_text()


def test_every_dependency_of_the_project_is_pinned(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[\[<>=!~]", one)[0].lower() for one in wanted} - {"ssl-zoo"}
    pinned = {line.split("==")[0].lower() for line in (repository / "constraints.txt").read_text().splitlines()}
    assert names <= pinned


PAGES_WITH_PYTHON = ("README.md", "docs/loading.md", "docs/label-free.md", "docs/curves.md")


@pytest.fixture
def mirror_of_dino_rn50(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror that has random weights where the trained ones of an encoder would be."""
    card = zoo.card("dino_rn50")
    encoder = build_encoder(card, seed=5)
    origin = FileOrigin(place=str(card.weights.url), address="", sha256="0" * 64, size_bytes=1, format="torch pickle")
    folder = tmp_path / "mirror"
    store_weights(folder, card.id, encoder.state_dict(), encoder=encoder, origins=(origin,), layout="dino")
    monkeypatch.setenv("ZOO_MIRROR", str(folder))
    return folder


@pytest.mark.slow
def test_the_python_of_the_pages_runs_as_it_stands(
    repository: Path, tmp_path: Path, run_apart: Run, mirror_of_dino_rn50: Path
) -> None:
    pages = [(repository / page).read_text() for page in PAGES_WITH_PYTHON]
    blocks = [block for page in pages for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)]
    assert len(blocks) == len(PAGES_WITH_PYTHON)
    Image.new("CMYK", (400, 300), (10, 200, 30, 40)).save(tmp_path / "photo.jpg")
    code = "\n".join(blocks).replace('"."', repr(str(repository)))  # the one thing that a clone would not need
    shapes = "print(list(features.shape), table.shape, zoo.card('dino_vitS16').pretraining.epochs)"
    done = run_apart(f"{code}\n{shapes}\n", cwd=tmp_path, warm=True)
    assert done.stdout.splitlines()[-1:] == ["[1, 2048] (169, 117) 800"], done.stderr


def test_torch_hub_asks_github_as_the_page_says(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (repository / "docs" / "loading.md").read_text()
    for words in ("HTTP Error 403: rate limit exceeded", "GITHUB_TOKEN", "skip_validation=True", 'source="local"'):
        assert words in page
    asked: list[Any] = []

    def refuse(request: Any, *_: object, **__: object) -> None:
        asked.append(request)
        raise HTTPError(str(request), 403, "rate limit exceeded", Message(), None)

    monkeypatch.setattr("torch.hub.urlopen", refuse)
    monkeypatch.setattr("torch.hub.download_url_to_file", refuse)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    load = partial(torch.hub.load, "OWNER/ssl-zoo:v1", "entry", trust_repo=True)
    with pytest.raises((KeyError, HTTPError)):  # the former in torch 2.15
        load()
    assert asked[0].full_url.startswith("https://api.github.com/repos/OWNER/ssl-zoo/branches")
    monkeypatch.setenv("GITHUB_TOKEN", "mine")
    asked.clear()
    with pytest.raises(HTTPError, match="rate limit exceeded"):
        load()
    assert "api.github.com" in asked[0].full_url and len(asked) == 2  # with the token, then without
    asked.clear()
    with pytest.raises(HTTPError):  # of the download itself
        load(skip_validation=True)
    assert asked == ["https://github.com/OWNER/ssl-zoo/zipball/v1"]
    asked.clear()
    cached = tmp_path / "hub" / "OWNER_ssl-zoo_v1"
    cached.mkdir()
    (cached / "hubconf.py").write_text("def entry():\n    return 'loaded'\n")
    assert load() == "loaded" and torch.hub.load(str(cached), "entry", source="local") == "loaded"
    assert asked == []


TEXTS = ("README.md", "CONTRIBUTING.md", "*/README.md", "docs/**/*.md", "analysis/**/*.py", "zoo/**/*.py")
LOOKS_LIKE_AN_ID = re.compile(  # not the name of a repository, OWNER/NAME
    r"(?<!facebook/)\b(?:[a-z][a-z0-9]*_(?:(?:rn|vit[bghls])\d\w*|(?:resnet50|convnext)_?[a-z]\w*)|pocket_\w+)\b(?!\\)",
    re.IGNORECASE,
)
PLACEHOLDER = re.compile(r"[A-Z]+|my_\w+")  # ID, NAME, my_dino


def written(repository: Path) -> Iterator[tuple[str, str]]:
    """Every text that a user reads, by its name: pages, docstrings, and the help of the verbs."""
    for pattern in TEXTS:
        for path in sorted(repository.glob(pattern)):
            if ".venv" not in path.parts:
                yield str(path.relative_to(repository)), path.read_text()
    context = click.Context(command_line, info_name="zoo")
    yield "zoo --help", command_line.get_help(context)
    for verb in VERBS:
        own = command_line.get_command(context, verb)
        below = {f"{verb} {name}": own.verb(name) for name in getattr(own, "verbs", ())}
        for name, command in {verb: own, **below}.items():
            yield f"zoo {name} --help", command.get_help(click.Context(command, info_name=name, parent=context))


def command_lines(text: str) -> list[str]:
    """Lines of examples, in a fence, in backticks or in the help of a verb."""
    text = re.sub(r"\\+\n\s*", " ", text)  # a line that goes on
    found = re.findall(r"^(?:\$ | {2,}|Command: )?(zoo [a-z]+ .+)$|`(zoo [a-z]+ [^`\n]+)`", text, flags=re.MULTILINE)
    return ["".join(one) for one in found]


def encoders_of(line: str) -> list[str]:
    """Encoders that a command line names; refuses options that its verb does not have."""
    _, verb, *arguments = shlex.split(line, comments=True)
    context = click.Context(command_line, info_name="zoo")
    command = command_line.get_command(context, verb)
    assert command is not None, line
    if arguments and arguments[0] in getattr(command, "verbs", ()):
        command = command.verb(arguments.pop(0))
    parser = command.make_parser(click.Context(command, info_name=verb, parent=context))
    try:
        values, _, _ = parser.parse_args(arguments)
    except click.BadOptionUsage:  # prose that speaks of an option: `zoo list --where`
        values, _, _ = parser.parse_args([*arguments, "VALUE"])
    named: list[str] = []
    for parameter in command.params:
        if getattr(parameter, "_custom_shell_complete", None) is complete_encoder_names:
            value = values.get(parameter.name)  # the parser has objects of its own for what was not given
            several = value if isinstance(value, (list, tuple)) else [value]
            several = several[: -1 if "IMAGES" in str(parameter.metavar) else None]
            named += [one for one in several if isinstance(one, str)]
    return [name.partition("@")[0] for name in named]


def test_every_encoder_that_is_named_anywhere_exists(repository: Path) -> None:
    ids = {encoder.casefold() for encoder in zoo.list_encoders()}
    unknown = [
        (place, word)
        for place, text in written(repository)
        for word in LOOKS_LIKE_AN_ID.findall(text)
        if word.casefold() not in ids and word.partition("_")[0] not in FIRST_WORDS  # of functions
    ]
    assert not unknown
    assert LOOKS_LIKE_AN_ID.findall("`moco_rn50_ep800`, beitv2_vitB16") == ["moco_rn50_ep800", "beitv2_vitB16"]


def test_every_command_line_in_the_documentation_names_encoders_and_options_that_exist(repository: Path) -> None:
    cards = load_catalogue().with_unlisted
    ids = [encoder.casefold() for encoder in cards]
    n_named = 0
    for place, text in written(repository):
        for line in command_lines(text):
            for name in encoders_of(line):
                folded = name.casefold()
                is_file = "." in name or "/" in name
                known = any(fnmatchcase(one, folded) for one in ids)
                known = known or (line.startswith("zoo list") and bool(cards.finder.find([name])))
                assert known or is_file or PLACEHOLDER.fullmatch(name), f"{place}: {line!r} names {name!r}"
                n_named += 1
    assert n_named > 40


def test_ci_runs_on_every_python_that_the_project_names(repository: Path) -> None:
    workflow = yaml.safe_load((repository / ".github" / "workflows" / "ci.yml").read_text())
    job = workflow["jobs"]["test"]
    assert {"macos-latest", "windows-latest"} == {*workflow["jobs"]["platforms"]["strategy"]["matrix"]["system"]}
    assert any(step.get("run") == ".ci/run" for step in job["steps"])
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    assert min(job["strategy"]["matrix"]["python"]) == project["requires-python"].removeprefix(">=")
