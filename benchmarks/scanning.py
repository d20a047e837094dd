"""A tree of many files: all known, and all new at their second sighting."""

import io
import os
import statistics
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg2

from benchmarks.measure import Figure, growth, peak_mb, seconds
from benchmarks.place import Place, place

FILES = int(os.environ.get("BENCH_FILES", "100000"))
MEMORY_MB = 64.0
# A large round takes a minute, in which a shared machine may change its pace: more than elsewhere.
ROUNDS = 7

WALK = """
import os, sys
stack, seen = [sys.argv[1]], 0
while stack:
    with os.scandir(stack.pop()) as listing:
        for entry in listing:
            if entry.is_dir(follow_symlinks=False):
                stack.append(entry.path)
            else:
                entry.stat(follow_symlinks=False)
                seen += 1
"""
DIFF = """
    SELECT path FROM unnest(%s::text[]) AS path
    WHERE NOT EXISTS (SELECT FROM processing_queue q WHERE q.file_path = path)
"""

COPY = "COPY floor (file_path, device, inode, size, mtime_ns, ctime_ns) FROM STDIN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    new: float
    known: float
    walk: float
    diff: float
    copy: float


def figures() -> Iterator[Figure]:
    with place() as b, place() as more:
        fill(b.watch, FILES)
        fill(more.watch, 10 * FILES)
        small, large = _Tree(b), _Tree(more)
        # In turns, so that a slow minute hits both.
        for _ in range(ROUNDS):
            small.measure()
            large.measure()
        found, ten = small.medians(), large.medians()
        interpreter = peak_mb([sys.executable, "-c", "pass"], b.settings, b.root)
        peaks = _peak(b), _peak(more)
    yield from _beside_floors(FILES, found)
    yield _memory(FILES, peaks[0], interpreter)
    yield from _beside_floors(10 * FILES, ten)
    yield growth(f"scan, {10 * FILES:,} known files, beside 10 x", found.known, ten.known)
    yield growth(f"scan, {10 * FILES:,} new files, beside 10 x", found.new, ten.new)
    floors = found.walk + found.copy, ten.walk + ten.copy
    yield growth(f"the floor itself, walk and COPY of {10 * FILES:,}, beside 10 x", *floors)
    yield _memory(10 * FILES, peaks[1], interpreter)


def fill(folder: Path, count: int) -> None:
    for number in range(count // 100):
        place = folder / f"folder {number:05}"
        place.mkdir()
        for film in range(100):
            (place / f"ABC-{number:03}{film:02} some title here.mp4").touch()


def _beside_floors(files: int, found: Times) -> Iterator[Figure]:
    yield Figure(
        what=f"scan, {files:,} known files, beside walk and diff",
        figure=found.known,
        floor=found.walk + found.diff,
        unit="s",
        target=1.5,
    )
    yield Figure(
        what=f"scan, {files:,} new files (second sighting), beside walk and COPY",
        figure=found.new,
        floor=found.walk + found.copy,
        unit="s",
        target=2.0,
    )


def _peak(b: Place) -> float:
    """Of the scan that queues everything, which is the one that holds most."""
    b.empty()
    b.run("scan")
    return b.peak_mb("scan")


def _memory(files: int, peak_mb: float, interpreter_mb: float) -> Figure:
    return Figure(
        what=f"peak memory of a scan of {files:,} new files, beside 64 MB + interpreter",
        figure=peak_mb,
        floor=MEMORY_MB + interpreter_mb,
        unit="M",
        target=1.0,
    )


class _Tree:
    """A full watch folder, scanned again and again beside what is the least to do."""

    def __init__(self, b: Place) -> None:
        self._b = b
        self._paths = [str(path) for path in b.watch.rglob("*.mp4")]
        self._lines = "".join(
            f"{p}\t{s.st_dev}\t{s.st_ino}\t{s.st_size}\t{s.st_mtime_ns}\t{s.st_ctime_ns}\n"
            for p, s in ((path, os.stat(path)) for path in self._paths)
        )
        self._rounds: list[Times] = []

    def measure(self) -> None:
        b = self._b
        b.empty()
        b.run("scan")
        b.settle()
        new = b.run("scan").wall
        b.settle()
        b.run("scan")
        known = b.run("scan").wall
        walk = b.python(WALK, str(b.watch)).wall
        with closing(psycopg2.connect(b.dsn)) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            diff = seconds(partial(cursor.execute, DIFF, (self._paths,)))
            cursor.execute("CREATE TABLE floor (LIKE processing_queue INCLUDING ALL)")
            copy = seconds(partial(cursor.copy_expert, COPY, io.StringIO(self._lines)))
            cursor.execute("DROP TABLE floor")
        self._rounds.append(Times(new=new, known=known, walk=walk, diff=diff, copy=copy))

    def medians(self) -> Times:
        names = Times.__slots__
        return Times(**{n: statistics.median(getattr(r, n) for r in self._rounds) for n in names})
