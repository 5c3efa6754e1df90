"""Every fault of a server is overcome or is one sentence, and no moment at which a download is killed costs more.

``stress/fetch_faults.py`` prints the faults as a table, ``stress/fetch_kills.py`` kills a hundred downloads.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import KW_ONLY, dataclass, replace
from email.utils import formatdate
from hashlib import sha256
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.servers import RIGHT, Fault, Server, serving
from zoo.errors import StoreError, WeightsRefused, WeightsUnavailable, ZooError
from zoo.progress import SilentProgress
from zoo.weights.download import RetryPolicy, fetch

BODY = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(290_000)  # what the publisher puts in its place
HALF = 150_000
QUICK = RetryPolicy(timeout_s=0.4, attempts=3, first_wait_s=0.01, longest_wait_s=2.0)
NO_DATE = {"Last-Modified": None}
NO_VALIDATORS = {"ETag": None, "Last-Modified": None}
RECOVERED = "recovered"


@dataclass(frozen=True, slots=True)
class Case:
    """Faults of a server, and what must come of them."""

    name: str
    _: KW_ONLY
    faults: tuple[Fault, ...] = ()  # of the first answers
    always: Fault = RIGHT  # of all others
    hash: str = ""  # the whole sha256 that is known in advance
    size_bytes: int | None = None  # that is known in advance
    outcome: str | type[ZooError] = RECOVERED
    says: str = ""  # in the error
    body: bytes = BODY  # what is there in the end
    asked: tuple[str, ...] | None = None  # ranges asked for, one for each request


def cut(**changes: object) -> tuple[Fault, ...]:
    """An answer that breaks off in the middle, then others."""
    return (replace(Fault(truncate=HALF), **changes),)  # type: ignore[arg-type]


REST = f"bytes={HALF}-"
KNOWN = sha256(BODY).hexdigest()
UNAVAILABLE, REFUSED = WeightsUnavailable, WeightsRefused

CASES = (
    Case("no fault", asked=("",)),
    Case("body cut once", faults=cut(), asked=("", REST)),
    Case("body cut before its first byte", faults=(Fault(truncate=0),), asked=("", "")),
    Case("body cut in every answer, with progress", faults=cut() + cut(truncate=50_000) * 2),
    Case("body always cut at once", always=Fault(truncate=0), outcome=UNAVAILABLE, says="0 bytes read"),
    Case("connection reset once", faults=(Fault(reset=HALF),)),
    Case("connection always reset", always=Fault(reset=0), outcome=UNAVAILABLE, says="reset"),
    Case("silent once in the middle", faults=(Fault(stall=HALF),), asked=("", REST)),
    Case("silent before the first line, always", always=Fault(stall=-1), outcome=UNAVAILABLE, says="nothing came"),
    Case("slow drip", always=Fault(piece_bytes=30_000, pause_s=0.02)),
    Case("503 twice", faults=(Fault(status=503),) * 2),
    Case("503 always", always=Fault(status=503), outcome=UNAVAILABLE, says="503"),
    Case("500 in the middle", faults=(*cut(), Fault(status=500)), asked=("", REST, REST)),
    Case("429, Retry-After in seconds", faults=(Fault(status=429, headers={"Retry-After": "1"}),)),
    Case("429, Retry-After as a date", faults=(Fault(status=429, headers={"Retry-After": formatdate(usegmt=True)}),)),
    Case(
        "429, Retry-After an hour",
        always=Fault(status=429, headers={"Retry-After": "3600"}),
        outcome=UNAVAILABLE,
        says="come back in 3600 s",
        asked=("",),
    ),
    Case("404", always=Fault(status=404), outcome=UNAVAILABLE, says="404", asked=("",)),
    Case("401", always=Fault(status=401), outcome=UNAVAILABLE, says="401", asked=("",)),
    Case("403", always=Fault(status=403), outcome=UNAVAILABLE, says="403", asked=("",)),
    Case("418", always=Fault(status=418), outcome=UNAVAILABLE, says="418", asked=("",)),
    Case("204", always=Fault(status=204), outcome=UNAVAILABLE, says="204", asked=("",)),
    Case("range ignored", faults=(*cut(), Fault(ignores_range=True)), asked=("", REST)),
    Case("no validators", faults=cut(headers=NO_VALIDATORS), asked=("", "")),
    Case("weak ETag and no date", faults=cut(headers={"ETag": 'W/"1"', **NO_DATE}), asked=("", "")),
    Case("weak ETag and a date", faults=cut(headers={"ETag": 'W/"1"'}), always=Fault(headers={"ETag": 'W/"1"'})),
    Case("no ETag but a date", faults=cut(headers={"ETag": None}), asked=("", REST)),
    Case("file changed in between", faults=cut(), always=Fault(body=OTHER), body=OTHER, asked=("", REST)),
    Case(
        "file changed, If-Range ignored",
        faults=cut(),
        always=Fault(body=OTHER, ignores_if_range=True),
        body=OTHER,
        asked=("", REST, ""),
    ),
    Case(
        "same ETag, other date",
        faults=(*cut(), Fault(headers={"Last-Modified": "Thu, 22 Oct 2015 07:28:00 GMT"})),
        asked=("", REST),
    ),
    Case(
        "Content-Range begins elsewhere",
        faults=(*cut(), Fault(headers={"Content-Range": "bytes 150001-299999/300000"})),
        asked=("", REST, ""),
    ),
    Case(
        "Content-Range with another total",
        faults=(*cut(), Fault(headers={"Content-Range": "bytes 150000-299999/300001"})),
        asked=("", REST, ""),
    ),
    Case("206 without Content-Range", faults=(*cut(), Fault(headers={"Content-Range": None})), asked=("", REST, "")),
    Case("416 to a good range", faults=(*cut(), Fault(status=416)), asked=("", REST, "")),
    Case("206 to no range", always=Fault(status=206), outcome=UNAVAILABLE, says="206"),
    Case("length declared too long", always=Fault(headers={"Content-Length": "300100"}), outcome=UNAVAILABLE),
    Case(
        "length declared too short",
        always=Fault(headers={"Content-Length": "299900"}),
        hash=KNOWN,
        outcome=REFUSED,
        says="299900 bytes",
    ),
    Case("bytes after the end", always=Fault(surplus=b"more")),
    Case("length unknown", always=Fault(headers={"Content-Length": None}), outcome=UNAVAILABLE, says="how long"),
    Case("length unknown, hash known", always=Fault(headers={"Content-Length": None}), hash=KNOWN),
    Case("chunked", always=Fault(is_chunked=True)),
    Case("chunked and cut", faults=cut(is_chunked=True), asked=("", REST)),
    Case("gzip although refused", always=Fault(is_gzipped=True), outcome=REFUSED, says="encoded (gzip)"),
    Case(
        "web page instead of the file",
        always=Fault(body=b"<html>Sign in</html>", headers={"Content-Type": "text/html; charset=utf-8"}),
        outcome=UNAVAILABLE,
        says="web page",
    ),
    Case("empty file", always=Fault(body=b""), outcome=REFUSED, says="empty"),
    Case("wrong file", always=Fault(body=OTHER), hash=KNOWN, outcome=REFUSED, says=KNOWN),
    Case("wrong length, seen before the body", size_bytes=7, outcome=REFUSED, says="300000 bytes, expected 7"),
    Case(
        "one bit wrong once, in a resumed body",
        faults=(*cut(), Fault(body=BODY[:-1] + b"\0", headers={"ETag": f'"{KNOWN[:16]}"'}, ignores_if_range=True)),
        hash=KNOWN,
        asked=("", REST, ""),
    ),
    Case("redirected four times", faults=tuple(Fault(redirect=f"/weights.pth?{n}") for n in range(4)), asked=("",) * 5),
    Case("redirected in a circle", always=Fault(redirect="/weights.pth"), outcome=UNAVAILABLE, says="nowhere"),
    Case("redirected to a file", always=Fault(redirect="file:///etc/hostname"), outcome=REFUSED),
    Case("redirected to ftp", always=Fault(redirect="ftp://127.0.0.1/a.pth"), outcome=REFUSED, says="less safe"),
    Case(
        "redirected to plain http elsewhere",
        always=Fault(redirect="http://weights.invalid/a.pth"),
        outcome=REFUSED,
        says="plain http",
    ),
    Case("redirected to no host", always=Fault(redirect="http://"), outcome=UNAVAILABLE),
    Case(
        "more than the disk holds",
        always=Fault(headers={"Content-Length": str(10**17)}),
        outcome=StoreError,
        says="are free",
    ),
)


def outcome_of(case: Case, folder: Path) -> tuple[str, Server]:
    """What came of a case, "recovered" or the error's class and sentence, and the server; AssertionError if neither."""
    with serving({"/weights.pth": BODY}) as server:
        server.plan("/weights.pth", *case.faults)
        server.always("/weights.pth", case.always)
        try:
            got = fetch(
                f"{server.url}/weights.pth",
                folder=folder,
                sha256=case.hash or None,
                size_bytes=case.size_bytes,
                progress=SilentProgress(),
                policy=QUICK,
            )
        except ZooError as error:
            assert not list(folder.glob("downloads/*")), "an error left a file that looks whole"
            assert not isinstance(error, WeightsRefused) or not list(folder.glob("partial/*.part")), (
                "a refusal left something"
            )
            return f"{type(error).__name__}: {error}", server
        assert got.path.read_bytes() == case.body, "a wrong file was published"
        assert (got.sha256, got.size_bytes) == (sha256(case.body).hexdigest(), len(case.body))
        assert not list(folder.glob("partial/*.part")), "a partial file was left after success"
        return RECOVERED, server


