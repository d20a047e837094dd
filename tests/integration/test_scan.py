"""scan on real files and real PostgreSQL; STABILITY_MIN_AGE is 0 unless a test is about it."""

import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embyproc.config import Config, load
from embyproc.errors import ConfigError
from embyproc.files.walk import Walk, _signed
from embyproc.models import EMBY, PROCESS, Finished, Item, RunSummary, Status
from embyproc.stages import scan
from embyproc.stages.runner import Options, running
from embyproc.store import Store
from embyproc.store.database import Database, open_database
from embyproc.store.sightings import JUDGE

Scan = Callable[..., RunSummary]


@pytest.fixture
def watch(tmp_path: Path) -> Path:
    folder = tmp_path / "watch"
    folder.mkdir()
    return folder


@pytest.fixture
def look(store: Store, watch: Path) -> Scan:
    """One scan, as cron would start it."""

    def once(limit: int | None = None, settle: float | None = None, **variables: str) -> RunSummary:
        return scan_once(store, settings(watch, **variables), limit, settle)

    return once


def scan_once(
    store: Store, config: Config, limit: int | None = None, settle: float | None = None
) -> RunSummary:
    with running(store, config, "scan", Options(limit=limit)) as run:
        scan.run(run, settle=settle)
    return run.summary


def settings(watch: Path, **variables: str) -> Config:
    return load({"WATCH_DIR": str(watch), "STABILITY_MIN_AGE": "0", **variables})


def make(folder: Path, *names: str, content: bytes = b"film") -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return paths


def items(store: Store) -> dict[str, Item]:
    return {Path(item.file_path).name: item for item in store.looks.find()}


def finish(store: Store, status: Status = Status.COMPLETED) -> None:
    """Carry everything that is pending on, as process and emby would, leaving the files."""
    run = store.runs.start("process")
    for stage in (PROCESS, EMBY):
        claimed = store.queue.claim(stage, run, 1000)
        store.queue.finish(stage, run, [Finished(id=i.id, new_path="/d/x") for i in claimed])
        if status is stage.makes:
            break
    store.runs.finish(run, 0, {})


# -- stability -----------------------------------------------------------------------------


def test_a_file_is_queued_at_its_second_sighting_and_once(
    look: Scan, store: Store, watch: Path
) -> None:
    make(watch, "ABC-123.mp4", "deep/er/ABC-124.MKV", "notes.txt")
    assert look().succeeded == 0
    assert items(store) == {}
    summary = look()
    assert summary.succeeded == 2
    assert {Path(item["file_path"]).name for item in summary.items} == {
        "ABC-123.mp4",
        "ABC-124.MKV",
    }
    for _ in range(3):
        assert look().succeeded == 0
    found = items(store)
    assert set(found) == {"ABC-123.mp4", "ABC-124.MKV"}
    assert {item.status for item in found.values()} == {Status.PENDING}
    assert found["ABC-123.mp4"].inode == (watch / "ABC-123.mp4").stat().st_ino


@pytest.mark.parametrize("checks", [1, 4])
def test_number_of_sightings(look: Scan, watch: Path, checks: int) -> None:
    make(watch, "ABC-123.mp4")
    counts = [look(STABILITY_MIN_CHECKS=str(checks)).succeeded for _ in range(checks)]
    assert counts == [0] * (checks - 1) + [1]


def test_a_writer_that_appends_pauses_and_appends_again_is_never_queued_early(
    look: Scan, store: Store, watch: Path
) -> None:
    path = watch / "ABC-123.mp4"
    for part in (b"one", b"two", b"three"):
        with path.open("ab") as file:
            file.write(part)
            file.flush()
            # The pause: the file looks the same for several scans, but it is still open.
            for _ in range(3):
                assert look().succeeded == 0
        assert look(STABILITY_MIN_CHECKS="9").succeeded == 0
    assert [look().succeeded for _ in range(2)] == [1, 0]
    assert items(store)["ABC-123.mp4"].size == len(b"onetwothree")


