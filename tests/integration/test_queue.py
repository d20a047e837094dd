import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from freezegun import freeze_time

from embyproc.errors import DatabaseUnusable
from embyproc.models import EMBY, LEGAL_MOVES, PROCESS, Failed, Finished, Item, Status
from embyproc.store import Store
from embyproc.store.database import Database, open_database
from embyproc.store.queue import CLAIM
from embyproc.store.runs import Heartbeat

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)


def paths(count: int) -> list[str]:
    return [f"/watch/{number:05}.mp4" for number in range(count)]


def get(store: Store, item_id: int) -> Item:
    item = store.looks.get(item_id)
    assert item is not None
    return item


def sequence_value(database: Database) -> int:
    return int(database.scalar("SELECT last_value FROM processing_queue_id_seq"))


# -- filling -------------------------------------------------------------------------------


def test_known_paths_are_not_added_and_burn_no_ids(store: Store, database: Database) -> None:
    first = store.queue.add_many([*paths(10), *paths(3)])
    assert len(first) == 10
    before = sequence_value(database)
    for _ in range(10):
        assert store.queue.add_many(paths(10)) == []
    assert sequence_value(database) == before
    assert len(store.queue.add_many(paths(12))) == 2
    assert store.looks.counts()[Status.PENDING] == 12


def test_paths_are_claimed_in_the_order_in_which_they_were_given(store: Store) -> None:
    given = [f"/watch/{n * 7919 % 1000}.mkv" for n in range(1000)]
    store.queue.add_many([*given, *given[:10]])
    run = store.runs.start("process")
    assert [item.file_path for item in store.queue.claim(PROCESS, run, 1000)] == given


# -- claiming ------------------------------------------------------------------------------

CLAIMER = """
import sys
from embyproc.models import PROCESS
from embyproc.store import Store
from embyproc.store.database import open_database
store = Store(open_database({"dsn": sys.argv[1]}), lambda: None)
run = store.runs.start("process")
sys.stdin.readline()
while items := store.queue.claim(PROCESS, run, 7):
    print(*(item.id for item in items))
"""


def test_eight_processes_claim_each_of_5000_rows_exactly_once(
    store: Store, database_url: str
) -> None:
    ids = store.queue.add_many(paths(5000))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIMER, database_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=100)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 8
    claimed = [int(word) for output in outputs for word in output.split()]
    assert len(claimed) == 5000
    assert sorted(claimed) == ids
    assert sum(1 for output in outputs if output) > 1, "one process did it all"
    assert store.looks.counts()[Status.PROCESSING] == 5000


def test_claims_are_oldest_first_and_limited(store: Store) -> None:
    ids = store.queue.add_many(paths(5))
    run = store.runs.start("process")
    first = store.queue.claim(PROCESS, run, 2)
    assert [item.id for item in first] == ids[:2]
    assert {item.claimed_by for item in first} == {run}
    assert [item.id for item in store.queue.claim(PROCESS, run, 10)] == ids[2:]
    assert store.queue.claim(PROCESS, run, 10) == []
    assert store.queue.claim(EMBY, run, 10) == []


def test_the_fence_keeps_out_a_run_that_lost_its_claim(store: Store) -> None:
    (item_id,) = store.queue.add_many(paths(1))
    slow, quick = store.runs.start("process"), store.runs.start("process")
    store.queue.claim(PROCESS, slow, 1)
    store.queue.release(slow, "test")
    store.queue.claim(PROCESS, quick, 1)

    before = get(store, item_id)
    assert store.queue.finish(PROCESS, slow, [Finished(id=item_id, new_path="/d/slow")]) == set()
    failure = Failed(id=item_id, error_message="File error", next_retry_at=None, retry_count=1)
    assert store.queue.fail(PROCESS, slow, [failure]) == []
    assert store.queue.finish(EMBY, quick, [Finished(id=item_id)]) == set()
    assert store.queue.release(slow, "again") == 0
    assert get(store, item_id) == before
    assert store.queue.finish(PROCESS, quick, [Finished(id=item_id)]) == {item_id}