def test_every_fault_of_a_server_is_overcome_or_is_one_sentence(tmp_path: Path) -> None:
    for number, case in enumerate(CASES):
        came, server = outcome_of(case, tmp_path / str(number))
        if isinstance(case.outcome, str):
            assert came == case.outcome, case.name
        else:
            assert came.startswith(f"{case.outcome.__name__}: "), (case.name, came)
            assert case.says in came, (case.name, came)
            assert came.endswith("."), (case.name, came)
            assert "\n" not in came, (case.name, came)
        if case.asked is not None:
            assert tuple(request.range for request in server.log) == case.asked, case.name


_CHILD = """
import sys
from pathlib import Path
from zoo.weights.download import fetch
from zoo.progress import SilentProgress
print(fetch(sys.argv[1], folder=Path(sys.argv[2]), progress=SilentProgress()).sha256)
"""


def killed_then_whole(server: Server, path: str, folder: Path, *, at_byte: int, later_s: float) -> tuple[str, int]:
    """Kills a download so long after the server has sent ``at_byte`` bytes, then lets a second one end.

    Returns the sha256 that the second process says, and how many bytes were sent more than once.
    """
    before = server.sent_bytes
    command = [sys.executable, "-c", _CHILD, f"{server.url}{path}", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    first = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with first:
        for _ in range(60_000):
            if server.sent_bytes - before >= at_byte or first.poll() is not None:
                break
            time.sleep(0.0005)
        time.sleep(later_s)
        first.send_signal(signal.SIGKILL)
        first.wait(timeout=60)
    second = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert second.returncode == 0, second.stderr
    return second.stdout.strip(), server.sent_bytes - before - len(server.files[path])


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_killed_download_goes_on_where_it_was(share: float, tmp_path: Path) -> None:
    body = random.Random(2).randbytes(3_000_000)
    with serving({"/weights.pth": body}, send_buffer_bytes=16_384) as server:
        server.always("/weights.pth", Fault(piece_bytes=16_384, pause_s=0.001))
        said, sent_again = killed_then_whole(
            server, "/weights.pth", tmp_path, at_byte=int(share * len(body)), later_s=0.002
        )
    assert said == sha256(body).hexdigest()
    assert sent_again <= 1 << 20
    assert [path.name.rpartition("-")[2] for path in (tmp_path / "downloads").iterdir()] == [said]
    assert not list(tmp_path.glob("partial/*.part"))