def test_changes_between_scans_begin_the_count_again(look: Scan, watch: Path) -> None:
    (path,) = make(watch, "ABC-123.mp4")
    for content in (b"x", b"y"):
        assert look().succeeded == 0
        path.write_bytes(content)  # the same size the second time
    assert [look().succeeded for _ in range(2)] == [0, 1]


def test_a_downloader_that_replaces_the_final_name_is_queued_once_after_the_last(
    look: Scan, store: Store, watch: Path
) -> None:
    """As yt-dlp does: two streams, a merge, then two rewrites of the final name."""
    final = watch / "ABC-123.mp4"
    video, audio = make(watch, "ABC-123.f137.mp4", "ABC-123.f140.m4a.part")
    assert look().succeeded == 0
    make(watch, final.name, content=b"merged")
    assert look().succeeded == 0
    assert look().succeeded == 0, "the streams are still there"
    video.unlink()
    audio.unlink()
    for step in (b"metadata", b"thumbnail"):
        make(watch, "ABC-123.temp.mp4", content=step)
        assert look().succeeded == 0
        os.replace(watch / "ABC-123.temp.mp4", final)
        os.utime(final, (0, 0))  # the upload date: an old mtime says nothing
        assert look().succeeded == 0
    assert [look().succeeded for _ in range(3)] == [1, 0, 0]
    (item,) = items(store).values()
    assert item.size == len(b"thumbnail")


def test_minimum_age_counts_from_the_last_change(
    look: Scan, store: Store, database: Database, watch: Path
) -> None:
    make(watch, "ABC-123.mp4")
    for _ in range(3):
        assert look(STABILITY_MIN_AGE="3600").succeeded == 0
    # By the database's clock it has looked the same for long enough: a jump of this machine's
    # clock cannot hold a file back for ever.
    database.execute("UPDATE sightings SET since = since - interval '1 hour'")
    assert look(STABILITY_MIN_AGE="3600").succeeded == 1