def test_finish_writes_what_was_found_out_and_keeps_the_rest(store: Store) -> None:
    (item_id,) = store.queue.add_many(paths(1))
    run = store.runs.start("process")
    store.queue.claim(PROCESS, run, 1)
    result = Finished(
        id=item_id,
        movie_code="ABC-123",
        actress="Jane Doe",
        new_path="/d/Jane Doe/x.mp4",
        metadata_json={"title": "nul\0 inside", "list": [1, None]},
        note="filed",
    )
    assert store.queue.finish(PROCESS, run, [result]) == {item_id}
    store.queue.claim(EMBY, run, 1)
    store.queue.finish(EMBY, run, [Finished(id=item_id, emby_item_id="10249")])
    item = get(store, item_id)
    assert item.status is Status.COMPLETED
    assert (item.movie_code, item.actress) == ("ABC-123", "Jane Doe")
    assert item.new_path == "/d/Jane Doe/x.mp4"
    assert item.emby_item_id == "10249"
    assert item.metadata_json == {"title": "nul inside", "list": [1, None]}
    assert item.claimed_by is None
    moves = [(event.source, event.target, event.run) for event in store.looks.events(item_id)]
    assert moves == [
        ("pending", "processing", run),
        ("processing", "moved", run),
        ("moved", "emby_pending", run),
        ("emby_pending", "completed", run),
    ]
    assert store.looks.events(item_id)[1].message == "filed"


def test_finishing_nothing_is_no_statement(store: Store) -> None:
    assert store.queue.finish(PROCESS, 1, []) == set()
    assert store.queue.fail(PROCESS, 1, []) == []


# -- legal moves ---------------------------------------------------------------------------


def test_postgresql_and_the_model_have_the_same_legal_moves(
    store: Store, database: Database
) -> None:
    allowed: dict[Status, set[Status]] = {status: set() for status in Status}
    for number, (source, target) in enumerate(itertools.permutations(Status, 2)):
        item_id = database.scalar(
            "INSERT INTO processing_queue (file_path, status) VALUES (%(p)s, %(s)s) RETURNING id",
            {"p": f"/m/{number}", "s": source},
        )
        try:
            database.execute(
                "UPDATE processing_queue SET status = %(s)s WHERE id = %(id)s",
                {"s": target, "id": item_id},
            )
            allowed[source].add(target)
        except DatabaseUnusable as error:
            assert f"may not move from {source} to {target}" in str(error)
            assert get(store, item_id).status is source
    assert allowed == LEGAL_MOVES


def test_an_unknown_status_is_refused(database: Database) -> None:
    with pytest.raises(DatabaseUnusable, match="queue_status_known"):
        database.execute("INSERT INTO processing_queue (file_path, status) VALUES ('/x', 'done')")


# -- failing and trying again --------------------------------------------------------------


def fail(store: Store, item_id: int, message: str, next_retry_at: datetime | None) -> None:
    run = store.runs.start("process")
    (item,) = store.queue.claim(PROCESS, run, 1)
    assert item.id == item_id
    failure = Failed(
        id=item_id,
        error_message=message,
        next_retry_at=next_retry_at,
        retry_count=item.retry_count + 1,
    )
    (failed,) = store.queue.fail(PROCESS, run, [failure])
    assert failed.id == item_id


def test_due_errors_are_queued_again_and_no_others(store: Store) -> None:
    with freeze_time(T0) as time_machine:
        (item_id,) = store.queue.add_many(paths(1))
        fail(store, item_id, "File error: full", T0 + timedelta(minutes=1))
        assert get(store, item_id).retry_count == 1
        assert store.upkeep.retry_due(3) == []
        time_machine.tick(60)
        assert store.looks.due(3) == [item_id]
        assert store.upkeep.retry_due(0) == []
        assert store.upkeep.retry_due(3) == [item_id]
        item = get(store, item_id)
        assert item.status is Status.PENDING
        assert item.error_message is None
        assert item.next_retry_at is None
        assert item.retry_count == 1

        fail(store, item_id, "No movie code in the name", T0)  # as the old program wrote it
        assert store.upkeep.retry_due(3) == []
        assert [i.id for i in store.looks.given_up(3)] == [item_id]
        assert store.upkeep.retry_by_hand([item_id]) == [item_id]
        assert get(store, item_id).retry_count == 0


def test_retry_by_hand_takes_errors_only(store: Store) -> None:
    first, second = store.queue.add_many(paths(2))
    fail(store, first, "File error", None)
    assert store.upkeep.retry_by_hand([second]) == []
    assert store.upkeep.retry_by_hand(None) == [first]
    assert store.looks.counts()[Status.PENDING] == 2


