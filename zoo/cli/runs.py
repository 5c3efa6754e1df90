"""``zoo runs``: what is done, running or failed of work on many workers, why, and how it goes on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from ..cards.answers import make_table
from ..errors import QueryError, format_count, format_range
from ..execution.journal import CLOCKS_DIFFER_S, JournalWriter, RunRecord, find_run_record, list_run_records
from ..files import get_cache_folder, parse_local_folder
from ..storage import Location, resolve_place
from .engine_options import PROCESS_OPTIONS
from .options import add_options
from .output import NothingFound, add_json_option, format_size, print_json, print_notes, print_table, wrap_text

_EXAMPLES = """\b
Examples:
  zoo runs ls s3://bucket/features
  zoo runs why s3://bucket/features 3f0c
  zoo runs resume s3://bucket/features --on local:8

\b
Every one of them takes --json.
"""
_SHARD = re.compile(r"shard-(\d{6,})-(?:[0-9a-f]{16}){1,2}\.safetensors")
_AT_ONCE = 16  # folders of features that are looked at
_FIRST = 20  # entries of each kind that are printed; --json has all that are recorded
_PLACE_AND_RUN = click.argument("given", metavar="[PLACE] [RUN]", nargs=-1)
_RUN = re.compile(r"[0-9a-f]{3,12}")


@click.group("runs", epilog=_EXAMPLES)
def runs_command() -> None:
    """Show what is done, running or failed of work on many workers.

    PLACE is the folder or address that --to named, by default the folder of evaluations in the cache. RUN is the name
    of a run, or its beginning; it may be left out where there is only one.
    """


@runs_command.command("ls", epilog="\b\nExamples:\n  zoo runs ls\n  zoo runs ls s3://bucket/features --json")
@click.argument("place", metavar="[PLACE]", required=False)
@add_json_option
def list_runs(place: str | None, as_json: bool) -> None:
    """List the runs at a place, and their progress.

    "lost" is a run whose process has died, or cannot reach the place any more.
    """
    at = _place(place)
    found = [_RunStatus(at, record) for record in list_run_records(at)]
    if as_json:
        print_json({"place": at.shown, "runs": [seen.document() for seen in found]})
        return
    if not found:
        raise NothingFound(f"There is no record of a run at {at.shown}.")
    headers = ["run", "verb", "state", "encoders", "complete", "items", "failed", "again", "images", "written", "begun"]
    rows = []
    for one in map(_RunStatus.document, found):
        items = one["items"]
        counts = [len(one["encoders"]), f"{one['n_complete']:,}/{one['n_features']:,}", items["done"] - items["there"]]
        counts += [items["failed"], items["retried"], one["n_images"]]
        shown = [count if isinstance(count, str) else f"{count:,}" for count in counts]
        rows.append([one["run"], one["verb"], one["state"], *shown, format_size(one["n_bytes"]), one["started"]])
    print_table(make_table(headers, rows, numbers=[3, 4, 5, 6, 7, 8, 9]))
    if any(seen.state not in ("done", "running") for seen in found):
        print_notes(
            [f"what failed or is missing: zoo runs why {at.shown} RUN; to go on: zoo runs resume {at.shown} RUN"]
        )


@runs_command.command("why", epilog="\b\nExamples:\n  zoo runs why ./features 3f0c\n  zoo runs why")
@_PLACE_AND_RUN
@add_json_option
def explain_run(given: tuple[str, ...], as_json: bool) -> None:
    """Show what failed in a run, what is missing, and its warnings.

    Each failed item with its encoders, images, tries and errors; each incomplete encoder with the number of missing
    shards.
    """
    at, record = _chosen(given)
    seen = _RunStatus(at, record)
    if as_json:
        print_json(seen.document() | seen.details())
    else:
        seen.print_details()


@runs_command.command("resume", epilog="\b\nExamples:\n  zoo runs resume ./features 3f0c --on local:8")
@_PLACE_AND_RUN
@(lambda command: add_options(command, PROCESS_OPTIONS))
@add_json_option
@click.pass_context
def resume_run(ctx: click.Context, /, given: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Go on with a run, with any number of workers, by any engine.

    It runs the command of the run again, which computes what is missing; --cpus-each and all other options that may
    change numbers are those of the run. Without --on there is one worker.
    """
    at, record = _chosen(given, unfinished=True)
    if not record.asked.command:
        raise QueryError(f"The run {record.run} at {at.shown} was begun in Python; run the same program again.")
    verb, *arguments = record.asked.command
    where = next((one for one in given if not _is_run(one)), None)
    again = [verb, *([] if where is None else ["--to", str(parse_local_folder(where) or where)])]
    for name, option in (("on", "--on"), ("gpus_each", "--gpus-each")):
        if options[name] is not None:
            again += [option, str(options[name])]
    if options["part"] is not None:
        again += ["--part", "/".join(map(str, options["part"]))]
    engines = [writer.facts["engine"] for writer in record.writers]
    if options["on"] is None and options["part"] is None and "this process" not in engines:
        again += ["--on", "local:1"]  # without an engine the command would use all threads, and round otherwise
    again += ["--mixed-versions"] * options["mixed_versions"] + ["--json"] * as_json + arguments
    root = ctx.find_root()
    assert isinstance(root.command, click.Group)
    again_context = root.command.make_context(root.info_name, again)
    with again_context:
        root.command.invoke(again_context)