def test_a_leftover_temporary_file_holds_nothing_back_for_ever(
    look: Scan, watch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(watch, "ABC-123.mp4", "ABC-123.mp4.part")
    assert [look().succeeded for _ in range(3)] == [0, 0, 0]
    monkeypatch.setattr("embyproc.files.walk.LEFTOVER_SECONDS", -1)
    assert look().succeeded == 1


def test_settle_looks_twice_in_one_run(look: Scan, watch: Path) -> None:
    make(watch, "ABC-123.mp4")
    assert look(settle=0.05).succeeded == 1


def test_two_looks_have_one_limit_and_say_what_is_too_young(look: Scan, watch: Path) -> None:
    make(watch, *(f"ABC-{n}.mp4" for n in range(100, 105)))
    look()
    assert look(limit=2, settle=0.05).succeeded == 2
    summary = look(settle=0.05, STABILITY_MIN_AGE="3600")
    assert summary.succeeded == 0
    (told,) = summary.problems
    assert told.startswith("3 files were changed in the last 3600 s")


def test_limit_leaves_the_rest_for_the_next_scan(look: Scan, watch: Path) -> None:
    make(watch, *(f"ABC-{n}.mp4" for n in range(100, 105)))
    look()
    assert [look(limit=2).succeeded for _ in range(4)] == [2, 2, 1, 0]


# -- life cycle ----------------------------------------------------------------------------


def test_the_same_path_with_other_content_after_completion_is_a_new_pass(
    look: Scan, store: Store, watch: Path
) -> None:
    (path,) = make(watch, "ABC-123.mp4")
    look(), look()
    finish(store)
    assert [look().succeeded for _ in range(3)] == [0, 0, 0], "unchanged content"
    path.unlink()
    make(watch, "ABC-123.mp4", content=b"another film")
    assert [look().succeeded for _ in range(3)] == [0, 1, 0]
    (item,) = items(store).values()
    assert item.status is Status.PENDING
    assert item.new_path is None, "what was known of the old file is not true of the new one"
    moves = [(event.source, event.target) for event in store.looks.events(item.id)]
    assert moves[-2:] == [("emby_pending", "completed"), ("completed", "pending")]


def test_completed_rows_of_an_adopted_database(
    look: Scan, store: Store, database: Database, watch: Path
) -> None:
    old, new = make(watch, "old.mp4", "new.mp4")
    database.execute(
        """INSERT INTO processing_queue (file_path, status, updated_at)
           VALUES (%(old)s, 'completed', now() + interval '1 hour'),
                  (%(new)s, 'completed', now() - interval '1 hour')""",
        {"old": str(old), "new": str(new)},
    )
    look()
    assert look().succeeded == 1
    assert items(store)["old.mp4"].status is Status.COMPLETED
    assert items(store)["new.mp4"].status is Status.PENDING


def test_a_vanished_file_becomes_an_error_and_comes_back_by_itself(
    look: Scan, store: Store, watch: Path
) -> None:
    (path,) = make(watch, "ABC-123.mp4")
    make(watch, "other.mp4")
    look(), look()
    path.rename(watch.parent / "away")
    summary = look()
    assert (summary.failed, summary.given_up) == (1, 0)
    item = items(store)["ABC-123.mp4"]
    assert item.status is Status.ERROR
    assert (item.error_message or "").startswith("Source file missing")
    assert item.next_retry_at is not None
    assert item.retry_count == 1
    look()
    (watch.parent / "away").rename(path)
    assert [look().succeeded for _ in range(2)] == [0, 1]
    item = items(store)["ABC-123.mp4"]
    assert (item.status, item.retry_count) == (Status.PENDING, 0)


def test_a_file_renamed_before_processing_is_one_item(
    look: Scan, store: Store, watch: Path
) -> None:
    (path,) = make(watch, "raw.mp4")
    look(), look()
    before = items(store)["raw.mp4"]
    path.rename(watch / "ABC-123.mp4")
    look(), look()
    (item,) = items(store).values()
    assert item.id == before.id
    assert item.file_path == str(watch / "ABC-123.mp4")
    assert item.status is Status.PENDING
    assert item.note == f"renamed from {path}"


def test_renaming_a_failed_file_queues_it_again(
    look: Scan, store: Store, database: Database, watch: Path
) -> None:
    (path,) = make(watch, "no code.mp4")
    look(), look()
    database.execute(
        """UPDATE processing_queue SET status = 'error', retry_count = 1,
                  error_message = 'No movie code in the name'"""
    )
    path.rename(watch / "ABC-123.mp4")
    look()
    (item,) = items(store).values()
    assert (item.status, item.retry_count, item.error_message) == (Status.PENDING, 0, None)


def test_hard_links_are_one_item(look: Scan, store: Store, watch: Path) -> None:
    (path,) = make(watch, "b.mp4")
    os.link(path, watch / "a.mp4")
    look()
    assert look().succeeded == 1
    assert set(items(store)) == {"a.mp4"}
    finish(store)
    (watch / "a.mp4").rename(watch.parent / "filed.mp4")  # as process does on one file system
    assert [look().succeeded for _ in range(3)] == [0, 0, 0]
    _, judged = scan.plan(store, settings(watch), Options())
    assert [j.reason for j in judged] == [f"passed over: another link to {watch / 'a.mp4'}"]


def test_a_waiting_item_follows_its_file(look: Scan, store: Store, watch: Path) -> None:
    (path,) = make(watch, "ABC-123.mp4")
    look(), look()
    make(watch, "ABC-123.en.srt")
    look()
    assert items(store)["ABC-123.mp4"].sidecars == ["ABC-123.en.srt"]
    # One that grows again keeps the state it was queued in until it is finished: process sees
    # that it is another one and leaves it alone.
    path.write_bytes(b"longer content")
    look()
    assert items(store)["ABC-123.mp4"].size == len(b"film")
    look()
    assert items(store)["ABC-123.mp4"].size == len(b"longer content")
    assert items(store)["ABC-123.mp4"].status is Status.PENDING


def test_other_content_under_a_failed_name_is_a_new_pass(
    look: Scan, store: Store, database: Database, watch: Path
) -> None:
    make(watch, "ABC-123.mp4")
    look(), look()
    database.execute(
        """UPDATE processing_queue SET status = 'error', retry_count = 4, movie_code = 'OLD-1',
                  error_message = 'No metadata found'"""
    )
    assert [look().succeeded for _ in range(2)] == [0, 0]
    make(watch, "ABC-123.mp4", content=b"downloaded again")
    assert [look().succeeded for _ in range(3)] == [0, 1, 0]
    (item,) = items(store).values()
    assert (item.status, item.retry_count, item.movie_code) == (Status.PENDING, 0, None)


def test_a_new_film_at_the_path_of_one_that_is_filed_waits_its_turn(
    look: Scan, store: Store, database: Database, watch: Path
) -> None:
    """The row stands for the film that Emby is still to show; then the new one is queued."""
    make(watch, "ABC-123.mp4")
    look(), look()
    database.execute("UPDATE processing_queue SET new_path = '/d/x'")  # filed, then retried
    make(watch, "ABC-123.mp4", content=b"another film")
    look(), look()
    assert items(store)["ABC-123.mp4"].size == len(b"film")
    finish(store)
    assert [look().succeeded for _ in range(2)] == [0, 1]


def test_a_rename_is_no_failure(look: Scan, store: Store, database: Database, watch: Path) -> None:
    (path,) = make(watch, "raw.mp4")
    look(), look()
    database.execute("UPDATE processing_queue SET retry_count = 3")
    path.rename(watch / "ABC-123.mp4")
    summary = look()
    assert (summary.failed, summary.given_up) == (0, 0)


def test_the_device_number_does_not_count(look: Scan, database: Database, watch: Path) -> None:
    """It differs between two hosts that share the folder."""
    make(watch, "ABC-123.mp4")
    look()
    database.execute("UPDATE sightings SET device = device + 1")
    assert look().succeeded == 1


def test_a_scan_that_finds_another_at_work_leaves_it_alone(
    look: Scan, database: Database, database_url: str, watch: Path
) -> None:
    make(watch, "ABC-123.mp4")
    look()
    other = open_database({"dsn": database_url})
    with other.transaction():
        other.execute("SELECT pg_advisory_xact_lock(5206151967)")
        summary = look()
        assert (summary.succeeded, summary.exit_code) == (0, 0)
        assert "another scan" in summary.problems[0]
    other.close()
    assert look().succeeded == 1


def test_a_run_that_is_asked_to_stop_or_taken_for_dead_changes_nothing(
    store: Store, database: Database, watch: Path
) -> None:
    make(watch, "ABC-123.mp4")
    config = settings(watch, STABILITY_MIN_CHECKS="1")
    with running(store, config, "scan", Options()) as run:
        run.stopping.set()
        scan.run(run)
    assert items(store) == {}
    assert "asked to stop" in run.summary.problems[0]
    assert database.scalar("SELECT count(*) FROM runs WHERE finished_at IS NULL") == 0


def test_events_name_the_run_that_made_them(look: Scan, store: Store, watch: Path) -> None:
    (path,) = make(watch, "ABC-123.mp4")
    make(watch, "other.mp4")
    look(), look()
    path.unlink()
    run_id = look().run_id
    (event,) = store.looks.events(items(store)["ABC-123.mp4"].id)
    assert event.run == run_id


def test_sidecars_are_stored_with_the_item(look: Scan, store: Store, watch: Path) -> None:
    beside = ("A B.en.srt", "A B.nfo", "A B-poster.jpg", "other.srt", 'A B."q\\uote".ass')
    make(watch, "sub/A B.mp4", *(f"sub/{name}" for name in beside))
    look(), look()
    (item,) = items(store).values()
    assert item.sidecars == sorted(set(beside) - {"other.srt"})


def test_ten_scans_burn_no_id(look: Scan, database: Database, watch: Path) -> None:
    make(watch, *(f"ABC-{n}.mp4" for n in range(100, 120)))
    look(), look()
    before = database.scalar("SELECT last_value FROM processing_queue_id_seq")
    for _ in range(10):
        look()
    assert database.scalar("SELECT last_value FROM processing_queue_id_seq") == before == 20


SCANNER = [sys.executable, "-m", "embyproc", "scan", "--json"]


def test_two_scans_at_the_same_moment(store: Store, database_url: str, watch: Path) -> None:
    make(watch, *(f"{n // 50}/ABC-{n}.mp4" for n in range(100, 600)))
    environment = {
        "PATH": os.environ["PATH"],
        "DATABASE_URL": database_url,
        "WATCH_DIR": str(watch),
        "STABILITY_MIN_AGE": "0",
    }
    for _ in range(3):
        processes = [
            subprocess.Popen(
                SCANNER, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for _ in range(4)
        ]
        ended = [(*process.communicate(timeout=60), process.returncode) for process in processes]
        assert [(error, code) for _, error, code in ended] == [("", 0)] * 4
    assert len(store.looks.find()) == 500


# -- refusing ------------------------------------------------------------------------------


def snapshot(database: Database) -> list[Any]:
    return [
        database.rows(f"SELECT * FROM {table} ORDER BY 1")
        for table in ("processing_queue", "sightings", "watched_folders", "queue_events")
    ]


def test_a_missing_or_wrong_folder_changes_nothing(
    look: Scan, database: Database, watch: Path
) -> None:
    make(watch, "ABC-123.mp4")
    look(), look()
    before = snapshot(database)
    watch.rename(watch.parent / "unplugged")
    with pytest.raises(ConfigError, match=r"WATCH_DIR: .* does not exist; is the volume mounted"):
        look()
    watch.write_text("a file")
    with pytest.raises(ConfigError, match="is not a folder"):
        look()
    assert snapshot(database) == before


def test_an_unmounted_volume_changes_nothing(
    look: Scan, store: Store, database: Database, watch: Path, other_file_system: Path
) -> None:
    make(other_file_system, "ABC-123.mp4", "ABC-124.mp4")
    watch.rmdir()
    watch.symlink_to(other_file_system)
    look(), look()
    assert store.looks.counts()[Status.PENDING] == 2
    before = snapshot(database)
    watch.unlink()  # "umount": the empty folder beneath shows
    watch.mkdir()
    for _ in range(2):
        with pytest.raises(ConfigError, match="seems not to be mounted; nothing was changed"):
            look()
    assert snapshot(database) == before
    watch.rmdir()
    watch.symlink_to(other_file_system)
    assert look().failed == 0


def test_a_folder_that_was_emptied_is_just_empty(look: Scan, store: Store, watch: Path) -> None:
    (path,) = make(watch, "ABC-123.mp4")
    look(), look()
    path.unlink()
    assert look().failed == 1
    assert look().failed == 0


# -- bad input -----------------------------------------------------------------------------


def test_strange_names_and_things(
    look: Scan, store: Store, watch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = ["new\nline.mp4", "tab\tquote'\\.mp4", "🎬 e\u0301.mp4", "é.mp4", "x" * 251 + ".mp4"]
    make(watch, *good)
    for name in (b"/bad\xff.mp4", b"/x.\xff.srt", "/é.\udcff.srt".encode(errors="surrogateescape")):
        with open(os.fsencode(watch) + name, "wb") as file:
            file.write(b"x")
    (watch / "directory.mp4").mkdir()
    make(watch, "directory.mp4/inside.mp4", "@eaDir/ABC-1.mp4/x.mp4", ".hidden/x.mp4")
    os.mkfifo(watch / "pipe.mp4")
    (watch / "link.mp4").symlink_to("/etc/hostname")
    (watch / "folder link").symlink_to("/")
    (watch / "loop").symlink_to(watch)
    listener = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(watch)  # the name of a socket may not be long
    listener.bind("socket.mp4")
    look()
    summary = look()
    listener.close()
    assert set(items(store)) == {*good, "inside.mp4"}
    assert any("bad\\udcff.mp4" in problem for problem in summary.problems)
    _, judged = scan.plan(store, settings(watch), Options())
    reasons = {os.path.basename(j.path): j.reason for j in judged}
    assert reasons["pipe.mp4"] == "passed over: not a regular file"
    assert reasons["socket.mp4"] == "passed over: not a regular file"
    assert reasons["link.mp4"] == "passed over: a symbolic link"
    assert reasons["@eaDir"] == "passed over: a folder of the system"
    assert reasons["inside.mp4"] == "known: pending"


def test_an_unreadable_folder_is_noted_and_its_items_stay(
    store: Store, other_file_system: Path
) -> None:
    watch, config = other_file_system, settings(other_file_system)
    watch.chmod(0o755)
    make(watch, "closed/ABC-123.mp4", "open/ABC-124.mp4")
    scan_once(store, config), scan_once(store, config)
    (watch / "closed").chmod(0)
    # Root may read every folder: look with the eyes of somebody else.
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        summary = scan_once(store, config)
    finally:
        os.seteuid(user)
        (watch / "closed").chmod(0o755)
    assert summary.failed == 0
    assert any("closed" in problem for problem in summary.problems)
    assert store.looks.counts()[Status.PENDING] == 2


def test_a_path_too_long_for_the_database_stops_nothing(
    look: Scan, store: Store, watch: Path
) -> None:
    chance = random.Random(1)
    deep = watch
    for _ in range(13):
        deep = deep / "".join(chr(chance.randrange(0x4E00, 0x9000)) for _ in range(80))
    folder = os.open(watch, os.O_RDONLY)
    for part in deep.relative_to(watch).parts:
        os.mkdir(part, dir_fd=folder)
        below = os.open(part, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(os.open("ABC-123.mp4", os.O_WRONLY | os.O_CREAT, dir_fd=folder))
    os.close(folder)
    make(watch, "ABC-124.mp4")
    look()
    summary = look()
    assert set(items(store)) == {"ABC-124.mp4"}
    assert any("too long" in problem for problem in summary.problems)


def test_a_writer_that_holds_a_lease_is_a_writer(look: Scan, watch: Path) -> None:
    """As Samba does for a client that has the file open."""
    (path,) = make(watch, "ABC-123.mp4")
    look()
    handle = os.open(path, os.O_RDWR)
    fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    assert look().succeeded == 0
    fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    os.close(handle)
    signal.signal(signal.SIGIO, before)
    assert look().succeeded == 1


def test_many_films_are_walked_and_queued_in_parts(
    look: Scan, store: Store, database: Database, watch: Path
) -> None:
    """More than one chunk of the walk and more than one page of the queue."""
    for number in range(12_000):
        (watch / f"ROW-{number}.mp4").touch()
    assert look().succeeded == 0
    with (watch / "ROW-11999.mp4").open("ab"), (watch / "ROW-3.mp4").open("ab"):
        summary = look()
        assert (summary.claimed, summary.succeeded, summary.skipped) == (11_998, 11_998, 2)
        assert len(summary.items) == 1000
        assert database.scalar("SELECT count(*) FROM sightings") == 2
    assert look().succeeded == 2
    assert database.scalar("SELECT count(*) FROM sightings") == 0
    assert look().claimed == 0
    (watch / "ROW-5.mp4").unlink()
    summary = look()
    assert (summary.claimed, summary.failed) == (1, 1)
    counts = store.looks.counts()
    assert (counts[Status.PENDING], counts[Status.ERROR]) == (11_999, 1)
    ids = [item.id for item in store.looks.find()]
    assert max(ids) - min(ids) == 11_999, "no id is burnt"


def test_a_long_history_is_not_read_for_a_few_films(
    look: Scan, database: Database, watch: Path
) -> None:
    database.execute(
        """INSERT INTO processing_queue (file_path, status)
           SELECT '/old/' || n, 'completed' FROM generate_series(1, 20000) AS n"""
    )
    database.execute("VACUUM ANALYZE processing_queue")
    make(watch, "ABC-123.mp4", "ABC-124.mp4")
    assert look().skipped == 2
    now = database.clock.now()
    times = {"now": now, "before": now, "oldest": 0}
    rules = {"min_checks": 2, "missing": "x%", "root": f"{watch}/"}
    plan = database.rows("EXPLAIN " + JUDGE, times | rules)
    lines = [row["QUERY PLAN"] for row in plan]
    assert any("using idx_queue_file_path on processing_queue q" in line for line in lines)
    assert not [line for line in lines if "Seq Scan on processing_queue" in line]


def test_many_films_ready_at_once_leave_the_sightings_of_another_folder(
    store: Store, database: Database, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    make(second, "ABC-123.mp4")
    scan_once(store, settings(second))
    first.mkdir()
    for number in range(5_001):
        (first / f"ROW-{number}.mp4").touch()
    for _ in range(2):
        scan_once(store, settings(first))
    assert database.scalar("SELECT count(*) FROM sightings") == 1
    (second / "ABC-123.mp4").unlink()
    scan_once(store, settings(second))
    for number in range(6_000, 11_002):
        (first / f"ROW-{number}.mp4").touch()
    for _ in range(2):
        scan_once(store, settings(first))
    assert database.scalar("SELECT count(*) FROM sightings") == 0
    assert store.looks.counts()[Status.PENDING] == 10_003


WRITER = """
import os, sys
while True:
    os.close(os.open(sys.argv[1], os.O_RDWR))
"""


def test_a_lease_that_is_broken_does_not_kill_the_scan(watch: Path) -> None:
    (path,) = make(watch, "ABC-123.mp4")
    prober = (
        "import sys; from embyproc.files.walk import ignore_leases, open_for_writing\n"
        "ignore_leases()\nfor _ in range(3000): open_for_writing([sys.argv[1]])"
    )
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
    try:
        done = subprocess.run([sys.executable, "-c", prober, str(path)], timeout=60, check=False)
    finally:
        writer.kill()
        writer.wait(timeout=10)
    assert done.returncode == 0


def test_an_inode_of_64_bits_fits_the_column() -> None:
    assert _signed(2**64 - 1) == -1
    assert _signed(2**63) == -(2**63)


def test_small_files_and_the_destination_inside_the_watch_folder(
    look: Scan, store: Store, watch: Path
) -> None:
    make(watch, "big.mp4", content=b"x" * 100)
    make(watch, "small.mp4", "films/Jane Doe/filed.mp4")
    variables = {"MIN_FILE_SIZE": "50", "DESTINATION_DIR": str(watch / "films")}
    look(**variables), look(**variables)
    assert set(items(store)) == {"big.mp4"}


def test_a_deep_tree(look: Scan, store: Store, watch: Path) -> None:
    deep = watch.joinpath(*["d"] * 900)
    deep.mkdir(parents=True)
    make(deep, "ABC-123.mp4")
    look(), look()
    assert set(items(store)) == {"ABC-123.mp4"}


def test_dry_run_changes_nothing(store: Store, database: Database, watch: Path) -> None:
    make(watch, "ABC-123.mp4", "ABC-124.mp4.part")
    before = snapshot(database)
    summary, judged = scan.plan(store, settings(watch, STABILITY_MIN_CHECKS="1"), Options())
    assert summary.succeeded == 1
    assert [(os.path.basename(j.path), j.reason) for j in judged] == [
        ("ABC-123.mp4", "would be queued"),
        ("ABC-124.mp4.part", "passed over: unfinished"),
    ]
    assert snapshot(database) == before
    assert database.scalar("SELECT count(*) FROM runs") == 0


def test_dry_run_of_an_empty_folder(store: Store, look: Scan, watch: Path) -> None:
    summary, judged = scan.plan(store, settings(watch), Options())
    assert (summary.claimed, summary.skipped, list(judged)) == (0, 0, [])
    (path,) = make(watch, "ABC-123.mp4")
    look()
    look()
    path.unlink()
    summary, judged = scan.plan(store, settings(watch), Options())
    assert (summary.claimed, summary.skipped, list(judged)) == (0, 0, [])
    assert look().failed == 1


def test_a_file_that_disappears_between_two_calls(watch: Path) -> None:
    make(watch, "first.mp4", "second.mp4")
    walk = iter(Walk(root=str(watch), extensions=settings(watch).video_extensions))
    seen = Path(next(walk)[0])
    for path in watch.iterdir():
        if path != seen:
            path.unlink()  # listed already, not yet looked at
    assert list(walk) == []
