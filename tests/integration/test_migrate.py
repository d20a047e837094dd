import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extras
import pytest

from embyproc.errors import DatabaseUnusable
from embyproc.migrate import available, ensure_usable, migrate, schema_state
from embyproc.models import Status
from embyproc.store import Store
from embyproc.store.database import open_database

# The database as the earlier emby-processor left it, with tables that are not ours.
OLD_SCHEMA = """
CREATE TABLE processing_queue (
    id SERIAL PRIMARY KEY, file_path TEXT NOT NULL, movie_code VARCHAR(20), actress VARCHAR(255),
    subtitle VARCHAR(50), status VARCHAR(20) NOT NULL DEFAULT 'pending', error_message TEXT,
    new_path TEXT, emby_item_id VARCHAR(100), metadata_json JSONB,
    retry_count INTEGER NOT NULL DEFAULT 0, next_retry_at TIMESTAMP WITH TIME ZONE,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT NOW(),
    updated_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT NOW());
CREATE INDEX idx_queue_status ON processing_queue (status);
CREATE INDEX idx_queue_retry ON processing_queue (next_retry_at)
    WHERE status = 'error' AND next_retry_at IS NOT NULL;
CREATE UNIQUE INDEX idx_queue_file_path ON processing_queue (file_path);
CREATE FUNCTION update_updated_at_column() RETURNS TRIGGER AS
    $$ BEGIN NEW.updated_at = NOW(); RETURN NEW; END; $$ LANGUAGE plpgsql;
CREATE TRIGGER trg_queue_updated_at BEFORE UPDATE ON processing_queue
    FOR EACH ROW EXECUTE FUNCTION update_updated_at_column();
CREATE TABLE download_jobs (id SERIAL PRIMARY KEY, url TEXT);
CREATE TABLE auth_tokens (id SERIAL PRIMARY KEY, token TEXT);
INSERT INTO download_jobs (url) VALUES ('http://example.invalid/a');
INSERT INTO auth_tokens (token) VALUES ('not ours');
INSERT INTO processing_queue
    (file_path, movie_code, actress, subtitle, status, error_message, new_path, emby_item_id,
     metadata_json, retry_count, next_retry_at, created_at, updated_at)
SELECT '/watch/' || s || n || '.mp4', 'ABC-' || n, 'Jane Doe', 'No Sub', s,
       CASE s WHEN 'error' THEN 'Emby item not indexed' END, '/destination/' || n, n::text,
       jsonb_build_object('title', 'Title ' || n), n, '2026-02-01'::timestamptz,
       '2026-01-01'::timestamptz + n * interval '1 minute', '2026-01-02'::timestamptz
FROM unnest(ARRAY['pending','processing','moved','emby_pending','completed','error']) AS s,
     generate_series(1, 3) AS n;
"""


def dump(url: str, table: str) -> list[dict[str, Any]]:
    connection = psycopg2.connect(url)
    with connection, connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
        cursor.execute(f"SELECT * FROM {table} ORDER BY id")
        rows = [dict(row) for row in cursor.fetchall()]
    connection.close()
    return rows


def run_sql(url: str, sql: str) -> None:
    connection = psycopg2.connect(url)
    with connection, connection.cursor() as cursor:
        cursor.execute(sql)
    connection.close()


def test_empty_database_is_made_ours(empty_database_url: str) -> None:
    database = open_database({"dsn": empty_database_url})
    assert schema_state(database).is_empty
    ensure_usable(database)
    state = schema_state(database)
    assert state.current == state.latest == available()[-1].version
    assert migrate(database) == []
    assert sum(Store(database, lambda: database).looks.counts().values()) == 0
    database.close()


def test_numbers_are_without_gaps() -> None:
    migrations = available()
    assert [m.version for m in migrations] == list(range(1, len(migrations) + 1))
    assert migrations[0].path.name == "001_create_queue.sql"


def test_old_database_is_adopted_with_no_row_lost_or_changed(empty_database_url: str) -> None:
    run_sql(empty_database_url, OLD_SCHEMA)
    tables = ("processing_queue", "download_jobs", "auth_tokens")
    before = {table: dump(empty_database_url, table) for table in tables}
    assert len(before["processing_queue"]) == 18

    database = open_database({"dsn": empty_database_url})
    with pytest.raises(DatabaseUnusable, match="embyproc migrate"):
        ensure_usable(database)  # nobody's database is changed unasked
    migrate(database)

    for table in tables:
        after = dump(empty_database_url, table)
        for old, new in zip(before[table], after, strict=True):
            assert {name: new[name] for name in old} == old

    # Rows that the old program was working on belong to no run we know: they are given back.
    store = Store(database, lambda: database)
    store.queue.release_dead()
    counts = store.looks.counts()
    assert counts[Status.PENDING] == counts[Status.MOVED] == 6
    assert counts[Status.PROCESSING] == counts[Status.EMBY_PENDING] == 0
    database.close()


def test_two_processes_migrating_at_once_end_well(empty_database_url: str) -> None:
    program = (
        "import sys; from embyproc.migrate import migrate;"
        "from embyproc.store.database import open_database;"
        "print(len(migrate(open_database({'dsn': sys.argv[1]}))))"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, empty_database_url], stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    applied = sorted(int(process.communicate(timeout=60)[0]) for process in processes)
    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert applied == [0, 0, 0, len(available())]


def test_a_failing_migration_leaves_nothing_behind(empty_database_url: str, tmp_path: Path) -> None:
    run_sql(empty_database_url, "CREATE TABLE runs (mine INTEGER)")  # in the way of 002
    database = open_database({"dsn": empty_database_url})
    with pytest.raises(DatabaseUnusable, match="runs"):
        migrate(database)
    assert schema_state(database).is_empty
    database.close()


def test_schema_newer_than_the_program(database_url: str) -> None:
    run_sql(database_url, "INSERT INTO embyproc_migrations (version, name) VALUES (999, 'later')")
    database = open_database({"dsn": database_url})
    for refuse in (ensure_usable, migrate):
        with pytest.raises(DatabaseUnusable, match=r"newer than this program.*update embyproc"):
            refuse(database)
    database.close()


def test_a_migration_waits_for_another_one(empty_database_url: str) -> None:
    first = open_database({"dsn": empty_database_url})
    second = open_database({"dsn": empty_database_url})
    results: list[int] = []
    with first.transaction():
        first.execute("SELECT pg_advisory_xact_lock(5206151966)")
        waiter = threading.Thread(target=lambda: results.append(len(migrate(second))))
        waiter.start()
        waiter.join(timeout=0.5)
        assert waiter.is_alive()
    waiter.join(timeout=30)
    assert results == [len(available())]
    first.close()
    second.close()
