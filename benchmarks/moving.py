"""A large file across file systems, and many small ones on one."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.measure import Figure, growth, interleaved, seconds
from embyproc.files.move import Mover

COPY_BYTES = int(os.environ.get("BENCH_COPY_MIB", "2048")) * 1024 * 1024
SMALL = 1000


def figures(notes: list[str]) -> Iterator[Figure]:
    with ExitStack() as stack:
        here = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="embyproc-bench-")))
        shared = Path("/dev/shm")
        if not shared.is_dir() or shared.stat().st_dev == here.stat().st_dev:
            notes.append("move across file systems: not measured, there is no second one here")
        else:
            there = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="embyproc-", dir=shared))
            )
            yield from _large(there, here)
            notes.append(
                f"move across file systems: from a tenth of {COPY_BYTES >> 20:,} MiB to all of it; "
                "ten times that does not fit the memory that holds the second file system"
            )
        yield from _small(here)


def _large(there: Path, here: Path) -> Iterator[Figure]:
    original, target = there / "original", here / "target.mp4"
    _write(original, COPY_BYTES)
    copied, moved = interleaved(
        partial(_copy, original, target), partial(_move, original, target), repeats=3
    )
    size = COPY_BYTES / 1e6
    yield Figure(
        what=f"move of {COPY_BYTES >> 20:,} MiB across file systems, beside cp and sync (MB/s)",
        figure=size / moved,
        floor=size / copied,
        unit="",
        target=0.9,
        higher_is_better=True,
    )
    _write(original, COPY_BYTES // 10)
    (tenth,) = interleaved(partial(_move, original, target), repeats=3)
    yield growth(f"move of {COPY_BYTES >> 20:,} MiB, beside 10 x a tenth of it", tenth, moved)


def _write(path: Path, size: int) -> None:
    block = os.urandom(1024 * 1024)
    with path.open("wb") as file:
        for _ in range(size // len(block)):
            file.write(block)


def _copy(original: Path, target: Path) -> float:
    command = f"cp '{original}' '{target}' && sync '{target}'"
    taken = seconds(partial(subprocess.run, command, shell=True, check=True))
    target.unlink()
    return taken


def _move(original: Path, target: Path) -> float:
    source = original.with_name("source.mp4")
    os.link(original, source)
    temporary = str(target.with_name(".t"))
    taken = seconds(partial(Mover().move, str(source), str(target), temporary, lambda: True))
    target.unlink()
    return taken


def _small(here: Path) -> Iterator[Figure]:
    first, second = here / "a", here / "b"
    first.mkdir()
    second.mkdir()
    # In turns, so that a slow minute hits few and many.
    renamed, moved, more = interleaved(
        partial(_renames, first, second, SMALL),
        partial(_moves, first, second, SMALL),
        partial(_moves, first, second, 10 * SMALL),
    )
    yield Figure(
        what=f"move of {SMALL:,} small files on one file system, beside rename and fsync",
        figure=moved,
        floor=renamed,
        unit="s",
        target=2.0,
    )
    yield growth(f"move of {10 * SMALL:,} small files, beside 10 x", moved, more)


def _renames(first: Path, second: Path, count: int) -> float:
    names = _put(first, second, count)

    def renames() -> None:
        for name in names:
            os.rename(first / name, second / name)
            handle = os.open(second, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)

    return seconds(renames)


def _moves(first: Path, second: Path, count: int) -> float:
    names = _put(first, second, count)

    def moves() -> None:
        mover = Mover()
        for name in names:
            mover.move(str(first / name), str(second / name), str(second / ".t"), lambda: True)
            mover.sync()

    return seconds(moves)


def _put(first: Path, second: Path, count: int) -> list[str]:
    shutil.rmtree(second)
    second.mkdir()
    names = [f"{n}.mp4" for n in range(count)]
    for name in names:
        (first / name).write_bytes(b"film")
    return names
