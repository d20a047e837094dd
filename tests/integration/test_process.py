"""process on real files, real PostgreSQL and a WordPress on loopback."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from installation import REFRESH_TOKEN, TOKEN, Installation, entry

from embyproc.demo import Quirks
from embyproc.demo.messages import Reply
from embyproc.models import PROCESS, Status


def plain(installation: Installation) -> dict[str, str]:
    return {name: content.decode() for name, content in installation.filed().items()}


# -- filing --------------------------------------------------------------------------------


def test_a_file_is_looked_up_named_and_filed(installation: Installation) -> None:
    installation.put("hhd800.com@ABC-123-C.mp4")
    installation.scan()
    summary = installation.process()
    assert (summary.claimed, summary.succeeded, summary.failed) == (1, 1, 0)
    target = "Jane Doe/Jane Doe - [Chinese Sub] ABC-123 The Quiet Garden.mp4"
    assert plain(installation) == {target: "content of hhd800.com@ABC-123-C.mp4"}
    assert installation.left() == {}
    item = installation.item("hhd800.com@ABC-123-C.mp4")
    assert item.status is Status.MOVED
    assert item.new_path == str(installation.destination / target)
    assert (item.movie_code, item.actress, item.subtitle) == ("ABC-123", "Jane Doe", "Chinese Sub")
    assert item.metadata_json["release_date"] == "2025-01-07"


def test_parts_sidecars_and_title_case(installation: Installation) -> None:
    installation.put("ABC-125-cd1.mp4", "ABC-125-cd2.mp4", "ABC-125-cd1.en.srt", "notes.txt")
    installation.scan()
    assert installation.process().succeeded == 2
    stem = "Jane Doe/Jane Doe - [No Sub] ABC-125 Don't Look Now - cd"
    assert set(plain(installation)) == {f"{stem}1.mp4", f"{stem}2.mp4", f"{stem}1.en.srt"}
    assert set(installation.left()) == {"notes.txt"}


def test_letters_are_parts_even_when_the_first_was_filed_before(installation: Installation) -> None:
    installation.put("ABC-125-A.mp4", "ABC-125-B.mp4")
    installation.scan()
    assert installation.process(limit=1).succeeded == 1
    assert installation.process().succeeded == 1
    assert [name[-7:-4] for name in plain(installation)] == ["cd1", "cd2"]


def test_the_bare_code_is_asked_too(installation: Installation) -> None:
    installation.site._catalogues["missav"].pop("300MIUM-126")
    installation.site._catalogues["missav"]["MIUM-126"] = entry("Only Here")
    installation.put("300MIUM-126.mp4")
    installation.scan()
    assert installation.process().succeeded == 1
    assert set(plain(installation)) == {"Jane Doe/Jane Doe - [No Sub] 300MIUM-126 Only Here.mp4"}


def test_an_existing_folder_is_used_whatever_its_spelling(installation: Installation) -> None:
    aliases = installation.watch.parent / "aliases.toml"
    aliases.write_text('"Mary Minor" = ["Mary Major"]\n')
    installation.variables["ALIASES_FILE"] = str(aliases)
    (installation.destination / "JANE  doe").mkdir()
    installation.put("ABC-123.mp4", "ABC-124.mp4")
    installation.scan()
    assert installation.process().succeeded == 2
    assert {name.split("/")[0] for name in plain(installation)} == {"JANE  doe", "Mary Minor"}


def test_a_changed_order_of_names_does_not_split_a_work(installation: Installation) -> None:
    installation.put("ABC-124-cd1.mp4")
    installation.scan()
    installation.process()
    for catalogue in installation.site._catalogues.values():
        catalogue["ABC-124"] = entry("a walk in the rain", "Jane Doe", "Mary Major")
    installation.put("ABC-124-cd2.mp4")
    installation.scan()
    installation.process()
    assert {name.split("/")[0] for name in plain(installation)} == {"Mary Major"}


def test_a_hostile_answer_never_leaves_the_destination(installation: Installation) -> None:
    for catalogue in installation.site._catalogues.values():
        catalogue["ABC-123"] = entry("../../../x/\0y" + "z" * 5000, "../../etc", movie_code=None)
        catalogue["ABC-125"] = entry("..", "/", movie_code=None)
    installation.put("ABC-123.mp4", "ABC-125.mp4")
    installation.scan()
    assert installation.process().succeeded == 2
    names = list(plain(installation))
    assert {name.split("/")[0] for name in names} == {"etc", "Unknown"}
    assert all(len(os.fsencode(os.path.basename(name))) <= 255 for name in names)
    everything = {path.name for path in installation.destination.parent.iterdir()}
    assert everything == {"watch", "destination"}


# -- names that are taken ------------------------------------------------------------------

TARGET = "Jane Doe/Jane Doe - [No Sub] ABC-123 The Quiet Garden"


@pytest.mark.parametrize("fixture", ["installation", "two_file_systems"])
def test_a_name_taken_by_another_film_gets_a_number(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    installation: Installation = request.getfixturevalue(fixture)
    (installation.destination / "Jane Doe").mkdir()
    (installation.destination / f"{TARGET}.mp4").write_bytes(b"somebody else's")
    installation.put("a/ABC-123.mp4", "b/ABC-123.mp4")
    installation.scan()
    assert installation.process().succeeded == 2
    filed = plain(installation)
    assert set(filed) == {f"{TARGET}.mp4", f"{TARGET} (1).mp4", f"{TARGET} (2).mp4"}
    assert filed.pop(f"{TARGET}.mp4") == "somebody else's"
    assert set(filed.values()) == {"content of a/ABC-123.mp4", "content of b/ABC-123.mp4"}
    assert installation.left() == {}


@pytest.mark.parametrize("fixture", ["installation", "two_file_systems"])
def test_an_identical_film_is_set_aside_not_deleted(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    installation: Installation = request.getfixturevalue(fixture)
    installation.put("a/ABC-123.mp4", "b/ABC-123.mp4", "c/ABC-123.mp4", content=b"the same")
    installation.scan()
    for _ in range(3):
        installation.process(limit=1)
    assert plain(installation) == {f"{TARGET}.mp4": "the same"}
    assert installation.left() == {
        ".embyproc-duplicates/ABC-123.mp4": b"the same",
        ".embyproc-duplicates/ABC-123 (1).mp4": b"the same",
    }
    for name in ("a/ABC-123.mp4", "b/ABC-123.mp4", "c/ABC-123.mp4"):
        item = installation.item(name)
        assert item.status is Status.MOVED
        assert item.new_path == str(installation.destination / f"{TARGET}.mp4")
    installation.scan()
    assert len(installation.store.looks.find()) == 3, "what is set aside is not queued again"


# -- errors --------------------------------------------------------------------------------


def test_no_movie_code_waits_for_a_person(installation: Installation) -> None:
    installation.put("holiday [x].mp4")
    installation.scan()
    done = installation.command("process")
    assert done.returncode == 1
    item = installation.item("holiday [x].mp4")
    assert (item.error_message or "").startswith("No movie code in 'holiday [x].mp4'")
    assert item.next_retry_at is None
    assert f"given up: {item.id} " in done.stdout
    assert f"embyproc retry {item.id}" in done.stdout
    assert installation.command("process").returncode == 0, "announced once"


def test_no_metadata_is_retried(installation: Installation) -> None:
    installation.put("XYZ-999.mp4")
    installation.scan()
    summary = installation.process()
    assert (summary.failed, summary.given_up) == (1, 0)
    item = installation.item("XYZ-999.mp4")
    assert item.error_message == "No metadata found for XYZ-999 by javguru and missav"
    assert item.next_retry_at is not None
    asked = [request.path.rsplit("/", 2)[1] for request in installation.site.requests[1:]]
    assert asked == ["missav", "javguru", "missav", "javguru"], "in order, and once more"
    assert installation.left() == {"XYZ-999.mp4": b"content of XYZ-999.mp4"}


def test_an_answer_about_another_work_is_no_match(installation: Installation) -> None:
    for catalogue in installation.site._catalogues.values():
        catalogue["ABC-123"] = entry("Another", movie_code="XYZ-777")
    installation.put("ABC-123.mp4")
    installation.scan()
    installation.process()
    assert (installation.item("ABC-123.mp4").error_message or "").startswith("No metadata found")
    assert installation.filed() == {}


def test_a_file_that_changed_since_it_was_queued_is_left_to_scan(
    installation: Installation,
) -> None:
    installation.put("ABC-123.mp4")
    installation.scan()
    installation.put("ABC-123.mp4", content=b"it grows again")
    summary = installation.process()
    assert (summary.claimed, summary.succeeded, summary.failed) == (1, 0, 0)
    item = installation.item("ABC-123.mp4")
    assert (item.status, item.retry_count) == (Status.PENDING, 0)
    assert len(installation.store.looks.events(item.id)) == 2, "claimed and given back, once"
    installation.scan()
    assert installation.process().succeeded == 1
    assert plain(installation) == {f"{TARGET}.mp4": "it grows again"}


def test_a_missing_source(installation: Installation) -> None:
    installation.put("ABC-123.mp4")
    installation.scan()
    (installation.watch / "ABC-123.mp4").unlink()
    installation.process()
    message = installation.item("ABC-123.mp4").error_message or ""
    assert message.startswith("Source file missing: ")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("html200", {}),
        ("truncated", {}),
        ("wrong_types", {}),
        ("empty", {}),
        ("big", {"status": 404}),
        ("redirect", {}),
        (500, {}),
        (400, {}),
    ],
)
def test_a_source_that_answers_nonsense_is_passed_over(
    installation: Installation, kind: Any, options: dict[str, Any]
) -> None:
    """The first source is broken in some way; the second one knows the work."""
    installation.site.fail(kind, match="/wp-json/emby/v1/missav", **options)
    installation.put("ABC-123.mp4")
    installation.scan()
    assert installation.process().succeeded == 1
    assert set(plain(installation)) == {f"{TARGET}.mp4"}


@pytest.mark.parametrize("kind", ["html200", "truncated", "reset", "redirect", 404, 500, 503, 429])
def test_when_no_source_works_nobody_is_blamed_or_the_reason_is_told(
    installation: Installation, kind: Any
) -> None:
    installation.site.fail(kind)
    installation.put("ABC-123.mp4", "ABC-124.mp4")
    installation.scan()
    done = installation.command("process", "--json")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    for name in ("ABC-123.mp4", "ABC-124.mp4"):
        item = installation.item(name)
        if item.status is Status.ERROR:
            assert (item.error_message or "").startswith("Metadata service unavailable: ")
            assert "<" not in (item.error_message or "")
        else:
            assert (item.status, item.retry_count) == (Status.PENDING, 0)
    assert set(installation.left()) == {"ABC-123.mp4", "ABC-124.mp4"}
    assert installation.filed() == {}


def test_an_outage_burns_no_retries_and_heals_by_itself(installation: Installation) -> None:
    installation.put(*(f"ROW-{n}.mp4" for n in range(100, 130)))
    installation.scan()
    installation.site.stop()
    for _ in range(3):
        summary = installation.process()
        assert (summary.claimed, summary.failed) == (0, 0)
    states = installation.store.services.states()
    assert set(states) == {"wordpress"}
    assert states["wordpress"].down_since
    assert states["wordpress"].failures == 1, "while it is known to be down nobody asks"
    installation.site.start()
    assert installation.process().claimed == 0, "the pause is not over"
    installation.store.database.execute("UPDATE services SET open_until = now()")
    assert installation.process().succeeded == 30
    assert installation.store.services.states() == {}
    assert {item.retry_count for item in installation.store.looks.find()} == {0}


def test_a_run_says_who_is_left_alone_and_a_person_may_have_it_asked_now(
    installation: Installation,
) -> None:
    installation.put("ABC-123.mp4")
    installation.scan()
    installation.site.stop()
    installation.process()
    installation.site.start()
    done = installation.command("process")
    assert "note: wordpress is left alone until " in done.stdout
    assert "asked again at" in installation.command("status").stdout
    assert installation.command("retry", "--all").returncode == 0
    assert "asked by the next run" in installation.command("status").stdout
    assert installation.process().succeeded == 1


def test_a_single_source_that_was_down_is_asked_once_whether_it_is_back(
    installation: Installation,
) -> None:
    installation.site.fail(502, match="/wp-json/emby/v1/javguru")
    installation.put("XYZ-999.mp4")
    installation.scan()
    installation.process()
    assert set(installation.store.services.states()) == {"javguru"}
    installation.site.heal()
    installation.store.database.execute("UPDATE services SET open_until = now()")
    installation.put(*(f"ROW-{n}.mp4" for n in range(100, 110)))
    installation.scan()
    installation.site.forget_requests()
    assert installation.process().succeeded == 10
    assert installation.store.services.states() == {}
    asked = [request.path for request in installation.site.requests if "javguru" in request.path]
    assert len(asked) == 1


def test_nobody_is_given_up_while_a_source_is_down(installation: Installation) -> None:
    installation.site.fail(502, match="/wp-json/emby/v1/javguru")
    installation.put("XYZ-999.mp4")
    installation.scan()
    messages = []
    for _ in range(6):
        assert installation.process().given_up == 0
        item = installation.item("XYZ-999.mp4")
        assert (item.status, item.next_retry_at is None) == (Status.ERROR, False)
        messages.append(item.error_message or "")
        installation.store.database.execute("UPDATE processing_queue SET next_retry_at = now()")
        assert installation.store.upkeep.retry_due(3) == [item.id]
    assert item.retry_count == 0
    assert messages[0] == "No metadata found for XYZ-999 by missav (javguru answered 502)"
    assert messages[1].endswith("by missav (javguru is down and was not asked)")
    installation.site.heal()
    installation.site._catalogues["javguru"]["XYZ-999"] = entry("Found at Last")
    installation.store.database.execute("UPDATE services SET open_until = now()")
    assert installation.process().succeeded == 1


def test_going_down_in_the_middle_gives_the_rest_back(installation: Installation) -> None:
    installation.put(*(f"ROW-{n}.mp4" for n in range(100, 140)))
    installation.scan()
    calls = iter(range(1000))
    installation.site.fail("reset", match=lambda request: next(calls) > 20)
    installation.process()
    counts = installation.store.looks.counts()
    assert counts[Status.MOVED] >= 10
    assert counts[Status.MOVED] + counts[Status.PENDING] == 40
    assert counts[Status.ERROR] == counts[Status.PROCESSING] == 0


def test_retry_after_is_remembered(installation: Installation) -> None:
    installation.site.fail(503, retry_after="600")
    installation.put("ABC-123.mp4")
    installation.scan()
    installation.process()
    state = installation.store.services.states()["wordpress"]
    assert state.open_until is not None
    assert state.down_since is not None
    assert 590 < (state.open_until - state.down_since).total_seconds() <= 600


# -- the token -----------------------------------------------------------------------------


def test_a_token_that_dies_is_renewed_once_for_all(installation: Installation) -> None:
    installation.put(*(f"ROW-{n}.mp4" for n in range(100, 120)))
    installation.scan()
    installation.site.expire_token()
    assert installation.process().succeeded == 20
    assert installation.site.refresh_count == 1
    stored = installation.store.services.token("wordpress", TOKEN)
    assert stored.access_token == installation.site.token
    assert stored.expires_at is not None
    installation.put("ABC-123.mp4")
    installation.scan()
    assert installation.process().succeeded == 1
    assert installation.site.refresh_count == 1, "the next run knows the new token"


def test_a_token_about_to_expire_is_renewed_ahead(installation: Installation) -> None:
    installation.site.expire_token()
    installation.put("ABC-123.mp4", "ABC-125.mp4")
    installation.scan()
    installation.process(limit=1)
    installation.store.database.execute("UPDATE api_tokens SET expires_at = now()")
    installation.site.forget_requests()
    installation.process()
    assert installation.site.refresh_count == 2
    assert [r.status for r in installation.site.requests if "search" in r.path] == [200]


def test_several_runs_do_not_fight_about_the_token(installation: Installation) -> None:
    installation.put(*(f"ROW-{n}.mp4" for n in range(100, 160)))
    installation.scan()
    installation.site.expire_token()
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "embyproc", "process"],
            env=installation.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    ended = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, ended
    assert installation.store.looks.counts()[Status.MOVED] == 60
    assert installation.site.refresh_count == 1


@pytest.mark.parametrize("strict", [False, True])
def test_a_lost_answer_to_the_refresh_heals_by_itself(
    installation: Installation, strict: bool
) -> None:
    """The site has replaced the token and nobody here knows the new one."""
    installation.site.quirks = Quirks(refresh_refuses_dead_token=strict)
    installation.site.expire_token()
    installation.site.fail("truncated", times=1, match="/wp-json/api-bearer-auth", after=True)
    installation.put("ABC-123.mp4")
    installation.scan()
    installation.process()
    assert installation.item("ABC-123.mp4").status is Status.PENDING
    assert installation.site.refresh_count == 1
    installation.store.database.execute("UPDATE services SET open_until = now()")
    installation.process()
    assert installation.item("ABC-123.mp4").status is Status.MOVED
    assert installation.site.refresh_count == 2


def test_a_refused_refresh_blames_no_item(installation: Installation) -> None:
    installation.variables["API_REFRESH_TOKEN"] = "wrong"
    installation.site.expire_token()
    installation.put("ABC-123.mp4", "ABC-124.mp4")
    installation.scan()
    installation.process()
    counts = installation.store.looks.counts()
    assert (counts[Status.PENDING], counts[Status.ERROR]) == (2, 0)
    assert "API_REFRESH_TOKEN" in installation.store.services.states()["wordpress"].last_error


def test_a_new_token_in_the_configuration_wins(installation: Installation) -> None:
    installation.site.expire_token()
    installation.put("ABC-123.mp4", "ABC-125.mp4")
    installation.scan()
    installation.process(limit=1)
    installation.variables["API_TOKEN"] = "a new login"
    assert installation.config.api_token == "a new login"
    stored = installation.store.services.token("wordpress", "a new login")
    assert stored.access_token == "a new login"


# -- sidecars ------------------------------------------------------------------------------


class Killed(BaseException):
    """Nobody catches it: what a kill leaves behind, at an instant of our choice."""


def test_a_sidecar_copied_by_a_run_that_died_is_there_once(
    two_file_systems: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = two_file_systems
    installation.put("ABC-123.mp4", "ABC-123.en.srt")
    installation.scan()
    unlink = os.unlink

    def die(path: str, *args: Any, **options: Any) -> None:
        if str(path).endswith(str(installation.watch / "ABC-123.en.srt")):
            raise Killed
        unlink(path, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", die)
        with pytest.raises(Killed):
            installation.process()
    assert set(installation.left()) == {"ABC-123.en.srt"}
    published = {name for name in installation.filed() if name.endswith(".srt")}
    assert len(published) == 1
    assert installation.process().succeeded == 1
    assert installation.left() == {}
    assert {name for name in installation.filed() if name.endswith(".srt")} == published


# -- the file system -----------------------------------------------------------------------


def test_a_file_in_the_way_of_the_folder(installation: Installation) -> None:
    (installation.destination / "Jane Doe").write_bytes(b"a file")
    installation.put("ABC-123.mp4")
    installation.scan()
    installation.process()
    message = installation.item("ABC-123.mp4").error_message or ""
    assert message.startswith("File error: a file is in the way of the folder")
    assert set(installation.left()) == {"ABC-123.mp4"}
    assert set(installation.filed()) == {"Jane Doe"}


def test_a_full_disk_leaves_the_source_and_no_temporary_file(
    two_file_systems: Installation,
) -> None:
    """RLIMIT_FSIZE stops the copy in the middle as a full disk would."""
    two_file_systems.put("ABC-123.mp4", content=os.urandom(3_000_000))
    two_file_systems.scan()
    program = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000));"
        "from embyproc.cli import main; import sys; sys.argv[1:] = ['process']; main()"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        env=two_file_systems.environment(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    message = two_file_systems.item("ABC-123.mp4").error_message or ""
    assert message.startswith("File error: ")
    assert len(two_file_systems.left()["ABC-123.mp4"]) == 3_000_000
    assert two_file_systems.filed() == {}


def test_a_missing_destination(installation: Installation) -> None:
    installation.destination.rmdir()
    installation.put("ABC-123.mp4")
    installation.scan()
    done = installation.command("process")
    assert done.returncode == 2
    assert "DESTINATION_DIR: " in done.stderr
    assert installation.item("ABC-123.mp4").status is Status.PENDING


def test_an_unmounted_destination_is_not_filled(
    installation: Installation, other_file_system: Path
) -> None:
    volume = installation.destination
    volume.rmdir()
    volume.symlink_to(other_file_system)
    installation.put("ABC-123.mp4")
    installation.scan()
    assert installation.process().succeeded == 1
    volume.unlink()
    volume.mkdir()
    installation.put("ABC-125.mp4")
    installation.scan()
    done = installation.command("process")
    assert done.returncode == 2
    assert "DESTINATION_DIR: " in done.stderr
    assert "seems not to be mounted" in done.stderr
    assert installation.filed() == {}
    assert installation.item("ABC-125.mp4").status is Status.PENDING


def test_one_bad_sidecar_does_not_stop_the_film(installation: Installation) -> None:
    installation.put("ABC-123.mp4", "ABC-123.en.srt")
    (installation.destination / "Jane Doe").mkdir()
    (installation.destination / f"{TARGET}.en.srt").write_bytes(b"an older one")
    installation.scan()
    summary = installation.process()
    assert summary.succeeded == 1
    assert any("ABC-123.en.srt stays where it was" in problem for problem in summary.problems)
    assert set(installation.left()) == {"ABC-123.en.srt"}


# -- after a crash -------------------------------------------------------------------------


def plan_by_hand(installation: Installation, name: str, planned: Path) -> int:
    """The row of a run that died right after it had recorded its plan."""
    installation.put(name)
    installation.scan()
    item = installation.item(name)
    installation.store.database.execute(
        "UPDATE processing_queue SET planned_path = %(path)s, movie_code = 'ABC-123' "
        "WHERE id = %(id)s",
        {"path": str(planned), "id": item.id},
    )
    return item.id


def test_recovery_where_the_move_was_done_but_not_recorded(installation: Installation) -> None:
    planned = installation.destination / "Jane Doe" / "filed.mp4"
    planned.parent.mkdir()
    plan_by_hand(installation, "ABC-123.mp4", planned)
    (installation.watch / "ABC-123.mp4").rename(planned)
    assert installation.process().succeeded == 1
    assert installation.item("ABC-123.mp4").new_path == str(planned)


def test_recovery_where_the_copy_was_published_but_the_source_not_removed(
    two_file_systems: Installation,
) -> None:
    planned = two_file_systems.destination / "Jane Doe" / "filed.mp4"
    planned.parent.mkdir()
    item_id = plan_by_hand(two_file_systems, "ABC-123.mp4", planned)
    planned.write_bytes((two_file_systems.watch / "ABC-123.mp4").read_bytes())
    (planned.parent / f".embyproc-{item_id}-99.part").write_bytes(b"half")
    (planned.parent / ".embyproc-777-99.part").write_bytes(b"of another item")
    assert two_file_systems.process().succeeded == 1
    assert two_file_systems.left() == {}
    assert set(two_file_systems.filed()) == {"Jane Doe/filed.mp4", "Jane Doe/.embyproc-777-99.part"}


def test_recovery_never_deletes_a_source_that_differs(installation: Installation) -> None:
    planned = installation.destination / "Jane Doe" / "filed.mp4"
    planned.parent.mkdir()
    plan_by_hand(installation, "ABC-123.mp4", planned)
    planned.write_bytes(b"something else of another size")
    assert installation.process().succeeded == 1
    assert plain(installation) == {
        "Jane Doe/filed.mp4": "something else of another size",
        f"{TARGET}.mp4": "content of ABC-123.mp4",
    }


def test_a_retried_row_that_is_filed_passes_straight_through(installation: Installation) -> None:
    installation.put("ABC-123.mp4")
    installation.scan()
    installation.process()
    item = installation.item("ABC-123.mp4")
    installation.store.upkeep.reset(item.id)
    installation.site.forget_requests()
    assert installation.process().succeeded == 1
    assert not [r for r in installation.site.requests if "search" in r.path]
    assert installation.item("ABC-123.mp4").new_path == item.new_path


def test_a_run_whose_row_was_given_away_publishes_nothing(
    two_file_systems: Installation,
) -> None:
    """While it copies, its rows are released and another run takes them."""
    installation = two_file_systems
    installation.put("ABC-123.mp4")
    installation.scan()
    from embyproc.stages import process
    from embyproc.stages.runner import Options, running

    store = installation.store
    with running(store, installation.config, "process", Options()) as run:

        def steal(done: int, total: int) -> None:
            store.queue.release(run.id, "as if the run had been frozen")
            store.queue.claim(PROCESS, store.runs.start("process"), 1)

        run.progress = steal
        process.run(run)
    assert run.summary.succeeded == 0
    assert installation.filed() == {}
    assert set(installation.left()) == {"ABC-123.mp4"}


def test_sigterm_in_the_middle_of_a_copy(two_file_systems: Installation) -> None:
    installation = two_file_systems
    installation.put("ABC-123.mp4", content=os.urandom(64_000_000))
    installation.put("ABC-124.mp4")
    installation.scan()
    process = subprocess.Popen(
        [sys.executable, "-m", "embyproc", "process", "--json"],
        env=installation.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not list(installation.destination.rglob(".embyproc-*")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=10)
    assert process.returncode == 0, errors
    json.loads(output)
    assert not list(installation.destination.rglob(".embyproc-*"))
    counts = installation.store.looks.counts()
    assert counts[Status.PROCESSING] == 0
    assert installation.process().failed == 0
    assert installation.store.looks.counts()[Status.MOVED] == 2


# -- at once, and by hand ------------------------------------------------------------------


def test_lookups_run_a_few_at_a_time(installation: Installation) -> None:
    installation.variables["PROCESS_CONCURRENCY"] = "4"
    installation.site.latency_seconds = 0.02
    installation.put(*(f"ROW-{n}.mp4" for n in range(100, 140)))
    installation.scan()
    assert installation.process().succeeded == 40
    assert installation.site.max_in_flight == 4


def test_once_narrates_one_item(installation: Installation) -> None:
    installation.put("ABC-123.mp4", "ABC-124.mp4")
    installation.scan()
    done = installation.command("process", "--once")
    assert done.returncode == 0
    for said in (
        "ABC-123.mp4",
        "code ABC-123 (rule: standard)",
        "missav knows it",
        f"{TARGET}.mp4",
    ):
        assert said in done.stdout
    assert installation.store.looks.counts()[Status.MOVED] == 1


def test_dry_run_prints_from_and_to_and_changes_nothing(installation: Installation) -> None:
    installation.put("ABC-123.mp4", "holiday.mp4", "XYZ-999.mp4")
    installation.scan()
    before = installation.store.looks.find()
    done = installation.command("process", "--dry-run")
    assert done.returncode == 0
    watch, target = installation.watch, installation.destination / f"{TARGET}.mp4"
    assert f"{watch}/ABC-123.mp4: -> {target}" in done.stdout
    assert f"{watch}/holiday.mp4: error: No movie code" in done.stdout
    assert f"{watch}/XYZ-999.mp4: error: No metadata found for XYZ-999" in done.stdout
    assert installation.store.looks.find() == before
    assert installation.filed() == {}
    assert len(installation.left()) == 3


# -- secrets -------------------------------------------------------------------------------


def test_no_secret_in_any_output(installation: Installation) -> None:
    """After each kind of failure: what was printed, and what was stored."""
    leaky = Reply(status=500, body=f"Bearer {TOKEN} {REFRESH_TOKEN}".encode())
    kinds: list[Any] = [500, 503, 429, 404, 403, 400, "html200", "truncated", "reset", "redirect"]
    for number, kind in enumerate([*kinds, "empty", "wrong_types", "big", leaky]):
        installation.site.heal()
        installation.site.fail(kind)
        installation.put(f"ROW-{200 + number}.mp4")
        installation.command("scan")
        told = ""
        for words in (("process", "--json"), ("process", "--once"), ("status",), ("list",)):
            done = installation.command(*words)
            told += done.stdout + done.stderr
        for table in ("services", "queue_events", "processing_queue", "runs"):
            told += str(installation.store.database.rows(f"SELECT * FROM {table}"))
        assert TOKEN not in told, kind
        assert REFRESH_TOKEN not in told, kind
        installation.store.database.execute("DELETE FROM services")


# -- what is logged and pinged -------------------------------------------------------------


def test_each_item_is_a_line_of_the_log(installation: Installation) -> None:
    installation.put("ABC-123.mp4", "XYZ-999.mp4")
    installation.scan()
    done = installation.command("--log-format", "json", "process")
    events = {e["event"]: e for e in map(json.loads, done.stderr.splitlines())}
    assert set(events) == {"moved", "failed"}
    assert events["moved"]["from"] == "processing"
    assert events["moved"]["file"].endswith(f"{TARGET}.mp4")
    assert events["failed"]["message"].startswith("No metadata found")
    assert events["failed"]["attempt"] == 1
    installation.put("ABC-125.mp4")
    installation.scan()
    assert installation.command("-q", "process").stderr == ""


def test_the_dead_mans_switch_is_told_of_start_and_end(installation: Installation) -> None:
    from embyproc.demo.wordpress import StandInWordPress

    with StandInWordPress({}) as switch:
        installation.variables["PING_URL"] = f"{switch.base_url}/ping/abc"
        installation.put("holiday.mp4")
        installation.scan()
        assert installation.command("process").returncode == 1
        assert [r.path for r in switch.requests] == ["/ping/abc/start", "/ping/abc/1"]
        installation.variables["WATCH_DIR"] = str(installation.watch / "gone")
        switch.forget_requests()
        assert installation.command("scan").returncode == 2
        assert [r.path for r in switch.requests] == ["/ping/abc/start", "/ping/abc/2"]
        installation.variables |= {"EMBY_BASE_URL": "http://127.0.0.1:9", "EMBY_API_KEY": "none"}
        switch.forget_requests()
        assert installation.command("run").returncode == 2
        assert [r.path for r in switch.requests] == ["/ping/abc/start", "/ping/abc/2"]
    assert installation.command("retry").returncode == 0, "a switch that is gone stops nothing"
