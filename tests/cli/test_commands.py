import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg2
import pytest

from embyproc.models import Status
from embyproc.store import Store
from embyproc.store.database import Database

CommandLine = Callable[..., subprocess.CompletedProcess[str]]

HOSTILE = "/w/[red]a[/b]\nnew\x1b[31m line.mp4"


def insert(database: Database, status: str = "pending", **columns: object) -> int:
    values = {"file_path": f"/w/{status}.mp4", "status": status, **columns}
    names = ", ".join(values)
    marks = ", ".join(f"%({name})s" for name in values)
    sql = f"INSERT INTO processing_queue ({names}) VALUES ({marks}) RETURNING id"
    return int(database.scalar(sql, values))


def test_status_json(command_line: CommandLine, database: Database) -> None:
    for status in Status:
        insert(database, status)
    found = json.loads(command_line("status", "--json").stdout)
    assert found["counts"] == dict.fromkeys(map(str, Status), 1)
    assert found["total"] == 6
    assert found["given_up"] == 1
    assert [waiting["status"] for waiting in found["oldest_waiting"]] == ["pending", "moved"]


def test_status_plain(command_line: CommandLine, database: Database) -> None:
    item_id = insert(database, "error", file_path=HOSTILE, error_message="No movie code")
    done = command_line("status")
    assert done.returncode == 0
    assert done.stderr == ""
    words = [line.split() for line in done.stdout.splitlines()]
    assert ["error", "1"] in words
    assert ["total", "1"] in words
    assert f"embyproc retry {item_id}" in done.stdout
    assert "[red]a[/b]\\nnew\\x1b[31m line.mp4" in done.stdout


def test_status_max_age_tells_whether_cron_runs(
    command_line: CommandLine, database: Database
) -> None:
    assert command_line("status", "--max-age", "60").returncode == 1
    assert command_line("retry").returncode == 0
    assert command_line("status", "--max-age", "60").returncode == 0
    database.execute("UPDATE runs SET finished_at = finished_at - interval '2 minutes'")
    assert command_line("status", "--max-age", "60").returncode == 1


def test_list(command_line: CommandLine, database: Database) -> None:
    long_name = "/w/" + "x" * 300 + ".mp4"
    insert(database, "error", file_path=long_name, error_message="File error: full")
    insert(database, "pending", file_path=HOSTILE)
    rows = json.loads(command_line("list", "--json").stdout)
    assert [row["file_path"] for row in rows] == [HOSTILE, long_name]
    columns = database.rows(
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'processing_queue'"
    )
    assert set(rows[0]) == {row["column_name"] for row in columns}
    assert len(json.loads(command_line("list", "--limit", "1", "--json").stdout)) == 1
    plain = command_line("list", "--status", "error").stdout
    assert long_name in plain
    assert "File error: full" in plain
    assert "nothing there" in command_line("list", "--status", "moved").stdout


def test_show(command_line: CommandLine, database: Database) -> None:
    item_id = insert(database, "pending", file_path=HOSTILE)
    database.execute("UPDATE processing_queue SET status = 'processing'")
    database.execute(
        "UPDATE processing_queue SET status = 'error', error_message = 'No movie code'"
    )
    found = json.loads(command_line("show", str(item_id), "--json").stdout)
    assert found["file_path"] == HOSTILE
    assert [(e["from"], e["to"]) for e in found["events"]] == [
        ("pending", "processing"),
        ("processing", "error"),
    ]
    assert set(found["events"][0]) == {"item", "at", "from", "to", "run", "message"}
    plain = command_line("show", str(item_id)).stdout
    assert "queued" in plain
    assert "No movie code" in plain
    assert f"next: nothing until a person acts: embyproc retry {item_id}" in plain


