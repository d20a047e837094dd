"""retry: backoff by a frozen clock, dead letters, dead and frozen runs, reconciliation, outages."""

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from freezegun import freeze_time
from installation import Installation

from embyproc.models import Item, RunSummary, Status
from embyproc.stages import retry
from embyproc.stages.runner import Options, running

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
TARGET = "Jane Doe/Jane Doe - [No Sub] ABC-123 The Quiet Garden.mp4"


def run_retry(installation: Installation) -> RunSummary:
    with running(installation.store, installation.config, "retry", Options()) as run:
        retry.run(run)
    return run.summary


def only(installation: Installation) -> Item:
    (item,) = installation.store.looks.find()
    return item


def test_a_timeline_that_goes_on_for_months_is_trimmed(installation: Installation) -> None:
    installation.put("XYZ-999.mp4", "XYZ-998.mp4")
    installation.scan()
    installation.process()
    database, first = installation.store.database, installation.item("XYZ-999.mp4")
    other = len(installation.store.looks.events(installation.item("XYZ-998.mp4").id))
    database.execute(
        """INSERT INTO queue_events (item, "from", "to", message)
           SELECT %(id)s, 'pending', 'processing', n FROM generate_series(1, 500) AS n""",
        {"id": first.id},
    )
    database.execute("UPDATE processing_queue SET next_retry_at = now()")
    run_retry(installation)
    told = [event.message for event in installation.store.looks.events(first.id)]
    assert len(told) == 110
    assert told[-2:] == ["500", "retry 1 of 3"]
    assert (told[1] or "").startswith("No metadata found"), "how it began"
    assert len(installation.store.looks.events(installation.item("XYZ-998.mp4").id)) == other + 1


# -- backoff -------------------------------------------------------------------------------


def test_one_five_and_fifteen_minutes_then_given_up_once(installation: Installation) -> None:
    with freeze_time(T0, real_asyncio=True) as clock:
        installation.put("XYZ-999.mp4")
        installation.scan()
        for attempt, minutes in enumerate((1, 5, 15), start=1):
            summary = installation.process()
            assert (summary.failed, summary.given_up) == (1, 0)
            item = only(installation)
            assert item.retry_count == attempt
            assert item.next_retry_at == datetime.now(UTC) + timedelta(minutes=minutes)
            clock.tick(timedelta(minutes=minutes, seconds=-1))
            assert run_retry(installation).succeeded == 0
            clock.tick(1)
            assert run_retry(installation).succeeded == 1
            assert only(installation).error_message is None
        summary = installation.process()
        assert summary.given_up == 1
        clock.tick(timedelta(days=30))
        assert run_retry(installation).succeeded == 0
        assert only(installation).retry_count == 4
    (listed,) = installation.store.looks.given_up(3)
    assert listed.id == only(installation).id
    assert "XYZ-999.mp4" in installation.command("list", "--given-up").stdout


