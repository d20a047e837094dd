"""emby against a stand-in that behaves as the real server does, awkward sides included."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from installation import EMBY_KEY, REFRESH_TOKEN, TOKEN, Installation, entry
from shown import NAME, PATH, kinds, server, shown

from embyproc.clients.emby import Emby
from embyproc.demo.emby import StandInEmby
from embyproc.demo.messages import Reply
from embyproc.errors import EmbyRefused
from embyproc.models import Status
from embyproc.stages import all as every_stage
from embyproc.stages.runner import Options, Run, running

# -- the main job --------------------------------------------------------------------------


def test_a_filed_film_is_shown_with_fields_and_pictures(with_emby: Installation) -> None:
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    summary = with_emby.emby_run()
    assert (summary.claimed, summary.succeeded, summary.failed) == (1, 1, 0)
    item = with_emby.item("ABC-123.mp4")
    assert item.status is Status.COMPLETED
    assert item.warnings == []
    found = shown(with_emby)
    assert item.emby_item_id == found["Id"]
    assert found["Name"] == found["ForcedSortName"] == NAME
    assert found["OriginalTitle"] == "静かな庭"
    assert found["Overview"] == "A garden, in winter."
    assert found["PremiereDate"].startswith("2025-01-07T")
    assert found["ProductionYear"] == 2025
    assert [(p["Name"], p["Type"]) for p in found["People"]] == [("Jane Doe", "Actor")]
    assert sorted(found["Genres"]) == ["Drama", "Nature"]
    assert [studio["Name"] for studio in found["Studios"]] == ["Studio One"]
    assert found["ProductionLocations"] == ["Japan"]
    assert found["LockData"] is True
    assert kinds(with_emby, found["Id"]) == ["Backdrop", "Banner", "Primary"]
    fetched = [r for r in with_emby.site.requests if r.path.startswith("/crop/")]
    assert [dict(r.query) for r in fetched] == [
        {"w": "400", "horizontal": "1", "k": "v"},
        {"k": "v", "w": "800"},
    ]


def test_a_work_that_is_known_by_another_spelling_of_its_code(with_emby: Installation) -> None:
    known = entry("Only Here", movie_code="MIUM-126")
    with_emby.site._catalogues["missav"].pop("300MIUM-126")
    with_emby.site._catalogues["missav"]["MIUM-126"] = known
    with_emby.put("300MIUM-126.mp4")
    with_emby.file_everything()
    assert with_emby.emby_run().succeeded == 1
    (item,) = server(with_emby).items_by_path().values()
    assert item["OriginalTitle"] == "Only Here"
    assert [person["Name"] for person in item["People"]] == ["Jane Doe"]


def test_a_hundred_films_in_a_handful_of_requests(with_emby: Installation) -> None:
    with_emby.put(*(f"ROW-{n}.mp4" for n in range(100, 200)))
    with_emby.file_everything()
    emby = server(with_emby)
    emby.index_delay_seconds = 0.5
    with_emby.variables["EMBY_SCAN_RETRY_DELAYS"] = "0.2,0.4,0.8"
    summary = with_emby.emby_run()
    assert summary.succeeded == 100
    counts = emby.counts()
    assert counts["refresh_item"] == 1
    assert counts["list_items"] <= 10
    assert counts["read_item"] == 200
    assert counts["update_item"] == counts["list_images"] == 100
    assert counts["upload_image"] == 300
    assert counts.get("delete_image", 0) == 0
    downloads = [r for r in with_emby.site.requests if r.path.startswith("/crop/")]
    assert len(downloads) == 200


# -- finding -------------------------------------------------------------------------------


def test_paths_in_another_unicode_form_match(with_emby: Installation) -> None:
    for catalogue in with_emby.site._catalogues.values():
        catalogue["ABC-125"] = {"title": "Café Noël", "actress": ["Zoë Doe"]}
    with_emby.put("ABC-125.mp4")
    with_emby.file_everything()
    with StandInEmby(with_emby.destination, api_key=EMBY_KEY, nfd_paths=True) as emby:
        with_emby.variables["EMBY_BASE_URL"] = emby.base_url
        assert with_emby.emby_run().succeeded == 1


def test_a_wrong_path_translation_is_bridged_by_folder_and_file_name(
    with_emby: Installation,
) -> None:
    with_emby.variables["EMBY_LIBRARY_PATH"] = "/somewhere/else"
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    assert with_emby.emby_run().succeeded == 1
    assert shown(with_emby)["Name"] == NAME
    assert with_emby.item("ABC-123.mp4").warnings == []


@pytest.mark.parametrize("kind", ["emby", "jellyfin"])
def test_a_second_part_is_found_behind_the_first(installation: Installation, kind: Any) -> None:
    with StandInEmby(installation.destination, api_key=EMBY_KEY, kind=kind) as emby:
        installation.emby = emby
        installation.put("ABC-123-cd1.mp4", "ABC-123-cd2.mp4", "ABC-125.mp4")
        installation.file_everything()
        assert installation.emby_run().succeeded == 3
        second = shown(installation, PATH.replace(".mp4", " - cd2.mp4"))
        assert second["Name"] == f"{NAME} - cd2"
        assert second["OriginalTitle"] == "静かな庭"
        assert emby.counts()["additional_parts"] == 1
        client = Emby(emby.base_url, EMBY_KEY)
        client.connect()
        assert len(client.list_videos(emby.parent_folder_id)) == 2, "no list shows it"
        assert not emby.contract_violations


def test_a_second_part_where_the_roots_do_not_agree(with_emby: Installation) -> None:
    with_emby.variables["EMBY_LIBRARY_PATH"] = "/somewhere/else"
    with_emby.put("ABC-123-cd1.mp4", "ABC-123-cd2.mp4")
    with_emby.file_everything()
    assert with_emby.emby_run().succeeded == 2


def test_a_question_for_parts_that_fails_holds_up_nobody(with_emby: Installation) -> None:
    with_emby.put("ABC-123-cd1.mp4", "ABC-123-cd2.mp4", *(f"ROW-{n}.mp4" for n in range(100, 110)))
    with_emby.file_everything()
    server(with_emby).fail(502, match=lambda r: r.path.endswith("/AdditionalParts"))
    summary = with_emby.emby_run()
    assert (summary.succeeded, summary.failed) == (11, 1)
    assert with_emby.store.services.states() == {}


def test_a_part_is_looked_for_even_where_emby_says_nothing_of_parts(
    with_emby: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    from embyproc.demo import emby_items

    full = emby_items.full_item
    with_emby.put("ABC-123-cd1.mp4", "ABC-123-cd2.mp4")
    with_emby.file_everything()

    def without_count(library: Any, item: Any) -> dict[str, Any]:
        return {name: value for name, value in full(library, item).items() if name != "PartCount"}

    monkeypatch.setattr(emby_items, "full_item", without_count)
    assert with_emby.emby_run().succeeded == 2


def test_tags_that_somebody_gave_an_item_stay(with_emby: Installation) -> None:
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    server(with_emby).scan_now()
    client = Emby(server(with_emby).base_url, EMBY_KEY)
    client.connect()
    before = client.read(shown(with_emby)["Id"])
    client.update({**before, "Tags": ["my tag"], "TagItems": [{"Name": "my tag"}]})
    assert with_emby.emby_run().succeeded == 1
    after = client.read(shown(with_emby)["Id"])
    assert after["Name"] == NAME
    assert [tag["Name"] for tag in after["TagItems"]] == ["my tag"]


def test_what_does_not_appear_is_an_error_with_the_path_emby_should_show(
    with_emby: Installation,
) -> None:
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    server(with_emby).index_delay_seconds = 60
    with_emby.emby_run()
    item = with_emby.item("ABC-123.mp4")
    message = item.error_message or ""
    assert message.startswith(f"Emby item not indexed: {PATH} did not appear within 0.75 s")
    assert item.next_retry_at is not None
    server(with_emby).scan_now()
    with_emby.store.upkeep.retry_by_hand(None)
    with_emby.process()
    assert with_emby.emby_run().succeeded == 1


def test_early_ones_are_updated_while_others_are_awaited(with_emby: Installation) -> None:
    emby = server(with_emby)
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    emby.scan_now()
    with_emby.put("ABC-125.mp4")
    with_emby.file_everything()
    emby.index_delay_seconds = 0.6
    with_emby.variables["EMBY_SCAN_RETRY_DELAYS"] = "0.3,0.5,0.5"
    emby.forget_requests()
    assert with_emby.emby_run().succeeded == 2
    order = [r.path for r in emby.requests if r.method == "POST" and r.path.count("/") >= 2]
    lists = [n for n, r in enumerate(emby.requests) if r.path.endswith("/Items")]
    first_update = next(
        n
        for n, r in enumerate(emby.requests)
        if r.method == "POST" and "Refresh" not in r.path and "Images" not in r.path
    )
    assert first_update < lists[-1], order


def test_a_running_scan_is_not_triggered_again(with_emby: Installation) -> None:
    emby = server(with_emby)
    emby.index_delay_seconds = 0.4
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    client = Emby(emby.base_url, EMBY_KEY)
    client.connect()
    client.refresh(emby.parent_folder_id)
    emby.forget_requests()
    assert with_emby.emby_run().succeeded == 1
    assert emby.counts().get("refresh_item", 0) == 0


def test_a_scan_of_another_library_is_not_waited_for(with_emby: Installation) -> None:
    server(with_emby).scan_another_library()
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    assert with_emby.emby_run().succeeded == 1
    assert server(with_emby).counts()["refresh_item"] == 1


@pytest.mark.parametrize("is_scanning", [True, False])
def test_nobody_is_given_up_while_emby_scans(with_emby: Installation, is_scanning: bool) -> None:
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    server(with_emby).index_delay_seconds = 600
    if not is_scanning:
        server(with_emby).fail(404, match=lambda request: "/VirtualFolders" in request.path)
    with_emby.variables["EMBY_SCAN_RETRY_DELAYS"] = "0.01"
    given_up = 0
    for _ in range(6):
        given_up += with_emby.emby_run().given_up
        with_emby.store.database.execute("UPDATE processing_queue SET next_retry_at = now()")
        with_emby.store.upkeep.retry_due(3)
        with_emby.process()
    assert given_up == (not is_scanning)
    item = with_emby.item("ABC-123.mp4")
    if is_scanning:
        assert (item.status, item.retry_count) == (Status.MOVED, 0)
        server(with_emby).scan_now()
        assert with_emby.emby_run().succeeded == 1
    else:
        assert (item.status, item.retry_count) == (Status.ERROR, 4)
        assert (item.error_message or "").endswith("(`embyproc doctor`)")


def test_an_id_that_nobody_can_keep_holds_up_nobody(with_emby: Installation) -> None:
    with_emby.put("ABC-123.mp4", "ABC-125.mp4")
    with_emby.file_everything()
    server(with_emby).scan_now()
    listed = [
        {"Id": "9" * 101 if path == PATH else item["Id"], "Path": path}
        for path, item in server(with_emby).items_by_path().items()
    ]
    body = json.dumps({"Items": listed}).encode()
    answer = Reply(status=200, body=body, content_type="application/json")
    server(with_emby).fail(answer, match=lambda request: request.path.endswith("/Items"))
    summary = with_emby.emby_run()
    assert (summary.succeeded, summary.failed) == (1, 1)


def test_files_that_emby_merged_are_reported_not_overwritten(installation: Installation) -> None:
    with StandInEmby(installation.destination, api_key=EMBY_KEY, library_kind="movies") as emby:
        installation.emby = emby
        installation.put("ABC-123.mp4", "ABC-125.mp4")
        installation.file_everything()
        summary = installation.emby_run()
        assert (summary.succeeded, summary.failed) == (1, 1)
        by_status = {item.status: item for item in installation.store.looks.find()}
        message = by_status[Status.ERROR].error_message or ""
        assert message.startswith("Emby update failed: Emby shows this file as a version of ")
        assert "home videos" in message
        done = by_status[Status.COMPLETED]
        assert done.warnings is not None
        assert done.warnings[0] == "Emby shows 2 files as versions of one item"
        (found,) = emby.items_by_path().values()
        assert found["Name"] == Path(done.new_path or "").stem


# -- writing -------------------------------------------------------------------------------


def test_a_late_save_of_the_server_is_written_over(installation: Installation) -> None:
    with StandInEmby(installation.destination, api_key=EMBY_KEY, late_save_seconds=0.0) as emby:
        installation.emby = emby
        installation.put("ABC-123.mp4")
        installation.file_everything()
        assert installation.emby_run().succeeded == 1
        assert shown(installation)["Name"] == NAME


def test_a_save_of_the_server_after_the_second_look_is_written_over(
    installation: Installation,
) -> None:
    with StandInEmby(
        installation.destination, api_key=EMBY_KEY, late_save_seconds=0.1, latency_seconds=0.04
    ) as emby:
        installation.emby = emby
        installation.put("ABC-123.mp4")
        installation.file_everything()
        assert installation.emby_run().succeeded == 1
        assert shown(installation)["Name"] == NAME
        assert emby.counts()["update_item"] == 2


def test_an_update_that_stores_nothing_is_found_out(with_emby: Installation) -> None:
    server(with_emby).drop_updates(5)
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    with_emby.emby_run()
    message = with_emby.item("ABC-123.mp4").error_message or ""
    assert message.startswith("Emby update failed: Name, ForcedSortName")
    assert with_emby.item("ABC-123.mp4").emby_item_id == shown(with_emby)["Id"]


def test_an_item_deleted_between_find_and_update(with_emby: Installation) -> None:
    with_emby.put("ABC-123.mp4", "ABC-125.mp4")
    with_emby.file_everything()
    emby = server(with_emby)
    emby.scan_now()
    gone = shown(with_emby)["Id"]
    emby.fail(404, match=lambda request: request.path.endswith(f"/Items/{gone}"))
    summary = with_emby.emby_run()
    assert (summary.succeeded, summary.failed) == (1, 1)
    message = with_emby.item("ABC-123.mp4").error_message or ""
    assert message == "Emby update failed: Emby answered 404 to the item"


# -- other servers -------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", "/", "/emby", "/emby/"])
def test_with_and_without_the_prefix(with_emby: Installation, suffix: str) -> None:
    with_emby.variables["EMBY_BASE_URL"] = server(with_emby).base_url + suffix
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    assert with_emby.emby_run().succeeded == 1


def test_jellyfin(installation: Installation) -> None:
    with StandInEmby(installation.destination, api_key=EMBY_KEY, kind="jellyfin") as emby:
        installation.emby = emby
        installation.put("ABC-123.mp4", "ABC-125.mp4")
        installation.file_everything()
        assert installation.emby_run().succeeded == 2
        assert shown(installation)["Name"] == NAME
        assert not emby.contract_violations
        assert not emby.forbidden_calls


# -- by hand, and secrets ------------------------------------------------------------------


def test_dry_run_shows_field_by_field_and_changes_nothing(with_emby: Installation) -> None:
    with_emby.put("ABC-123.mp4", "ABC-125.mp4")
    with_emby.file_everything()
    missing = with_emby.command("emby", "--dry-run").stdout
    assert f"{PATH}: not indexed yet: a scan would be triggered" in missing
    server(with_emby).scan_now()
    before = shown(with_emby)
    done = with_emby.command("emby", "--dry-run")
    assert f"-> '{NAME}'" in done.stdout
    assert "ProductionYear: None -> 2025" in done.stdout
    assert shown(with_emby) == before
    assert with_emby.store.looks.counts()[Status.MOVED] == 2
    assert not [r for r in server(with_emby).requests if r.method != "GET"]


def test_once_narrates_one_item(with_emby: Installation) -> None:
    with_emby.put("ABC-123.mp4", "ABC-125.mp4")
    with_emby.file_everything()
    done = with_emby.command("emby", "--once")
    assert "triggered" in done.stdout
    assert "in Emby" in done.stdout
    assert with_emby.store.looks.counts()[Status.COMPLETED] == 1


def test_run_does_it_all_in_one_process(with_emby: Installation) -> None:
    with_emby.put("ABC-123.mp4")
    done = with_emby.command("run", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["command"] == "run"
    assert (found["claimed"], found["succeeded"]) == (3, 3)  # scan, process, emby
    assert with_emby.item("ABC-123.mp4").status is Status.COMPLETED
    os.rename(with_emby.watch, with_emby.watch.parent / "unplugged")
    broken = with_emby.command("run")
    assert broken.returncode == 2
    assert "WATCH_DIR: " in broken.stderr


@pytest.mark.parametrize(("seconds", "may_claim"), [(0.4, True), (0, False)])
def test_a_stage_that_takes_all_the_time_leaves_some_to_the_others(
    installation: Installation, seconds: float, may_claim: bool
) -> None:
    """A first import copies for hours; what it has filed must be shown meanwhile."""
    seen: list[bool] = []

    def slow(run: Run) -> None:
        time.sleep(seconds + 0.1)

    def next_one(run: Run) -> None:
        seen.append(run.may_claim)

    options = Options(max_runtime=seconds)
    with running(installation.store, installation.config, "run", options) as run:
        assert every_stage.run(run, {"process": slow, "emby": next_one}) == []
    assert seen == [may_claim]


def test_a_stage_that_breaks_does_not_stop_the_others(installation: Installation) -> None:
    """Neither one that cannot work nor one with a fault in it; both are told at the end."""

    def fault(run: Run) -> None:
        raise LookupError("a fault")

    def refused(run: Run) -> None:
        raise EmbyRefused("Emby answered 418")

    reached: list[str] = []

    def after(run: Run) -> None:
        reached.append("retry")

    with running(installation.store, installation.config, "run", Options()) as run:
        (error,) = every_stage.run(run, {"emby": refused, "retry": after})
        assert str(error) == "Emby answered 418"
        with pytest.raises(LookupError, match="a fault"):
            every_stage.run(run, {"process": fault, "retry": after})
    assert reached == ["retry", "retry"]


def test_no_secret_in_any_url_or_output(with_emby: Installation) -> None:
    told = ""
    kinds: list[Any] = [500, 401, 404, "html200", "truncated", "reset", "redirect"]
    for number, kind in enumerate(kinds):
        server(with_emby).heal()
        server(with_emby).fail(kind, match=lambda r: "Public" not in r.path)
        with_emby.put(f"ROW-{200 + number}.mp4")
        with_emby.file_everything()
        for words in (("emby", "--json"), ("emby", "--once"), ("status",), ("list",)):
            done = with_emby.command(*words)
            told += done.stdout + done.stderr
        for table in ("services", "queue_events", "processing_queue", "runs"):
            told += str(with_emby.store.database.rows(f"SELECT * FROM {table}"))
        with_emby.store.database.execute("DELETE FROM services")
    for secret in (EMBY_KEY, TOKEN, REFRESH_TOKEN):
        assert secret not in told
        for request in (*server(with_emby).requests, *with_emby.site.requests):
            assert secret not in request.target