def _place(where: str | None) -> Location:
    return resolve_place(get_cache_folder() / "evaluations" if where is None else where)


def _is_run(text: str) -> bool:
    """True of what is the name of a run, or its beginning, and no folder."""
    return bool(_RUN.fullmatch(text)) and not Path(text).exists()


def _chosen(given: Sequence[str], *, unfinished: bool = False) -> tuple[Location, RunRecord]:
    """The place and the run of the arguments."""
    if len(given) > 2:
        raise QueryError(f"Got {' '.join(given)!r}, expected [PLACE] [RUN].")
    names = list(given[1:]) if len(given) == 2 else [one for one in given if _is_run(one)]
    at = _place(next((one for one in given if one not in names), None))
    if names:
        return at, find_run_record(at, names[0])
    found = list_run_records(at)
    if not found:
        raise NothingFound(f"There is no record of a run at {at.shown}.")
    if len(found) > 1 and unfinished:
        found = [one for one in found if _RunStatus(at, one).state not in ("done", "running")] or found
    if len(found) > 1:
        raise QueryError(
            f"There are {len(found)} runs at {at.shown}; name one of {', '.join(one.run for one in found)}."
        )
    return at, found[0]


class _RunStatus:
    """A run as it is now: its record, and which features are complete at the place."""

    def __init__(self, place: Location, record: RunRecord) -> None:
        self.record = record
        self.asked = record.asked.features
        self.encoders = list(dict.fromkeys(one["encoder"] for one in self.asked))
        done = {tuple(one) for one in record.all_of("complete")}
        open_ones = [one for one in self.asked if (one["encoder"], one["part"]) not in done]
        with ThreadPoolExecutor(_AT_ONCE) as threads:  # an address answers slowly, but many questions at once
            lacking = list(threads.map(lambda one: _n_missing(place, one), open_ones))
        self.missing = [
            {"encoder": one["encoder"], "part": one["part"], "missing_shards": n, "shards": one["n_shards"]}
            for one, n in zip(open_ones, lacking, strict=True)
            if n is not None
        ]
        self.n_complete = len(self.asked) - len(self.missing)

    @property
    def state(self) -> str:
        """In a word."""
        if self.record.is_running:
            return "running"
        if not self.record.writers:
            return "lost" if self.missing else "done"
        last = self.record.writers[0]
        if not self.missing and not last.facts["more"]["failed"] and last.state not in ("interrupted", "lost"):
            return "done"
        if last.state == "ended":
            return "failed" if last.facts["failures"] else "incomplete"
        return last.state

    def document(self) -> dict[str, Any]:
        """As JSON."""
        record = self.record
        return {
            "run": record.run,
            "verb": record.asked.verb,
            "command": list(record.asked.command),
            "state": self.state,
            "started": record.asked.started,
            "encoders": self.encoders,
            "n_features": len(self.asked),
            "n_complete": self.n_complete,
            "items": {name: record.total("items", name) for name in ("done", "there", "failed", "retried")},
            "more": {name: record.total("more", name) for name in ("done", "failed")},
            "n_images": record.total("n_images"),
            "n_bytes": record.total("n_bytes"),
            "worker_deaths": record.total("deaths"),
            "writers": [_writer(writer) for writer in record.writers],
        }

    def details(self) -> dict[str, Any]:
        """The rest of it as JSON."""
        record, skipped = self.record, {tuple(sorted(one.items())): one for one in self.record.all_of("skipped")}
        return {
            "settings": dict(record.asked.settings),
            "versions": dict(record.asked.versions),
            "incomplete": self.missing,
            **{name: [_with_images(one) for one in record.all_of(name)] for name in _HEADINGS},
            "n_skipped": max((writer.facts["n_skipped"] for writer in record.writers), default=0),
            "skipped": list(map(dict, skipped.values())),
            **{
                name: {worker: text for writer in record.writers for worker, text in writer.facts[name].items()}
                for name in ("marked", "refused")
            },
        }

    def print_details(self) -> None:
        """Prints everything that failed, is missing or needs a warning."""
        facts, record = self.details(), self.record
        what = "curves" if record.asked.verb == "curve" else "features"
        complete = f"{self.n_complete:,} of {len(self.asked):,} {what} are complete"
        click.echo(wrap_text(f"run {record.run} ({record.asked.verb}): {self.state}; {complete}"))
        if self.missing:
            rows = [
                [one["encoder"], one["part"], f"{one['missing_shards']:,} of {one['shards']:,}"]
                for one in self.missing[:_FIRST]
            ]
            click.echo()
            print_table(make_table(["not complete", "part", "shards missing"], rows, numbers=[2]))
        for name, heading in _HEADINGS.items():
            if facts[name]:
                click.echo(f"\n{heading}")
            for one in facts[name][:_FIRST]:
                first, end = one.get("images", (0, 0))
                images = f", images {format_range(f'{first:,}', f'{end - 1:,}')}" if end else ""
                batch = f", batches of {one['batch_size']}" if "batch_size" in one else ""
                click.echo(wrap_text(f"  {', '.join(one['encoders'])}: {one.get('part') or ''}{images}{batch}"))
                for number, sentence in enumerate(one.get("tries", ()), 1):
                    click.echo(wrap_text(f"    try {number}: {sentence}"))
        n_more = sum(max(0, len(found) - _FIRST) for found in (self.missing, *map(facts.__getitem__, _HEADINGS)))
        notes = [f"{format_count(n_more, 'more entry', 'more entries')}: --json"] * bool(n_more)
        for writer in record.writers:
            offset = writer.facts["clock_offset_s"] or 0.0
            is_off = abs(offset) > CLOCKS_DIFFER_S
            if is_off or writer.state in ("interrupted", "failed", "lost"):
                sentence = f", {writer.facts['sentence']}" if writer.facts["sentence"] else ""
                clock = f"; its clock is {offset:+,.0f} s behind that of the place" if is_off else ""
                notes.append(f"{writer.facts['writer']} ({writer.facts['engine']}): {writer.state}{sentence}{clock}")
        if facts["skipped"]:
            names = ", ".join(f"{one['part']}: {one['image']}" for one in facts["skipped"])
            notes.append(f"{format_count(facts['n_skipped'], 'image')} could not be read and left out: {names}")
        for kind, told in (("marked", "computes with other versions"), ("refused", "was not used: other versions")):
            notes += [f"{worker} {told} ({differ})" for worker, differ in facts[kind].items()]
        print_notes(notes)