def test_schedule_and_maximum_are_configurable(installation: Installation) -> None:
    installation.variables |= {"RETRY_BACKOFF_MINUTES": "0,2", "MAX_RETRIES": "5"}
    with freeze_time(T0) as clock:
        installation.put("XYZ-999.mp4")
        installation.scan()
        delays = []
        for _ in range(5):
            installation.process()
            due = only(installation).next_retry_at
            assert due is not None
            delays.append(int((due - datetime.now(UTC)).total_seconds() // 60))
            clock.tick(timedelta(minutes=3))
            run_retry(installation)
        assert delays == [0, 2, 2, 2, 2], "the last delay is reused"
        assert installation.process().given_up == 1


# -- dead and frozen runs ------------------------------------------------------------------


def test_a_frozen_process_that_wakes_up_changes_nothing(two_file_systems: Installation) -> None:
    """Stopped in the middle, taken for dead, its item filed by another run, then woken."""
    installation = two_file_systems
    installation.put("ABC-123.mp4")
    installation.scan()
    installation.site.latency_seconds = 1.0
    process = subprocess.Popen(
        [sys.executable, "-m", "embyproc", "process", "--json"],
        env=installation.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not installation.store.looks.is_waiting(Status.PROCESSING):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGSTOP)
    installation.site.latency_seconds = 0.0
    installation.store.database.execute(
        "UPDATE runs SET heartbeat_at = heartbeat_at - interval '2 minutes' "
        "WHERE finished_at IS NULL"
    )
    assert installation.process().succeeded == 1
    filed, row = installation.filed(), only(installation)
    process.send_signal(signal.SIGCONT)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert '"succeeded": 0' in output
    assert installation.filed() == filed
    assert only(installation) == row


def test_rows_of_a_live_run_on_another_host_are_left_alone(installation: Installation) -> None:
    installation.put("ABC-123.mp4")
    installation.scan()
    run_id = installation.store.runs.start("process", "another boot/pid:[1]/123/456")
    installation.store.database.execute(
        "UPDATE processing_queue SET status = 'processing', claimed_by = %(run)s", {"run": run_id}
    )
    assert installation.process().claimed == 0
    run_retry(installation)
    assert only(installation).status is Status.PROCESSING


def test_a_poison_file_is_set_aside_and_the_others_complete(installation: Installation) -> None:
    """A title that kills the program: three runs die, then the rest of the queue is served."""
    installation.put("ABC-123.mp4", *(f"ROW-{n}.mp4" for n in range(100, 110)))
    installation.scan()
    poisoned = (
        "import os, sys; from embyproc import naming; real = naming.file_name\n"
        "def deadly(parts, **k):\n"
        "    if parts.code == 'ABC-123': os.kill(os.getpid(), 9)\n"
        "    return real(parts, **k)\n"
        "naming.file_name = deadly\n"
        "from embyproc.cli import main; sys.argv[1:] = ['process']; main()"
    )
    codes = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", poisoned],
            env=installation.environment(),
            capture_output=True,
            timeout=60,
            check=False,
        )
        codes.append(done.returncode)
    assert codes[:3] == [-9, -9, -9]
    assert codes[3:] == [1, 0], "announced once"
    assert installation.store.looks.counts()[Status.MOVED] == 10
    item = installation.item("ABC-123.mp4")
    assert item.status is Status.ERROR
    assert (item.error_message or "").startswith("Set aside: 3 runs in a row died")


# -- reconciliation ------------------------------------------------------------------------


def test_a_published_file_is_recorded_even_while_wordpress_is_down(
    installation: Installation,
) -> None:
    installation.put("ABC-123.mp4")
    installation.scan()
    planned = installation.destination / TARGET
    planned.parent.mkdir()
    installation.store.database.execute(
        "UPDATE processing_queue SET planned_path = %(path)s", {"path": str(planned)}
    )
    (installation.watch / "ABC-123.mp4").rename(planned)
    installation.site.stop()
    run_retry(installation)
    item = only(installation)
    assert (item.status, item.new_path) == (Status.MOVED, str(planned))
    assert installation.store.looks.events(item.id)[-1].message == "found where it was planned"
    assert run_retry(installation).failed == 0


def test_a_plan_that_was_not_carried_out_is_left_to_process(installation: Installation) -> None:
    installation.put("ABC-123.mp4")
    installation.scan()
    installation.store.database.execute("UPDATE processing_queue SET planned_path = '/none/x'")
    run_retry(installation)
    assert only(installation).status is Status.PENDING
    assert installation.store.looks.events(only(installation).id) == []


def test_a_source_beside_its_published_copy_goes_and_another_file_stays(
    installation: Installation,
) -> None:
    installation.put("ABC-123.mp4", "ABC-125.mp4")
    installation.file_everything()
    installation.put("ABC-123.mp4")
    installation.put("ABC-125.mp4", content=b"not what was filed")
    run_retry(installation)
    assert installation.left() == {"ABC-125.mp4": b"not what was filed"}
    messages = [e.message for e in installation.store.looks.events(1)]
    assert "the source of the published copy removed" in messages


def test_a_file_moved_by_hand_is_found_again_or_told(installation: Installation) -> None:
    installation.put("ABC-123.mp4", "ABC-125.mp4")
    installation.file_everything()
    first, second = (installation.item(name) for name in ("ABC-123.mp4", "ABC-125.mp4"))
    other = installation.destination / "Another Folder"
    other.mkdir()
    moved = other / os.path.basename(first.new_path or "")
    os.rename(first.new_path or "", moved)
    os.unlink(second.new_path or "")
    run_retry(installation)
    assert installation.item("ABC-123.mp4").new_path == str(moved)
    gone = installation.item("ABC-125.mp4")
    assert gone.status is Status.ERROR
    assert (gone.error_message or "").startswith(f"File error: {second.new_path} is gone")


def test_an_unmounted_destination_is_not_taken_for_lost_files(
    installation: Installation, other_file_system: Path
) -> None:
    installation.destination.rmdir()
    installation.destination.symlink_to(other_file_system)
    installation.put("ABC-123.mp4")
    installation.file_everything()
    installation.destination.unlink()
    installation.destination.mkdir()
    summary = run_retry(installation)
    assert any("seems not to be mounted" in problem for problem in summary.problems)
    assert only(installation).status is Status.MOVED


def test_temporary_files_of_dead_runs_go_and_of_living_ones_stay(
    installation: Installation,
) -> None:
    store, folder = installation.store, installation.destination / "Jane Doe"
    folder.mkdir()
    dead, alive = store.runs.start("process"), store.runs.start("process")
    store.database.execute(
        "UPDATE runs SET heartbeat_at = now() - interval '5 minutes' WHERE id = %(id)s",
        {"id": dead},
    )
    for name in (f".embyproc-1-{dead}.part", f".embyproc-2-{alive}.part", ".embyproc-x.part"):
        (folder / name).write_bytes(b"half")
    run_retry(installation)
    assert {path.name for path in folder.iterdir()} == {
        f".embyproc-2-{alive}.part",
        ".embyproc-x.part",
    }


# -- outages -------------------------------------------------------------------------------


def test_an_hour_without_emby_costs_nobody_a_retry(with_emby: Installation) -> None:
    with freeze_time(T0) as clock:
        with_emby.put(*(f"ROW-{n}.mp4" for n in range(100, 400)))
        with_emby.file_everything()
        assert with_emby.emby is not None
        with_emby.emby.stop()
        codes, asked = [], 0
        for _ in range(60):
            summary = with_emby.emby_run()
            assert (summary.claimed, summary.failed) == (0, 0)
            codes.append(summary.exit_code)
            (told,) = summary.problems
            assert told.startswith(("Emby is unavailable", "emby is left alone until"))
            asked += told.startswith("Emby is unavailable")
            clock.tick(60)
        assert codes.count(3) == 1, "announced once, not every minute"
        assert codes.index(3) >= 30
        assert asked <= 8, "1, 2, 4, 8, 15 minutes: it is not asked every minute"
        state = with_emby.store.services.states()["emby"]
        assert state.down_since == T0
        told = with_emby.command("status").stdout
        assert "down: emby" in told
        with_emby.emby.start()
        clock.tick(timedelta(minutes=15))
        done = 0
        for _ in range(2):
            done += with_emby.emby_run().succeeded
            clock.tick(60)
        assert done == 300
        assert with_emby.store.services.states() == {}
        assert {item.retry_count for item in with_emby.store.looks.find()} == {0}
