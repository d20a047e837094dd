"""Claiming and finishing rows that need no work, beside other ways to do it."""

from collections.abc import Callable, Iterator
from functools import partial

import psycopg2

from benchmarks import rivals
from benchmarks.measure import REPEATS, Figure, growth, interleaved, seconds
from benchmarks.place import Place, place
from embyproc.migrate import available
from embyproc.models import PROCESS, Finished

ROWS = 10_000
ONE_BY_ONE = "one row at a time"
BETTER = "one row at a time, with an index by age"
# As many as a stage takes.
BATCH = 100
WAITING = 100_000
HISTORY = 1_000_000

# One row a claim, one row an update, on the table as the earlier emby-processor made it.
PLAIN_CLAIM = """
    UPDATE processing_queue SET status = 'processing' WHERE id = (
        SELECT id FROM processing_queue WHERE status = 'pending' ORDER BY created_at LIMIT 1
        FOR UPDATE SKIP LOCKED) RETURNING *
"""
PLAIN_FINISH = "UPDATE processing_queue SET status = 'moved' WHERE id = %s RETURNING *"
# Which has no index by age; this is what anybody would add once it is slow.
BY_AGE = "CREATE INDEX ON processing_queue (status, created_at)"


def figures(notes: list[str]) -> Iterator[Figure]:
    yield from _beside_others(notes)
    yield from _beside_history()


def _beside_others(notes: list[str]) -> Iterator[Figure]:
    with place() as b:
        others: dict[str, Callable[[], float]] = {ONE_BY_ONE: partial(_one_by_one, b, "")}
        for name, rival in rivals.installed().items():
            others[name] = _on_a_database_of_its_own(b, name, rival)
        others[BETTER] = partial(_one_by_one, b, BY_AGE)
        for name in rivals.NAMES - others.keys():
            notes.append(f"{name}: not measured, it is not installed (pip install '.[bench]')")
        ours, *speeds = interleaved(lambda: _ours(b, ROWS), *others.values())
        work = f"claim + finish of {ROWS:,} no-op rows a second, {BATCH} a claim"
        for name, speed in zip(others, speeds, strict=True):
            if name == BETTER:
                notes.append(f"{name}: {speed:,.0f} a second, ours is {ours / speed:.1f} x that")
                continue
            yield Figure(
                what=f"{work}, beside {name}",
                figure=ours,
                floor=speed,
                unit="/",
                target=10.0 if name == ONE_BY_ONE else 1.0,
                higher_is_better=True,
            )
        few, many = interleaved(
            lambda: _ours(b, ROWS), lambda: _ours(b, 10 * ROWS), repeats=2 * REPEATS + 1
        )
        what = f"claim + finish of {10 * ROWS:,} rows, beside 10 x"
        yield growth(what, ROWS / few, 10 * ROWS / many)


def _ours(b: Place, rows: int) -> float:
    b.empty()
    run = b.store.runs.start("bench")
    b.store.queue.add_many([f"/w/{n}" for n in range(rows)])
    b.settle()

    def drain() -> None:
        while items := b.store.queue.claim(PROCESS, run, BATCH):
            b.store.queue.finish(PROCESS, run, [Finished(id=item.id) for item in items])

    taken = seconds(drain)
    assert b.database.scalar("SELECT count(*) FROM processing_queue WHERE status = 'moved'") == rows
    return rows / taken


def _one_by_one(b: Place, index: str) -> float:
    b.database.execute("DROP DATABASE IF EXISTS plain")
    b.database.execute("CREATE DATABASE plain")
    connection = psycopg2.connect(f"{b.dsn} dbname=plain")
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute(available()[0].path.read_text() + index)
    cursor.execute(
        "INSERT INTO processing_queue (file_path, created_at) "
        "SELECT '/w/' || n, clock_timestamp() FROM generate_series(1, %s) AS n",
        (ROWS,),
    )
    cursor.execute("VACUUM ANALYZE processing_queue")

    def drain() -> None:
        while True:
            cursor.execute(PLAIN_CLAIM)
            row = cursor.fetchone()
            if row is None:
                return
            cursor.execute(PLAIN_FINISH, (row[0],))

    taken = seconds(drain)
    connection.close()
    return ROWS / taken


def _on_a_database_of_its_own(b: Place, name: str, rival: rivals.Speed) -> Callable[[], float]:
    def measure() -> float:
        b.database.execute(f"DROP DATABASE IF EXISTS {name}")
        b.database.execute(f"CREATE DATABASE {name}")
        return rival(b.parameters | {"dbname": name}, ROWS, BATCH)

    return measure


def _beside_history() -> Iterator[Figure]:
    """A claim among many waiting rows, with and without a long history."""
    with place() as without, place() as beside, place() as more:
        calls = [
            _claiming(without, completed=0, waiting=WAITING),
            _claiming(beside, completed=HISTORY, waiting=WAITING),
            _claiming(more, completed=10 * HISTORY, waiting=10 * WAITING),
        ]
        alone, taken, ten = interleaved(*calls, repeats=101)
    yield Figure(
        what=f"claim beside {HISTORY:,} completed and {WAITING:,} waiting rows, beside none",
        figure=taken * 1000,
        floor=alone * 1000,
        unit="m",
        target=1.2,
    )
    what = f"claim beside {10 * HISTORY:,} completed and {10 * WAITING:,} waiting, beside 10 x"
    yield growth(what, taken, ten)


def _claiming(b: Place, *, completed: int, waiting: int) -> Callable[[], float]:
    if completed:
        b.add_completed(completed)
    b.store.queue.add_many([f"/w/{n}" for n in range(waiting)])
    b.settle()
    run = b.store.runs.start("bench")
    return lambda: seconds(lambda: b.store.queue.claim(PROCESS, run, 10))