_HEADINGS = {
    "failures": "failed",
    "retried": "done again after a failure",
    "nondeterministic": "two workers made different features of the same images; one of the two is used",
    "halved": "computed in smaller batches: the memory was too small",
}


def _n_missing(place: Location, asked: Mapping[str, Any]) -> int | None:
    """How many shards features lack; None if they are complete. Of what has no folder a journal says whether it is."""
    if not asked["folder"]:
        return int(asked["n_shards"])
    for name in asked["folder"].split("/"):
        place = place.below(name)
    names = place.names()
    if "index.json" in names:
        return None
    there = {int(match[1]) for name in names if (match := _SHARD.fullmatch(name))}
    return len(set(range(asked["n_shards"])) - there)


def _writer(writer: JournalWriter) -> dict[str, Any]:
    names = ("writer", "engine", "n_workers", "part", "sentence", "started", "updated", "clock_offset_s", "items")
    more = {"busy_s": writer.facts["busy_s"], "n_workers_seen": len(writer.facts["workers"])}
    facts = {name: writer.facts[name] for name in names}
    return {"state": writer.state, "age_s": round(writer.age_s, 1)} | facts | more


def _with_images(one: Mapping[str, Any]) -> dict[str, Any]:
    """An entry with the range of its images, from the first to the one behind the last."""
    number, shard_size = one.get("number"), one.get("shard_size")
    if number is None or shard_size is None:
        return dict(one)
    return {**one, "images": [number * shard_size, (number + 1) * shard_size]}
