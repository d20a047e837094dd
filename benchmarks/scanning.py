"""A tree of many files: all known, and all new at their second sighting."""

import io
import os
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg2

from benchmarks.measure import REPEATS, Figure, growth, peak_mb, seconds
from benchmarks.place import Place, place

FILES = int(os.environ.get("BENCH_FILES", "100000"))
MEMORY_MB = 64.0

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    new: float
    known: float
    walk: float
    diff: float
    copy: float


def figures() -> Iterator[Figure]:
    with place() as b:
        fill(b.watch, FILES)
        found = _measure(b, REPEATS)
        interpreter = peak_mb([sys.executable, "-c", "pass"], b.settings, b.root)
        peak = _peak(b)
    yield from _beside_floors(FILES, found)
    yield _memory(FILES, peak, interpreter)
    with place() as b:
        fill(b.watch, 10 * FILES)
        more = _measure(b, 1)
        peak = _peak(b)
    yield from _beside_floors(10 * FILES, more)
    yield growth(f"scan, {10 * FILES:,} known files, beside 10 x", found.known, more.known)
    yield growth(f"scan, {10 * FILES:,} new files, beside 10 x", found.new, more.new)
    floors = found.walk + found.copy, more.walk + more.copy
    yield growth(f"the floor itself, walk and COPY of {10 * FILES:,}, beside 10 x", *floors)
    yield _memory(10 * FILES, peak, interpreter)


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


def _measure(b: Place, repeats: int) -> Times:
    paths = [str(path) for path in b.watch.rglob("*.mp4")]
    lines = "".join(
        f"{p}\t{s.st_dev}\t{s.st_ino}\t{s.st_size}\t{s.st_mtime_ns}\t{s.st_ctime_ns}\n"
        for p, s in ((path, os.stat(path)) for path in paths)
    )
    connection = psycopg2.connect(b.dsn)
    connection.autocommit = True
    cursor = connection.cursor()
    columns = "file_path, device, inode, size, mtime_ns, ctime_ns"
    copy = f"COPY floor ({columns}) FROM STDIN"
    times: dict[str, list[float]] = {name: [] for name in Times.__slots__}
    for _ in range(repeats):
        b.empty()
        b.run("scan")
        b.settle()
        times["new"].append(b.run("scan").wall)
        b.settle()
        b.run("scan")
        times["known"].append(b.run("scan").wall)
        times["walk"].append(b.python(WALK, str(b.watch)).wall)
        times["diff"].append(seconds(partial(cursor.execute, DIFF, (paths,))))
        cursor.execute("DROP TABLE IF EXISTS floor")
        cursor.execute("CREATE TABLE floor (LIKE processing_queue INCLUDING ALL)")
        times["copy"].append(seconds(partial(cursor.copy_expert, copy, io.StringIO(lines))))
        cursor.execute("DROP TABLE floor")
    connection.close()
    return Times(**{name: statistics.median(taken) for name, taken in times.items()})
