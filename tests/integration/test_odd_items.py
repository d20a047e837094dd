"""One odd item or place must cost nobody a film, and never hold up the others."""

import errno
import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from installation import Installation, entry

from embyproc.files.place import is_missing
from embyproc.files.walk import remote_devices
from embyproc.models import Item, Status
from embyproc.stages import retry
from embyproc.stages.filing import Cabinet
from embyproc.stages.runner import Options, running

TARGET = "Jane Doe/Jane Doe - [No Sub] ABC-123 The Quiet Garden"


def retry_run(installation: Installation) -> None:
    with running(installation.store, installation.config, "retry", Options()) as run:
        retry.run(run)


# -- odd answers and names -----------------------------------------------------------------


@pytest.mark.parametrize(
    "odd",
    [
        "half \ud800 a character",
        r"a path such as C:\u0000",
        "a \0 in it",
        math.nan,
        math.inf,
        {"\ud83d": [1]},
        json.loads("[" * 45 + "]" * 45),
    ],
)
def test_an_odd_answer_is_kept_as_far_as_it_can_be(installation: Installation, odd: Any) -> None:
    for catalogue in installation.site._catalogues.values():
        catalogue["ABC-123"] = entry("ABC-123 The Quiet Garden", extra=odd, overview="fine")
    installation.put("ABC-123.mp4", "ABC-125.mp4")
    installation.scan()
    done = installation.command("process", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["succeeded"] == 2
    assert installation.item("ABC-123.mp4").metadata_json["overview"] == "fine"


def test_an_answer_nested_beyond_all_sense_fails_that_item_alone(
    installation: Installation,
) -> None:
    deep = json.loads("[" * 400 + "]" * 400)
    for catalogue in installation.site._catalogues.values():
        catalogue["ABC-123"] = entry("The Quiet Garden", extra=deep)
    installation.put("ABC-123.mp4")
    installation.scan()
    done = installation.command("process")
    assert done.returncode == 0, done.stderr
    assert "internal error" not in done.stderr
    for catalogue in installation.site._catalogues.values():
        catalogue["ABC-123"] = entry("ABC-123 The Quiet Garden")
    installation.store.upkeep.retry_by_hand(None)
    installation.store.database.execute("DELETE FROM services")
    assert installation.process().succeeded == 1


@pytest.mark.parametrize("kind", ["html200", "truncated", "reset", 403, 404, 500, 502])
def test_a_question_that_the_site_stumbles_over_does_not_pass_for_an_outage(
    installation: Installation, kind: Any
) -> None:
    installation.put("ABC-123.mp4")
    installation.scan()
    installation.put("ABC-125.mp4")
    installation.scan()
    installation.site.fail(kind, match=lambda r: "search" in r.path and b"ABC-123" in r.body)
    summary = installation.process()
    assert (summary.succeeded, summary.failed, summary.problems) == (1, 1, [])
    item = installation.item("ABC-123.mp4")
    assert (item.error_message or "").startswith("Metadata service unavailable: ")
    assert "(to this question alone)" in (item.error_message or "")
    assert item.next_retry_at is not None
    assert installation.store.services.states() == {}


@pytest.mark.parametrize("kind", ["html200", 403, 502])
def test_a_site_that_stumbles_once_is_asked_once_more(
    installation: Installation, kind: Any
) -> None:
    installation.put("ABC-123.mp4")
    installation.scan()
    installation.site.fail(kind, times=1, match=lambda r: "search" in r.path)
    assert installation.process().succeeded == 1


def test_a_name_that_looks_like_an_escape(installation: Installation) -> None:
    name = r"holiday \u0000.mp4"
    installation.put(name, "ABC-123.mp4")
    installation.scan()
    assert installation.command("process").returncode in (0, 1)
    assert installation.item("ABC-123.mp4").status is Status.MOVED
    assert (installation.item(name).error_message or "").startswith("No movie code")
    (installation.watch / name).unlink()
    assert installation.command("scan").returncode == 0


@pytest.mark.parametrize("length", [60, 230, 243])
def test_a_sidecar_with_a_long_name_takes_nothing_from_the_film(
    installation: Installation, length: int
) -> None:
    installation.put("ABC-123.mp4", "ABC-123." + "x" * length + ".srt", "ABC-125.mp4")
    installation.scan()
    assert installation.process().succeeded == 2
    assert f"{TARGET}.mp4" in installation.filed()
    assert len(installation.filed()) == 3


def test_whatever_nobody_thought_of_fails_one_item(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Cabinet.plan

    def plan(self: Cabinet, item: Item, *rest: Any) -> Any:
        if "ABC-123" in item.file_path:
            raise LookupError("nobody thought of this")
        return real(self, item, *rest)

    monkeypatch.setattr(Cabinet, "plan", plan)
    installation.put("ABC-123.mp4", "ABC-125.mp4")
    installation.scan()
    summary = installation.process()
    assert (summary.succeeded, summary.failed) == (1, 1)
    item = installation.item("ABC-123.mp4")
    assert item.error_message == "File error: LookupError: nobody thought of this"
    assert item.next_retry_at is not None


def test_sidecars_go_with_the_film_of_the_longest_name(installation: Installation) -> None:
    installation.put("ABC-123.mp4", "ABC-123-C.mp4", "ABC-123-C.jpg", "ABC-123.jpg")
    installation.scan()
    assert installation.process().succeeded == 2
    chinese = TARGET.replace("No Sub", "Chinese Sub")
    assert {name: content.decode() for name, content in installation.filed().items()} == {
        f"{TARGET}.mp4": "content of ABC-123.mp4",
        f"{TARGET}.jpg": "content of ABC-123.jpg",
        f"{chinese}.mp4": "content of ABC-123-C.mp4",
        f"{chinese}.jpg": "content of ABC-123-C.jpg",
    }


# -- one file by two ways ------------------------------------------------------------------


@pytest.fixture
def seen_twice(installation: Installation) -> Path:
    """A film of the library that is queued by another way to the same folder."""
    film = installation.destination / f"{TARGET}.mp4"
    film.parent.mkdir()
    film.write_bytes(b"the only copy")
    (installation.watch / "way").symlink_to(film.parent)
    installation.store.queue.add_many([str(installation.watch / "way" / film.name)])
    return film


def test_a_film_that_is_in_its_place_already_stays_there(
    installation: Installation, seen_twice: Path
) -> None:
    assert installation.process().succeeded == 1
    assert seen_twice.read_bytes() == b"the only copy"
    assert set(installation.filed()) == {f"{TARGET}.mp4"}
    (item,) = installation.store.looks.find()
    assert (item.status, item.new_path) == (Status.MOVED, str(seen_twice))
    for _ in range(2):
        retry_run(installation)
    assert seen_twice.read_bytes() == b"the only copy"
    notes = [event.message for event in installation.store.looks.events(item.id)]
    assert notes[-1] == "the file itself is there already, by another way"


def test_a_film_in_its_place_survives_a_kill_after_the_plan(
    installation: Installation, seen_twice: Path
) -> None:
    installation.store.database.execute(
        "UPDATE processing_queue SET planned_path = %(path)s", {"path": str(seen_twice)}
    )
    assert installation.process().succeeded == 1
    assert seen_twice.read_bytes() == b"the only copy"


def test_two_settings_for_one_folder_are_refused(installation: Installation) -> None:
    (installation.watch / "Jane Doe").mkdir()
    (installation.watch / "Jane Doe" / "ABC-123.mp4").write_bytes(b"film")
    installation.destination.rmdir()
    installation.destination.symlink_to(installation.watch)
    for command in ("scan", "process"):
        installation.store.queue.add_many([str(installation.watch / "ABC-125.mp4")])
        done = installation.command(command)
        assert done.returncode == 2
        assert "DESTINATION_DIR: " in done.stderr
        assert "is WATCH_DIR itself by another name" in done.stderr
    assert "is WATCH_DIR itself by another name" in installation.command("doctor").stdout


def test_a_duplicate_on_another_volume_below_the_watch_folder_is_kept(
    installation: Installation, other_file_system: Path
) -> None:
    film = installation.destination / f"{TARGET}.mp4"
    film.parent.mkdir()
    film.write_bytes(b"film")
    volume = other_file_system / "volume"
    volume.mkdir()
    (volume / "ABC-123.mp4").write_bytes(b"film")
    (installation.watch / "volume").symlink_to(volume)
    installation.store.queue.add_many([str(installation.watch / "volume" / "ABC-123.mp4")])
    assert installation.process().succeeded == 1
    assert (volume / ".embyproc-duplicates" / "ABC-123.mp4").read_bytes() == b"film"
    assert film.read_bytes() == b"film"


# -- what would wait for ever --------------------------------------------------------------


def test_another_film_under_the_old_name_does_not_hold_up_the_filed_one(
    installation: Installation,
) -> None:
    installation.put("ABC-123.mp4")
    installation.file_everything()
    first = installation.item("ABC-123.mp4")
    with running(installation.store, installation.config, "emby", Options()) as run:
        run.fail_moved(first, "Emby update failed: of no account here")
    installation.store.upkeep.retry_by_hand(None)
    installation.put("ABC-123.mp4", "ABC-123.srt", content=b"another film under the old name")
    installation.scan()
    assert installation.process().succeeded == 1
    assert installation.item("ABC-123.mp4").status is Status.MOVED
    assert installation.item("ABC-123.mp4").new_path == first.new_path
    assert set(installation.left()) == {"ABC-123.mp4", "ABC-123.srt"}


def test_a_link_left_in_the_place_of_a_film_is_no_film(installation: Installation) -> None:
    installation.put("ABC-123.mp4")
    installation.scan()
    elsewhere = installation.watch.parent / "elsewhere.mp4"
    os.rename(installation.watch / "ABC-123.mp4", elsewhere)
    (installation.watch / "ABC-123.mp4").symlink_to(elsewhere)
    installation.scan()
    item = installation.item("ABC-123.mp4")
    assert item.status is Status.ERROR
    assert (item.error_message or "").startswith("Source file missing: ")


def test_a_name_reserved_by_a_run_that_was_killed_is_free_again(
    installation: Installation,
) -> None:
    installation.put("ABC-123.mp4")
    installation.scan()
    planned = installation.destination / f"{TARGET}.mp4"
    planned.parent.mkdir()
    planned.touch()
    installation.store.database.execute(
        "UPDATE processing_queue SET planned_path = %(path)s", {"path": str(planned)}
    )
    assert installation.process().succeeded == 1
    assert set(installation.filed()) == {f"{TARGET}.mp4"}


# -- odd files and places ------------------------------------------------------------------


def test_a_film_from_the_year_2400_holds_up_nobody(installation: Installation) -> None:
    installation.put("ABC-123.mp4", "ABC-125.mp4")
    os.utime(installation.watch / "ABC-123.mp4", (13_569_465_600, 13_569_465_600))
    assert installation.scan().succeeded == 2
    assert installation.process().succeeded == 2
    installation.scan()
    assert {item.status for item in installation.store.looks.find()} == {Status.MOVED}


def test_a_new_file_under_a_name_whose_film_is_gone_is_filed(installation: Installation) -> None:
    """Given up by Emby, deleted by hand, downloaded once more: not put off for ever."""
    installation.put("ABC-123.mp4")
    installation.scan()
    installation.process()
    item = installation.item("ABC-123.mp4")
    os.unlink(item.new_path or "")
    installation.store.upkeep.reset(item.id)
    installation.put("ABC-123.mp4", content=b"downloaded once more")
    for _ in range(3):
        installation.scan()
        installation.process()
    assert installation.item("ABC-123.mp4").status is Status.MOVED
    assert installation.filed() == {f"{TARGET}.mp4": b"downloaded once more"}


def test_a_watch_folder_that_is_not_mounted_makes_no_errors(
    installation: Installation,
) -> None:
    installation.variables |= {"EMBY_BASE_URL": "http://127.0.0.1:9", "EMBY_API_KEY": "none"}
    installation.put("ABC-123.mp4", "ABC-125.mp4")
    installation.scan()
    hidden = installation.watch.with_name("the volume")
    installation.watch.rename(hidden)
    installation.watch.mkdir()
    (installation.watch / "@eaDir").mkdir()
    (installation.watch / ".DS_Store").touch()
    for command in ("process", "run"):
        done = installation.command(command)
        assert done.returncode == 2, done.stdout
        assert done.stderr.count("not to be mounted") == 1, done.stderr
        record = installation.store.database.rows("SELECT exit_code FROM runs ORDER BY id DESC")[0]
        assert record == {"exit_code": 2}, "what watches over the runs must hear of it"
    assert {item.status for item in installation.store.looks.find()} == {Status.PENDING}
    shutil.rmtree(installation.watch)
    hidden.rename(installation.watch)
    assert installation.process().succeeded == 2


def test_a_film_in_the_recycle_bin_is_not_followed(installation: Installation) -> None:
    installation.put("ABC-123.mp4")
    installation.scan()
    installation.process()
    item = installation.item("ABC-123.mp4")
    folder = installation.destination / "#recycle" / "Jane Doe"
    folder.mkdir(parents=True)
    os.rename(item.new_path or "", folder / f"{TARGET.split('/')[1]}.mp4")
    retry_run(installation)
    item = installation.item("ABC-123.mp4")
    assert item.status is Status.ERROR
    assert (item.error_message or "").endswith("its name is nowhere below it")


def test_a_film_in_a_folder_whose_name_is_not_utf8_ends_no_run(installation: Installation) -> None:
    installation.put("ABC-123.mp4", "ABC-125.mp4")
    installation.scan()
    installation.process()
    item = installation.item("ABC-123.mp4")
    folder = os.fsencode(installation.destination) + b"/odd \xff"
    os.mkdir(folder)
    os.rename(os.fsencode(item.new_path or ""), folder + os.fsencode(f"/{TARGET[9:]}.mp4"))
    retry_run(installation)
    assert installation.item("ABC-123.mp4").status is Status.ERROR
    assert installation.item("ABC-125.mp4").status is Status.MOVED


def test_a_film_that_is_written_to_again_before_its_turn_is_put_off(
    installation: Installation,
) -> None:
    """Its look-up is done and others are copied first; meanwhile a downloader opens it anew."""
    installation.put("ABC-123.mp4")
    installation.scan()
    path = installation.watch / "ABC-123.mp4"
    with path.open("ab") as writer:
        summary = installation.process()
        assert (summary.succeeded, summary.failed) == (0, 0)
        writer.write(b" and more")
    assert installation.item("ABC-123.mp4").status is Status.PENDING
    assert installation.filed() == {}
    installation.scan()
    assert installation.process().succeeded == 1


def test_a_disk_that_fails_is_no_missing_source(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.put("ABC-123.mp4")
    installation.scan()
    path = str(installation.watch / "ABC-123.mp4")
    honest = os.lstat

    def failing(name: Any, **options: Any) -> os.stat_result:
        if name == path:
            raise OSError(errno.EIO, "Input/output error")
        return honest(name, **options)

    monkeypatch.setattr(os, "lstat", failing)
    assert not is_missing(path)
    monkeypatch.undo()
    assert is_missing(path + ".gone")


def test_a_refused_lease_on_a_share_says_nothing_of_writers() -> None:
    mounts = [
        "36 35 98:0 / / rw,noatime shared:1 - ext4 /dev/root rw",
        "40 36 0:52 / /watch rw,relatime shared:9 - nfs4 nas:/video rw,vers=4.1",
        "41 36 0:53 / /other\\040share rw - cifs //nas/video rw",
        "42 36 0:54 / /odd rw",
    ]
    assert remote_devices(mounts) == {(0, 52), (0, 53)}
