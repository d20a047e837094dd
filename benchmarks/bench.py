"""The benchmarks. Each runs the real program as cron would, on an embedded database of its own."""

import io
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import psycopg2

from benchmarks.measure import REPEATS, Figure, interleaved, seconds
from embyproc.demo.emby import StandInEmby
from embyproc.demo.wordpress import StandInWordPress
from embyproc.embedded import Embedded
from embyproc.files.move import Mover
from embyproc.migrate import migrate
from embyproc.models import PROCESS, Finished
from embyproc.store import Store
from embyproc.store.database import Database, open_database

MANY = int(os.environ.get("BENCH_FILES", "100000"))
COPY_BYTES = int(os.environ.get("BENCH_COPY_MIB", "2048")) * 1024 * 1024

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


class Bench:
    """A database, folders and settings for one benchmark."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.embedded = Embedded(home=root / "home")
        self.embedded.ensure_running()
        self.parameters = self.embedded.connection_parameters()
        self.database: Database = open_database(self.parameters)
        migrate(self.database)
        self.store = Store(self.database, lambda: open_database(self.parameters))
        self.watch, self.destination = root / "watch", root / "destination"
        self.watch.mkdir()
        self.destination.mkdir()
        self.settings = {
            "PATH": os.environ["PATH"],
            "EMBYPROC_HOME": str(root / "home"),
            "WATCH_DIR": str(self.watch),
            "DESTINATION_DIR": str(self.destination),
            "STABILITY_MIN_AGE": "0",
            "API_BASE_URL": "http://127.0.0.1:1",
            "API_TOKEN": "unused",
            "EMBY_BASE_URL": "http://127.0.0.1:1",
            "EMBY_API_KEY": "unused",
            "EMBY_LIBRARY_PATH": "/mnt/library",
        }

    def run(self, *words: str) -> None:
        subprocess.run(
            [sys.executable, "-m", "embyproc", "-q", *words],
            env=self.settings,
            cwd=self.root,
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def empty(self) -> None:
        self.database.execute(
            "TRUNCATE processing_queue, sightings, queue_events, services, watched_folders, runs"
        )


@contextmanager
def bench() -> Iterator[Bench]:
    root = Path(tempfile.mkdtemp(prefix="embyproc-bench-"))
    root.chmod(0o755)
    made = Bench(root)
    try:
        yield made
    finally:
        made.database.close()
        made.embedded.stop()
        shutil.rmtree(root)


def _dsn(parameters: dict[str, str]) -> str:
    return " ".join(f"{name}='{value}'" for name, value in parameters.items())


def idle() -> Iterator[Figure]:
    """Nothing to do, 10,000 completed rows: what 1,440 starts a day cost."""
    with bench() as b:
        b.database.execute(
            """INSERT INTO processing_queue (file_path, status)
               SELECT '/old/' || n, 'completed' FROM generate_series(1, 10000) AS n"""
        )
        program = "import sys, psycopg2; psycopg2.connect(sys.argv[1]).cursor().execute('SELECT 1')"
        floor_command = [sys.executable, "-c", program, _dsn(b.parameters)]

        def floor() -> None:
            subprocess.run(floor_command, env=b.settings, check=True)

        commands = ("run", "scan", "process", "emby", "retry")
        calls = [partial(b.run, command) for command in commands]
        floor_time, *times = interleaved(floor, *calls, repeats=3 * REPEATS)
        for command, taken in zip(commands, times, strict=True):
            yield Figure(
                what=f"idle {command}, beside connect and SELECT 1",
                figure=taken,
                floor=floor_time,
                unit="s",
                target=3.0 if command == "run" else 2.0,
            )


def scanning() -> Iterator[Figure]:
    """A tree of many files: all known, and all new at their second sighting."""
    with bench() as b:
        for folder in range(MANY // 100):
            place = b.watch / f"folder {folder:04}"
            place.mkdir()
            for number in range(100):
                (place / f"ABC-{folder:03}{number:02} some title here.mp4").touch()
        paths = [str(path) for path in b.watch.rglob("*.mp4")]
        lines = "".join(
            f"{p}\t{s.st_dev}\t{s.st_ino}\t{s.st_size}\t{s.st_mtime_ns}\t{s.st_ctime_ns}\n"
            for p, s in ((path, os.stat(path)) for path in paths)
        )
        connection = psycopg2.connect(_dsn(b.parameters))
        connection.autocommit = True
        cursor = connection.cursor()
        times: dict[str, list[float]] = {"new": [], "known": [], "walk": [], "diff": [], "copy": []}
        for _ in range(REPEATS):
            b.empty()
            b.run("scan")
            times["new"].append(seconds(lambda: b.run("scan")))
            b.database.execute("VACUUM ANALYZE processing_queue")
            b.run("scan")
            times["known"].append(seconds(lambda: b.run("scan")))
            walk = partial(subprocess.run, [sys.executable, "-c", WALK, str(b.watch)], check=True)
            times["walk"].append(seconds(walk))
            times["diff"].append(
                seconds(
                    lambda: cursor.execute(
                        "SELECT path FROM unnest(%s::text[]) AS path WHERE NOT EXISTS "
                        "(SELECT FROM processing_queue q WHERE q.file_path = path)",
                        (paths,),
                    )
                )
            )
            cursor.execute("DROP TABLE IF EXISTS floor")
            cursor.execute("CREATE TABLE floor (LIKE processing_queue INCLUDING ALL)")
            columns = "file_path, device, inode, size, mtime_ns, ctime_ns"
            sql = f"COPY floor ({columns}) FROM STDIN"
            times["copy"].append(seconds(partial(cursor.copy_expert, sql, io.StringIO(lines))))
            cursor.execute("DROP TABLE floor")
        connection.close()
        median = {name: statistics.median(taken) for name, taken in times.items()}
    yield Figure(
        what=f"scan, {MANY:,} known files, beside walk and diff",
        figure=median["known"],
        floor=median["walk"] + median["diff"],
        unit="s",
        target=1.5,
    )
    yield Figure(
        what=f"scan, {MANY:,} new files (second sighting), beside walk and COPY",
        figure=median["new"],
        floor=median["walk"] + median["copy"],
        unit="s",
        target=2.0,
    )


def claiming() -> Iterator[Figure]:
    """Claim and finish 10,000 rows that need no work, beside one row a claim."""
    rows = 10_000

    def fill(b: Bench) -> None:
        b.empty()
        b.store.queue.add_many([f"/w/{n}" for n in range(rows)])

    with bench() as b:
        run = b.store.runs.start("bench")

        def batches(size: int) -> None:
            while items := b.store.queue.claim(PROCESS, run, size):
                b.store.queue.finish(PROCESS, run, [Finished(id=item.id) for item in items])

        speeds: dict[int, list[float]] = {1: [], 100: []}
        for _ in range(3):
            for size, taken in speeds.items():
                fill(b)
                taken.append(rows / seconds(partial(batches, size)))
        yield Figure(
            what="claim + finish of 10,000 rows in hundreds, beside one at a time",
            figure=statistics.median(speeds[100]),
            floor=statistics.median(speeds[1]),
            unit="/",
            target=10.0,
            higher_is_better=True,
        )


def claiming_beside_history() -> Iterator[Figure]:
    """A claim among 100,000 waiting rows, with and without a million completed ones."""
    with bench() as b:
        run = b.store.runs.start("bench")
        b.store.queue.add_many([f"/w/{n}" for n in range(100_000)])
        b.database.execute("ANALYZE processing_queue")
        alone = statistics.median(
            seconds(lambda: b.store.queue.claim(PROCESS, run, 10)) for _ in range(50)
        )
        b.database.execute(
            """INSERT INTO processing_queue (file_path, status)
               SELECT '/old/' || n, 'completed' FROM generate_series(1, 1000000) AS n"""
        )
        b.database.execute("VACUUM ANALYZE processing_queue")
        beside = statistics.median(
            seconds(lambda: b.store.queue.claim(PROCESS, run, 10)) for _ in range(50)
        )
        yield Figure(
            what="claim beside 1,000,000 completed rows, beside none",
            figure=beside,
            floor=alone,
            unit="s",
            target=1.2,
        )


def moving(notes: list[str]) -> Iterator[Figure]:
    """A large file across file systems, and many small ones on one."""
    with ExitStack() as stack:
        here = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="embyproc-bench-")))
        shared = Path("/dev/shm")
        if not shared.is_dir() or shared.stat().st_dev == here.stat().st_dev:
            notes.append("move across file systems: not measured, there is no second one here")
        else:
            there = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="embyproc-", dir=shared))
            )
            yield _large_move(there, here)
        yield _small_moves(here)


def _large_move(there: Path, here: Path) -> Figure:
    original, source, target = there / "original", there / "source.mp4", here / "target.mp4"
    with original.open("wb") as file:
        block = os.urandom(1024 * 1024)
        for _ in range(COPY_BYTES // len(block)):
            file.write(block)
    times: dict[str, list[float]] = {"cp": [], "move": []}
    for _ in range(3):
        command = f"cp '{original}' '{target}' && sync '{target}'"
        times["cp"].append(seconds(partial(subprocess.run, command, shell=True, check=True)))
        target.unlink()
        os.link(original, source)
        move = partial(Mover().move, str(source), str(target), str(here / ".t"), lambda: True)
        times["move"].append(seconds(move))
        target.unlink()
    size = COPY_BYTES / 1e6
    return Figure(
        what=f"move of {COPY_BYTES >> 20} MiB across file systems, beside cp and sync (MB/s)",
        figure=size / statistics.median(times["move"]),
        floor=size / statistics.median(times["cp"]),
        unit="",
        target=0.9,
        higher_is_better=True,
    )


def _small_moves(here: Path) -> Figure:
    first, second = here / "a", here / "b"
    first.mkdir()
    second.mkdir()
    names = [f"{n}.mp4" for n in range(1000)]

    def put() -> None:
        for name in names:
            (first / name).write_bytes(b"film")

    def renames() -> None:
        for name in names:
            os.rename(first / name, second / name)
            handle = os.open(second, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)

    def moves() -> None:
        mover = Mover()
        for name in names:
            mover.move(str(first / name), str(second / name), str(second / ".t"), lambda: True)
            mover.sync()

    times: dict[str, list[float]] = {"renames": [], "moves": []}
    for _ in range(3):
        for name, call in (("renames", renames), ("moves", moves)):
            put()
            times[name].append(seconds(call))
            shutil.rmtree(second)
            second.mkdir()
    return Figure(
        what="move of 1,000 small files on one file system, beside rename and fsync",
        figure=statistics.median(times["moves"]),
        floor=statistics.median(times["renames"]),
        unit="s",
        target=2.0,
    )


def _catalogue(count: int) -> dict[str, dict[str, object]]:
    return {
        f"ROW-{100 + n}": {
            "title": f"row {n}",
            "actress": [f"Performer {n % 7}"],
            "image_cropped": f"{{base}}/crop/row{n}.jpg?horizontal=1",
        }
        for n in range(count)
    }


def pipeline() -> Iterator[Figure]:
    """process and emby with services that take their time, beside the ideal."""
    items, concurrency, latency = 500, 8, 0.1
    with bench() as b, StandInWordPress(_catalogue(items), token="bench") as site:
        b.settings |= {
            "API_BASE_URL": site.api_url,
            "API_TOKEN": "bench",
            "PROCESS_CONCURRENCY": str(concurrency),
            "STABILITY_MIN_CHECKS": "1",
        }
        for n in range(items):
            (b.watch / f"ROW-{100 + n}.mp4").write_bytes(f"film {n}".encode())
        b.run("scan")
        site.latency_seconds = latency
        taken = seconds(lambda: b.run("process", "--max-runtime", "300"))
        yield Figure(
            what=f"process, {items} items, 100 ms a look-up, {concurrency} at a time, beside ideal",
            figure=taken,
            floor=items * latency / concurrency,
            unit="s",
            target=1.3,
        )
        site.latency_seconds = 0.02
        yield from _presenting(b, 200)


def _presenting(b: Bench, items: int) -> Iterator[Figure]:
    delay, latency, concurrency = 5.0, 0.02, 4
    b.database.execute(
        "UPDATE processing_queue SET status = 'emby_pending' WHERE status = 'moved' AND id > "
        "(SELECT id FROM processing_queue ORDER BY id OFFSET %(n)s LIMIT 1)",
        {"n": items - 1},
    )
    b.database.execute(
        "UPDATE processing_queue SET status = 'completed' WHERE status = 'emby_pending'"
    )
    with StandInEmby(
        b.destination, api_key="bench", index_delay_seconds=delay, latency_seconds=latency
    ) as emby:
        b.settings |= {"EMBY_BASE_URL": emby.base_url, "EMBY_API_KEY": "bench"}
        taken = seconds(lambda: b.run("emby", "--max-runtime", "300"))
    # Two reads, a write, a list of pictures, three uploads and two downloads an item.
    ideal = delay + items * 9 * latency / concurrency
    yield Figure(
        what=f"emby, {items} items, 5 s to index, 20 ms a request, beside ideal",
        figure=taken,
        floor=ideal,
        unit="s",
        target=1.5,
    )
    one_by_one = items * (delay + 9 * latency)
    yield Figure(
        what="the same beside one item after the other (scan, wait, update each)",
        figure=one_by_one / taken,
        floor=1.0,
        unit="x",
        target=10.0,
        higher_is_better=True,
    )