@pytest.mark.parametrize("status", list(Status))
def test_reset_starts_any_item_over_by_legal_moves(
    store: Store, database: Database, status: Status
) -> None:
    item_id = database.scalar(
        """INSERT INTO processing_queue (file_path, status, retry_count, error_message,
               next_retry_at, new_path, claimed_by, deaths)
           VALUES ('/w/x', %(s)s, 4, 'x', now(), '/d/x', 1, 2) RETURNING id""",
        {"s": status},
    )
    assert store.upkeep.reset(item_id)
    item = get(store, item_id)
    assert item.status is Status.PENDING
    assert (item.retry_count, item.deaths) == (0, 0)
    assert (item.error_message, item.next_retry_at, item.claimed_by) == (None, None, None)
    assert item.new_path == "/d/x", "where the file is stays known"
    for event in store.looks.events(item_id):
        assert Status(event.target) in LEGAL_MOVES[Status(event.source)]
    assert not store.upkeep.reset(999)


def test_cleanup_and_delete(store: Store, database: Database) -> None:
    for number, (status, days) in enumerate(
        [("completed", 8), ("completed", 6), ("error", 99), ("pending", 99)]
    ):
        database.execute(
            """INSERT INTO processing_queue (file_path, status, updated_at)
               VALUES (%(p)s, %(s)s, now() - %(d)s * interval '1 day')""",
            {"p": f"/w/{number}", "s": status, "d": days},
        )
    database.execute("""INSERT INTO queue_events (item, "from", "to") SELECT id, 'a', 'b'
                        FROM processing_queue""")
    assert store.upkeep.cleanup(7) == 1
    assert store.looks.counts()[Status.COMPLETED] == 1
    assert store.upkeep.delete(2)
    assert not store.upkeep.delete(2)
    assert database.scalar("SELECT count(*) FROM queue_events") == 2


# -- dead runs -----------------------------------------------------------------------------


def test_rows_of_a_live_run_are_left_alone_and_of_a_silent_one_released(store: Store) -> None:
    with freeze_time(T0) as time_machine:
        (item_id,) = store.queue.add_many(paths(1))
        run = store.runs.start("process")
        store.queue.claim(PROCESS, run, 1)
        time_machine.tick(50)
        assert store.runs.beat(run)
        time_machine.tick(55)
        store.queue.release_dead()
        assert get(store, item_id).status is Status.PROCESSING
        time_machine.tick(10)
        store.queue.release_dead()
        item = get(store, item_id)
        assert item.status is Status.PENDING
        assert item.deaths == 1
        assert "died" in (store.looks.events(item_id)[-1].message or "")
        assert not store.runs.beat(run), "who was taken for dead stays dead"


def test_rows_of_a_finished_or_unknown_run_are_released_without_blame(
    store: Store, database: Database
) -> None:
    first, second = store.queue.add_many(paths(2))
    run = store.runs.start("process")
    store.queue.claim(PROCESS, run, 2)
    database.execute(f"UPDATE processing_queue SET claimed_by = NULL WHERE id = {second}")
    store.runs.finish(run, 0, {})
    store.queue.release_dead()
    for item_id in (first, second):
        assert get(store, item_id).status is Status.PENDING
        assert get(store, item_id).deaths == 0


def die(store: Store, stage_limit: int, poison: int, tick: Callable[..., object]) -> list[int]:
    """Claim as a run would; finish everything unless the poison is in the batch."""
    run = store.runs.start("process")
    store.queue.release_dead()
    while items := store.queue.claim(PROCESS, run, stage_limit):
        if poison in {item.id for item in items}:
            tick(61)
            return [item.id for item in items]
        store.queue.finish(PROCESS, run, [Finished(id=item.id) for item in items])
    store.runs.finish(run, 0, {})
    return []


def test_a_poison_row_is_set_aside_after_three_deaths_and_takes_nobody_along(store: Store) -> None:
    with freeze_time(T0) as time_machine:
        ids = store.queue.add_many(paths(30))
        poison = ids[13]
        batches = [len(die(store, 20, poison, time_machine.tick)) for _ in range(3)]
        assert batches == [20, 2, 1]
        assert die(store, 20, poison, time_machine.tick) == []
        item = get(store, poison)
        assert item.status is Status.ERROR
        assert item.next_retry_at is None
        assert "3 runs in a row died" in (item.error_message or "")
        assert store.looks.counts()[Status.MOVED] == 29