def test_retry_as_cron_does_it(command_line: CommandLine, database: Database) -> None:
    due = insert(database, "error", file_path="/w/due", retry_count=1, next_retry_at="2020-01-01")
    insert(database, "error", file_path="/w/later", retry_count=1, next_retry_at="2099-01-01")
    insert(database, "error", file_path="/w/dead", retry_count=4, next_retry_at="2020-01-01")
    dry = json.loads(command_line("retry", "--dry-run", "--json").stdout)
    assert dry["claimed"] == 1
    assert database.scalar("SELECT count(*) FROM runs") == 0
    done = command_line("retry", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert list(found) == [
        *("command", "run_id", "claimed", "succeeded", "failed"),
        *("given_up", "skipped", "seconds", "items"),
    ]
    assert (found["command"], found["succeeded"]) == ("retry", 1)
    assert [item["id"] for item in found["items"]] == [due]
    assert database.scalar("SELECT exit_code FROM runs WHERE finished_at IS NOT NULL") == 0
    assert command_line("retry").stdout.startswith("retry: 0 claimed")


def test_a_row_that_killed_three_runs_is_announced_once(
    command_line: CommandLine, database: Database, store: Store
) -> None:
    run = store.runs.start("process")
    database.execute("UPDATE runs SET heartbeat_at = heartbeat_at - interval '2 minutes'")
    item_id = insert(database, "processing", claimed_by=run, deaths=2)
    done = command_line("retry")
    assert done.returncode == 1
    assert f"given up: {item_id} /w/processing.mp4: Set aside: 3 runs" in done.stdout
    assert f"embyproc retry {item_id}" in done.stdout
    assert command_line("retry").returncode == 0


def test_retry_by_hand(command_line: CommandLine, database: Database, store: Store) -> None:
    first = insert(database, "error", file_path="/w/1", retry_count=4)
    second = insert(database, "error", file_path="/w/2", error_message="No movie code")
    third = insert(database, "completed", file_path="/w/3")
    done = command_line("retry", str(first), str(third))
    assert done.returncode == 0
    assert f"{third} is completed, not in error" in done.stdout
    assert "retry: 1 queued again" in done.stdout
    assert json.loads(command_line("retry-all", "--json").stdout)["items"] == [
        {"id": second, "status": "pending"}
    ]
    assert "retry: 0 queued again" in command_line("retry", "--all").stdout
    assert store.looks.counts()[Status.PENDING] == 2


def test_retry_by_hand_takes_so_many_as_asked(
    command_line: CommandLine, database: Database, store: Store
) -> None:
    ids = [insert(database, "error", file_path=f"/w/{n}") for n in range(4)]
    dry = json.loads(command_line("retry", "--all", "--limit", "1", "--dry-run", "--json").stdout)
    assert [item["id"] for item in dry["items"]] == ids[:1]
    assert "retry: 1 queued again" in command_line("retry", "--all", "--once").stdout
    done = command_line("retry", *map(str, ids[1:]), "--limit", "2")
    assert done.stdout == "retry: 2 queued again\n"
    assert [item.id for item in store.looks.find(status=Status.ERROR)] == ids[3:]


def test_given_up_items_by_code_and_performer(
    command_line: CommandLine, database: Database
) -> None:
    given_up = insert(database, "error", file_path="/w/1", movie_code="ABC-1", actress="Jane Doe")
    insert(database, "error", file_path="/w/2", movie_code="ABC-2", actress="Jane Doe")
    insert(
        database, "error", file_path="/w/3", movie_code="ABC-1", next_retry_at="2099-01-01"
    )  # still tried

    def listed(*words: str) -> list[int]:
        return [i["id"] for i in json.loads(command_line("list", "--json", *words).stdout)]

    assert listed("--given-up", "--code", "abc-1") == [given_up]
    assert listed("--given-up", "--performer", "jane", "--limit", "1") == [given_up + 1]
    assert listed("--given-up", "--status", "pending") == []


def test_reset_and_cleanup(command_line: CommandLine, database: Database, store: Store) -> None:
    item_id = insert(database, "moved", retry_count=2)
    assert command_line("reset", str(item_id)).returncode == 0
    assert json.loads(command_line("reset", str(item_id), "--json").stdout)["status"] == "pending"
    insert(database, "completed", updated_at="2020-01-01")
    assert json.loads(command_line("cleanup", "--days", "30", "--json").stdout)["deleted"] == 1
    assert "0 completed rows" in command_line("cleanup").stdout


def test_migrate(command_line: CommandLine, empty_database_url: str) -> None:
    done = command_line("migrate", DATABASE_URL=empty_database_url)
    assert "applied 001 create queue" in done.stdout
    again = command_line("migrate", "--json", DATABASE_URL=empty_database_url)
    assert json.loads(again.stdout)["applied"] == []


def test_stages_migrate_an_empty_database_themselves(
    command_line: CommandLine, empty_database_url: str
) -> None:
    assert command_line("retry", DATABASE_URL=empty_database_url).returncode == 0


def test_explain_needs_nothing(command_line: CommandLine) -> None:
    names = ["ABC-123-C.mp4", "set/ABC-124-A.mp4", "set/ABC-124-B.mp4", "x.mp4.part", "[a].mp4"]
    done = command_line("explain", "--json", *names, DATABASE_URL="nonsense")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert set(found[0]) == {*("name", "code", "lookup_keys", "part"), "subtitle", "skip", "rule"}
    assert [entry["name"] for entry in found] == names
    assert [entry["code"] for entry in found] == ["ABC-123", "ABC-124", "ABC-124", None, None]
    assert [entry["part"] for entry in found] == [None, 1, 2, None, None]
    assert [entry["skip"] for entry in found] == [None, None, None, "unfinished", None]
    assert found[0]["subtitle"] == "Chinese Sub"
    plain = command_line("explain", "[a].mp4")
    assert "[a].mp4" in plain.stdout


def test_demo_tells_the_whole_story_and_leaves_nothing(open_folder: Path, tmp_path: Path) -> None:
    """Twice in a row, without a terminal, with somebody's settings in the way."""
    scratch = open_folder / "scratch"
    scratch.mkdir(mode=0o1777)
    scratch.chmod(0o1777)
    (tmp_path / ".env").write_text("DATABASE_URL=postgresql://nobody@127.0.0.1:1/real\n")
    home = tmp_path / "home"
    home.mkdir()
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-m", "embyproc", "demo"],
            capture_output=True,
            text=True,
            timeout=100,
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(scratch)},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        for said in (
            "emby: 12 claimed, 12 succeeded",
            "Berta Sample - [Chinese Sub] LMN-104 Don't Wake the Cat.mp4",
            "A Long Evening, in Two Parts - cd2.mp4",
            "With Subtitles.en.srt",
            "No movie code in 'holiday in the mountains.mp4'",
            "No metadata found for ZZZ-999",
            "ORC-410 Still Arriving.mp4: waits: somebody has it open for writing",
        ):
            assert said in done.stdout, said
    assert list(scratch.iterdir()) == []
    assert list(home.iterdir()) == []


# -- bad input -----------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("show", "77"), ("reset", "77"), ("retry", "77")])
def test_unknown_id(command_line: CommandLine, words: tuple[str, ...]) -> None:
    done = command_line(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "77" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("show", "99999999999999"),
        ("show", "x"),
        ("list", "--status", "done"),
        ("retry", "--limit", "0"),
        ("list", "--limit", "99999999999999999999"),
        ("retry", "1", "--all"),
        ("scan", "--settle", "inf"),
        ("nothing",),
    ],
)
def test_wrong_usage(command_line: CommandLine, words: tuple[str, ...]) -> None:
    done = command_line(*words)
    assert done.returncode == 2
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr


def test_mistyped_command(command_line: CommandLine) -> None:
    assert "Did you mean 'status'?" in command_line("statsu").stderr


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:hunter2@127.0.0.1:1/queue",
        "host=127.0.0.1 port=1 dbname=queue user=u password=hunter2",
    ],
)
def test_unreachable_database(command_line: CommandLine, url: str) -> None:
    done = command_line("status", DATABASE_URL=url)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert "database queue at 127.0.0.1, port 1 cannot be used" in done.stderr
    assert "hunter2" not in done.stderr + done.stdout


def test_database_url_that_cannot_be_read(command_line: CommandLine) -> None:
    done = command_line("status", DATABASE_URL="postgresql://u:hunter2@h:5432:1/x%zz")
    assert done.returncode == 2
    assert "DATABASE_URL" in done.stderr
    assert "hunter2" not in done.stderr


def test_wrong_settings_are_all_listed(command_line: CommandLine) -> None:
    done = command_line("status", MAX_RETRIES="x", WATCH_DIR="y", DB_PORT="z")
    assert done.returncode == 2
    for name in ("MAX_RETRIES", "WATCH_DIR", "DB_PORT"):
        assert name in done.stderr
    assert "Traceback" not in done.stderr


def test_schema_newer_than_the_program(command_line: CommandLine, database: Database) -> None:
    database.execute("INSERT INTO embyproc_migrations (version, name) VALUES (999, 'later')")
    done = command_line("status")
    assert done.returncode == 3
    assert "update embyproc" in done.stderr


def test_a_pipe_that_is_closed_is_no_failure(
    command_line: CommandLine, database: Database, database_url: str
) -> None:
    database.execute(
        """INSERT INTO processing_queue (file_path)
           SELECT repeat('x', 500) || n FROM generate_series(1, 2000) AS n"""
    )
    done = subprocess.run(
        f"'{sys.executable}' -m embyproc list --limit 2000 | head -1; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "DATABASE_URL": database_url},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_row_with_a_status_nobody_knows_is_named(
    command_line: CommandLine, empty_database_url: str
) -> None:
    connection = psycopg2.connect(empty_database_url)
    with connection, connection.cursor() as cursor:
        cursor.execute(
            """CREATE TABLE processing_queue (id SERIAL, file_path TEXT, status TEXT);
               INSERT INTO processing_queue (file_path, status) VALUES ('/x', 'strange')"""
        )
    connection.close()
    done = command_line("migrate", DATABASE_URL=empty_database_url)
    assert done.returncode == 3
    assert "'strange'" in done.stderr


def test_what_the_environment_says_about_other_servers_does_not_count(
    command_line: CommandLine,
) -> None:
    done = command_line("status", PGCLIENTENCODING="LATIN1", LC_ALL="POSIX")
    assert done.returncode == 0, done.stderr


def test_version_and_help(command_line: CommandLine) -> None:
    assert command_line("--version").stdout.startswith("embyproc, version ")
    assert "embyproc demo" in command_line("--help").stdout


def test_forget_takes_items_out_and_leaves_those_at_work(
    command_line: CommandLine, database: Database
) -> None:
    wanted = insert(database, "error", error_message="No movie code")
    at_work = insert(database, "processing", claimed_by=1)
    done = command_line("forget", str(wanted), str(at_work), "9999")
    assert done.returncode == 2
    assert "1 taken out" in done.stdout
    assert f"a run works on it: {at_work}, 9999" in done.stderr
    left = database.rows("SELECT id FROM processing_queue")
    assert [row["id"] for row in left] == [at_work]
    assert (
        database.scalar("SELECT count(*) FROM queue_events WHERE item = %(id)s", {"id": wanted})
        == 0
    )


def test_run_does_not_offer_a_plan_that_it_has_not(command_line: CommandLine) -> None:
    assert "--dry-run" not in command_line("run", "--help").stdout
    assert "--dry-run" in command_line("scan", "--help").stdout