def test_suspects_wait_until_the_run_is_idle(store: Store, database: Database) -> None:
    store.queue.add_many(paths(1))
    database.execute("UPDATE processing_queue SET deaths = 1")
    run = store.runs.start("process")
    assert store.queue.claim(PROCESS, run, 5, idle=False) == []
    assert len(store.queue.claim(PROCESS, run, 5, idle=True)) == 1


def test_heartbeat_thread_beats_on_a_connection_of_its_own(
    store: Store, database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("embyproc.store.runs.BEAT_SECONDS", 0.05)
    run = store.runs.start("process")
    before = store.runs.last_of(["process"])[0].heartbeat_at
    heartbeat = Heartbeat(run, lambda: open_database({"dsn": database_url}))
    heartbeat.start()
    deadline = time.monotonic() + 10
    while store.runs.last_of(["process"])[0].heartbeat_at == before:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert heartbeat.alive
    # Cutting its connection is survived by opening another.
    database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    cut_at = store.runs.last_of(["process"])[0].heartbeat_at
    while store.runs.last_of(["process"])[0].heartbeat_at == cut_at:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    # Once others had reason to think it dead, it says so itself.
    database.execute("UPDATE runs SET heartbeat_at = now() - interval '5 minutes'")
    while heartbeat.alive:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    heartbeat.stop()


def test_old_runs_are_forgotten_unless_they_hold_a_row(store: Store, database: Database) -> None:
    store.queue.add_many(paths(1))
    holder, other, recent = (store.runs.start("process") for _ in range(3))
    store.queue.claim(PROCESS, holder, 1)
    database.execute(f"UPDATE runs SET started_at = now() - interval '8 days' WHERE id <> {recent}")
    assert store.runs.prune() == 1
    kept = {row["id"] for row in database.rows("SELECT id FROM runs")}
    assert kept == {holder, recent}
    assert other not in kept


# -- a million completed rows --------------------------------------------------------------


def explain(database: Database, sql: str, parameters: dict[str, object]) -> str:
    return "\n".join(row["QUERY PLAN"] for row in database.rows("EXPLAIN " + sql, parameters))


def test_what_comes_back_is_claimed_by_the_same_run_at_the_end(store: Store) -> None:
    """A run goes on from where it is; older rows that became free meanwhile are not forgotten."""
    ids = store.queue.add_many(paths(4))
    run = store.runs.start("process")
    first = store.queue.claim(PROCESS, run, 2)
    assert [item.id for item in first] == ids[:2]
    store.queue.release_items(run, [ids[0]], "given back")
    assert [item.id for item in store.queue.claim(PROCESS, run, 2)] == ids[2:]
    assert [item.id for item in store.queue.claim(PROCESS, run, 2)] == ids[:1]
    assert store.queue.claim(PROCESS, run, 2) == []


def test_a_million_completed_rows_cost_the_claim_nothing(store: Store, database: Database) -> None:
    database.execute(
        """INSERT INTO processing_queue (file_path, status)
           SELECT '/old/' || n, 'completed' FROM generate_series(1, 1000000) AS n"""
    )
    store.queue.add_many(paths(1000))
    # A sample of 30,000 rows holds thirty of those that wait, or half as many by chance.
    database.execute("SET default_statistics_target TO 1000")
    database.execute("VACUUM ANALYZE processing_queue")
    claim = {
        "takes": "pending",
        "holds": "processing",
        "run": 1,
        "now": T0,
        "limit": 100,
        "deaths": 0,
        "after": "-infinity",
        "after_id": 0,
    }
    for after in ("-infinity", T0):
        plan = explain(database, CLAIM, claim | {"after": after})
        assert "idx_queue_pending" in plan
        assert "Seq Scan" not in plan
    counting = explain(
        database, "SELECT status, count(*) FROM processing_queue GROUP BY status", {}
    )
    assert "Index Only Scan using idx_queue_status" in counting
    assert store.looks.counts()[Status.COMPLETED] == 1_000_000
    run = store.runs.start("process")
    assert len(store.queue.claim(PROCESS, run, 100)) == 100
