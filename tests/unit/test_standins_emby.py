"""The stand-in Emby answers as the facts say, and catches what no client may send."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from embyproc.demo import StandInEmby, tiny_mp4
from embyproc.demo.emby_api import LATE_NAME_ENDING
from embyproc.demo.emby_routes import ROUTES
from embyproc.demo.emby_system import VIEWER_ID
from embyproc.demo.pictures import jpeg, jpeg_label, png

TIMEOUT = 5
KEY = "stand-in-api-key"
PREFIX = "/mnt/library"
Make = Callable[..., StandInEmby]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two performers, three videos, and things that are no videos."""
    root = tmp_path / "library"
    for number, name in enumerate(
        (
            "Jane Doe/Jane Doe - [No Sub] ABC-123 Harbour.mp4",
            "Jane Doe/Jane Doe - [No Sub] ABC-124 Lights.mkv",
            "Zoé/Zoé - XYZ-1 Été.mp4",
            "Jane Doe/Jane Doe - [No Sub] ABC-123 Harbour.srt",
            "Jane Doe/.embyproc-1.part.mp4",
            ".hidden/film.mp4",
        )
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tiny_mp4(number))
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
    return root


HARBOUR = f"{PREFIX}/Jane Doe/Jane Doe - [No Sub] ABC-123 Harbour.mp4"
LIGHTS = f"{PREFIX}/Jane Doe/Jane Doe - [No Sub] ABC-124 Lights.mkv"
SUMMER = f"{PREFIX}/Zoé/Zoé - XYZ-1 Été.mp4"


@pytest.fixture
def make(root: Path) -> Iterator[Make]:
    servers = []

    def build(**options: Any) -> StandInEmby:
        server = StandInEmby(root, **options).start()
        servers.append(server)
        return server

    yield build
    for server in servers:
        server.stop()
        assert not server.errors


@pytest.fixture
def emby(make: Make) -> StandInEmby:
    server = make()
    server.scan_now()
    return server


def get(server: StandInEmby, path: str, **more: Any) -> requests.Response:
    return requests.get(server.base_url + path, timeout=TIMEOUT, **more)


def call(
    server: StandInEmby, method: str, path: str, *, key: str = KEY, **more: Any
) -> requests.Response:
    headers = {"X-Emby-Token": key, "Authorization": f'MediaBrowser Token="{key}"'}
    headers |= more.pop("headers", {})
    url = server.base_url + path
    return requests.request(method, url, headers=headers, timeout=TIMEOUT, **more)


def ask(server: StandInEmby, path: str, **query: str) -> Any:
    answer = call(server, "GET", path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def listed(server: StandInEmby, **query: str) -> list[dict[str, Any]]:
    items = ask(server, f"/Users/{server.user_id}/Items", **query)["Items"]
    assert isinstance(items, list)
    return items


def read(server: StandInEmby, item_id: str) -> dict[str, Any]:
    item = ask(server, f"/Users/{server.user_id}/Items/{item_id}")
    assert isinstance(item, dict)
    return item


def item_id(server: StandInEmby, path: str = HARBOUR) -> str:
    return str(server.items_by_path()[path]["Id"])


def write(server: StandInEmby, item: dict[str, Any], **changes: Any) -> requests.Response:
    return call(server, "POST", f"/Items/{item['Id']}", json={**item, **changes})


def test_prefix_is_optional_on_emby_and_absent_on_jellyfin(make: Make) -> None:
    emby, jellyfin = make(), make(kind="jellyfin")
    for path in ("/System/Info/Public", "/emby/System/Info/Public"):
        assert "ProductName" not in ask(emby, path)
    assert emby.contract_violations == []
    assert call(emby, "GET", "/emby/emby/System/Info").status_code == 404
    assert ask(jellyfin, "/System/Info/Public")["ProductName"] == "Jellyfin Server"
    assert call(jellyfin, "GET", "/emby/System/Info").status_code == 404
    assert len(emby.contract_violations) == len(jellyfin.contract_violations) == 1


def test_keys(make: Make) -> None:
    emby, jellyfin = make(), make(kind="jellyfin")
    old_jellyfin = make(kind="jellyfin", legacy_authorization=True)
    only_emby_header = {"X-Emby-Token": KEY}
    only_standard_header = {"Authorization": f'MediaBrowser Client="x", Token="{KEY}"'}
    for server, headers, status in (
        (emby, only_emby_header, 200),
        (emby, only_standard_header, 200),
        (emby, {}, 401),
        (jellyfin, only_emby_header, 401),
        (jellyfin, only_standard_header, 200),
        (old_jellyfin, only_emby_header, 200),
    ):
        assert get(server, "/System/Info", headers=headers).status_code == status
    refused = call(emby, "GET", "/System/Info", key="wrong")
    assert (refused.status_code, refused.headers["Content-Type"]) == (401, "text/plain")
    assert refused.text == "Access token is invalid or expired."
    assert get(emby, "/System/Info/Public").status_code == 200
    for method in ("GET", "HEAD", "POST"):
        url = emby.base_url + "/System/Ping"
        assert requests.request(method, url, timeout=TIMEOUT).status_code == 200
    assert emby.key_in_url == []


def test_a_key_in_any_url_is_recorded_even_behind_a_fault(emby: StandInEmby) -> None:
    assert get(emby, f"/System/Info?api_key={KEY}").status_code == 200
    emby.fail("reset", times=1)
    with pytest.raises(requests.ConnectionError):
        get(emby, f"/x/{KEY}".replace("-", "%2D"))
    assert len(emby.key_in_url) == 2


def test_users(make: Make) -> None:
    emby, jellyfin = make(), make(kind="jellyfin")
    users = ask(emby, "/Users/Query")["Items"]
    assert [user["Policy"]["IsAdministrator"] for user in users] == [False, True]
    assert users[1]["Id"] == emby.user_id
    assert re.fullmatch("[0-9a-f]{32}", emby.user_id)
    assert emby.contract_violations == []
    assert ask(emby, "/Users") == users
    assert "GET /Users: not in the official" in emby.contract_violations[0]
    assert len(ask(jellyfin, "/Users")) == 2
    assert call(jellyfin, "GET", "/Users/Query").status_code == 404


def test_libraries_and_folders(make: Make) -> None:
    emby = make(library_kind="movies", parent_folder_id="9", server_prefix="/films/")
    folders = ask(emby, "/Library/VirtualFolders/Query")["Items"]
    assert folders == ask(emby, "/Library/VirtualFolders")
    (own,) = [folder for folder in folders if folder["ItemId"] == "9"]
    assert (own["Locations"], own["CollectionType"]) == (["/films"], "movies")
    assert own["RefreshStatus"] == "Idle"
    roots = ask(emby, "/Library/SelectableMediaFolders")[1]["SubFolders"]
    assert roots[0]["Path"] == "/films"
    assert call(emby, "POST", f"/Items/{roots[0]['Id']}/Refresh?Recursive=true").status_code == 204
    assert "/films/Zoé/Zoé - XYZ-1 Été.mp4" in emby.items_by_path()
    jellyfin = make(kind="jellyfin")
    assert call(jellyfin, "GET", "/Library/VirtualFolders/Query").status_code == 404
    assert call(jellyfin, "GET", "/Library/SelectableMediaFolders").status_code == 404
    assert jellyfin.parent_folder_id in str(ask(jellyfin, "/Library/VirtualFolders"))


def test_refresh_is_queued_and_done_later(make: Make) -> None:
    emby = make(index_delay_seconds=0.4)
    url = "/Items/4/Refresh?Recursive=true&MetadataRefreshMode=Default&ImageRefreshMode=Default"
    start = time.monotonic()
    assert call(emby, "POST", url).status_code == 204
    assert time.monotonic() - start < 0.3
    assert emby.refreshes_while_pending == 0
    assert call(emby, "POST", url).status_code == 204
    assert emby.refreshes_while_pending == 1
    assert listed(emby, ParentId="4", Recursive="true") == []
    assert ask(emby, "/Library/VirtualFolders")[1]["RefreshStatus"] == "Queued"
    assert ask(emby, "/ScheduledTasks")[1]["State"] == "Idle"
    deadline = time.monotonic() + 3
    while len(emby.items_by_path()) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert time.monotonic() - start >= 0.4
    assert set(emby.items_by_path()) == {HARBOUR, LIGHTS, SUMMER}
    assert emby.contract_violations == []


def test_the_full_scan_shows_as_a_task_and_stop_forgets_it(make: Make) -> None:
    emby = make(index_delay_seconds=60)
    assert call(emby, "POST", "/Library/Refresh").status_code == 204
    (task,) = [one for one in ask(emby, "/ScheduledTasks") if one["Key"] == "RefreshLibrary"]
    assert task["State"] == "Running"
    start = time.monotonic()
    emby.stop()
    assert time.monotonic() - start < 1
    emby.scan_now()
    assert len(emby.items_by_path()) == 3
    emby.start()
    assert ask(emby, "/ScheduledTasks")[1]["State"] == "Idle"


def test_items_can_appear_one_by_one(make: Make) -> None:
    emby = make(item_delay_seconds=0.2)
    call(emby, "POST", "/Items/4/Refresh?Recursive=true")
    seen = set()
    deadline = time.monotonic() + 3
    while 3 not in seen and time.monotonic() < deadline:
        seen.add(len(emby.items_by_path()))
        time.sleep(0.02)
    assert {1, 2, 3} <= seen


def test_refresh_of_a_folder_walks_only_that_folder(emby: StandInEmby, root: Path) -> None:
    (root / "Jane Doe/new.mp4").write_bytes(b"x")
    (root / "Zoé/new.mp4").write_bytes(b"x")
    (root / "Zoé/deep").mkdir()
    (root / "Zoé/deep/new.mp4").write_bytes(b"x")
    (folder,) = listed(emby, Path=f"{PREFIX}/Zoé", Recursive="true")
    assert (folder["Type"], folder["IsFolder"]) == ("Folder", True)
    assert call(emby, "POST", f"/Items/{folder['Id']}/Refresh").status_code == 204
    assert f"{PREFIX}/Zoé/new.mp4" in emby.items_by_path()
    assert f"{PREFIX}/Zoé/deep/new.mp4" not in emby.items_by_path()
    call(emby, "POST", f"/Items/{folder['Id']}/Refresh?Recursive=true")
    assert f"{PREFIX}/Zoé/deep/new.mp4" in emby.items_by_path()
    assert f"{PREFIX}/Jane Doe/new.mp4" not in emby.items_by_path()


def test_refresh_refuses_what_the_server_cannot_read(make: Make) -> None:
    emby, jellyfin = make(), make(kind="jellyfin")
    assert call(emby, "POST", "/Items/777/Refresh").status_code == 404
    none = "/Refresh?MetadataRefreshMode=None"
    assert call(emby, "POST", f"/Items/4{none}").status_code == 400
    assert call(jellyfin, "POST", f"/Items/{jellyfin.parent_folder_id}{none}").status_code == 204
    assert len(jellyfin.items_by_path()) == 3
    assert call(emby, "POST", "/Items/4/Refresh?Recursive=maybe").status_code == 400
    call(emby, "POST", "/Items/4/Refresh?ReplaceAllMetadata=true")
    assert "throw data away" in emby.contract_violations[-1]


def test_removed_and_moved_files(emby: StandInEmby, root: Path) -> None:
    before = item_id(emby)
    kept = item_id(emby, SUMMER)
    (root / "Jane Doe/Jane Doe - [No Sub] ABC-123 Harbour.mp4").rename(root / "Zoé/moved.mp4")
    assert call(emby, "GET", f"/Users/{emby.user_id}/Items/{before}").status_code == 200
    emby.scan_now()
    assert call(emby, "GET", f"/Users/{emby.user_id}/Items/{before}").status_code == 404
    assert set(emby.items_by_path()) == {LIGHTS, SUMMER, f"{PREFIX}/Zoé/moved.mp4"}
    assert item_id(emby, f"{PREFIX}/Zoé/moved.mp4") != before
    assert item_id(emby, SUMMER) == kept
    (root / "Jane Doe/Jane Doe - [No Sub] ABC-124 Lights.mkv").unlink()
    for leftover in (root / "Jane Doe").iterdir():
        leftover.unlink()
    (root / "Jane Doe").rmdir()
    emby.scan_now()
    assert listed(emby, Path=f"{PREFIX}/Jane Doe", Recursive="true") == []


def test_ids_are_decimal_on_emby_and_guids_on_jellyfin(make: Make) -> None:
    emby, jellyfin = make(), make(kind="jellyfin")
    emby.scan_now()
    jellyfin.scan_now()
    assert item_id(emby).isdecimal()
    identity = item_id(jellyfin)
    assert re.fullmatch("[0-9a-f]{32}", identity)
    dashed = "-".join(re.findall(r"^.{8}|.{4}(?=.{12})|.{12}$", identity))
    assert ask(jellyfin, f"/Users/{jellyfin.user_id}/Items/{dashed}")["Id"] == identity


def test_list_scope(emby: StandInEmby) -> None:
    assert [item["Type"] for item in ask(emby, "/Items")["Items"]] == ["CollectionFolder"] * 2
    assert ask(emby, "/Items", Path=HARBOUR)["Items"] == []
    top = listed(emby, ParentId="4")
    assert [item["Name"] for item in top] == ["Jane Doe", "Zoé"]
    inside = listed(emby, ParentId=top[0]["Id"])
    assert [item["IsFolder"] for item in inside] == [False, False]
    assert len(listed(emby, ParentId="4", Recursive="true")) == 5
    assert len(listed(emby, ParentId="4", Recursive="true", IsFolder="false")) == 3
    assert len(listed(emby, Recursive="true", MediaTypes="Video")) == 3
    assert len(listed(emby, Recursive="true", IncludeItemTypes="Folder,Movie")) == 3
    assert call(emby, "GET", "/Items?ParentId=777").status_code == 404
    hidden = ask(emby, f"/Users/{VIEWER_ID}/Items", ParentId="4", Recursive="true")
    assert hidden == {"Items": [], "TotalRecordCount": 0}
    assert emby.contract_violations == []


def test_list_by_path_is_exact_on_emby_and_ignored_on_jellyfin(make: Make) -> None:
    emby, jellyfin = make(), make(kind="jellyfin")
    emby.scan_now()
    jellyfin.scan_now()
    assert len(listed(emby, Path=HARBOUR, Recursive="true")) == 1
    for other in (HARBOUR.upper(), HARBOUR[:-1], unicodedata.normalize("NFD", SUMMER)):
        assert listed(emby, Path=other, Recursive="true") == []
    assert len(listed(jellyfin, Path=HARBOUR, Recursive="true", IsFolder="false")) == 3


def test_list_by_ids_fields_and_flags(emby: StandInEmby) -> None:
    wanted = f"{item_id(emby)},999999,{item_id(emby, SUMMER)}"
    plain = listed(emby, Ids=wanted)
    assert len(plain) == 2
    for key in ("Path", "MediaSources", "Genres", "LockData", "Overview", "ProviderIds"):
        assert key not in plain[0]
    assert {"UserData", "ImageTags", "RunTimeTicks"} <= set(plain[0])
    (rich,) = listed(
        emby,
        Ids=item_id(emby),
        Fields="Path,MediaSources,Tags,Genres,Settings",
        EnableImages="false",
        EnableUserData="false",
    )
    assert rich["Path"] == HARBOUR
    assert [source["Path"] for source in rich["MediaSources"]] == [HARBOUR]
    assert {"TagItems", "GenreItems", "LockData"} <= set(rich)
    assert not {"UserData", "ImageTags", "BackdropImageTags"} & set(rich)
    assert emby.contract_violations == []


def test_paging_and_sorting(emby: StandInEmby) -> None:
    base = {"Recursive": "true", "IsFolder": "false", "Fields": "Path,DateCreated"}
    newest = listed(emby, SortBy="DateCreated", SortOrder="Descending", **base)
    assert [item["Path"] for item in newest] == [SUMMER, LIGHTS, HARBOUR]
    # The file's own date, not the scan's.
    assert newest[2]["DateCreated"] == "2020-09-13T12:26:40.0000000Z"
    page = ask(emby, "/Items", SortBy="Path", StartIndex="1", Limit="1", **base)
    assert [item["Path"] for item in page["Items"]] == [LIGHTS]
    assert page["TotalRecordCount"] == 3
    assert call(emby, "GET", "/Items?Limit=many").status_code == 400


def test_search_is_by_title_not_by_file_name(emby: StandInEmby) -> None:
    assert len(listed(emby, SearchTerm="harbour", Recursive="true")) == 1
    assert listed(emby, SearchTerm="h", Recursive="true") == []
    assert listed(emby, SearchTerm="Harbour.mp4", Recursive="true") == []
    assert len(listed(emby, NameStartsWith="zoé -", Recursive="true")) == 1


@pytest.mark.parametrize("name", ["MinDateLastSaved", "MinDateLastSavedForUser"])
def test_list_by_date_saved(make: Make, name: str) -> None:
    emby = make()
    emby.scan_now()
    query = {"Recursive": "true", "IsFolder": "false"}
    assert len(listed(emby, **query, **{name: "2001-01-01T00:00:00Z"})) == 3
    assert listed(emby, **query, **{name: "2100-01-01T00:00:00.0000000Z"}) == []
    assert call(emby, "GET", f"/Items?{name}=yesterday").status_code == 400
    since = read(emby, item_id(emby))
    time.sleep(0.02)
    from_here = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 2))
    emby.clock_skew_seconds = 3.0
    write(emby, since)
    saved = listed(emby, **query, **{name: from_here + "Z"})
    assert [item["Id"] for item in saved] == [since["Id"]]
    broken = make(broken_date_filters=True)
    broken.scan_now()
    assert listed(broken, **query, **{name: "2001-01-01T00:00:00Z"}) == []


def test_nfd_paths(make: Make) -> None:
    emby = make(nfd_paths=True)
    emby.scan_now()
    decomposed = unicodedata.normalize("NFD", SUMMER)
    assert decomposed in emby.items_by_path()
    assert SUMMER not in emby.items_by_path()
    assert len(listed(emby, Path=decomposed, Recursive="true")) == 1
    folder = decomposed.rpartition("/")[0]
    contents = ask(emby, "/Environment/DirectoryContents", Path=folder, IncludeFiles="true")
    assert [entry["Path"] for entry in contents] == [decomposed]


def test_movie_libraries_merge_versions(make: Make, root: Path) -> None:
    emby = make(library_kind="movies")
    emby.scan_now()
    assert set(emby.items_by_path()) == {HARBOUR, SUMMER}
    merged = emby.items_by_path()[HARBOUR]
    assert merged["Type"] == "Movie"
    assert [source["Path"] for source in merged["MediaSources"]] == [HARBOUR, LIGHTS]
    earlier = root / "Jane Doe/Jane Doe - [CN] AAA-001 First.mp4"
    earlier.write_bytes(b"x")
    emby.scan_now()
    first = f"{PREFIX}/Jane Doe/{earlier.name}"
    assert emby.items_by_path()[first]["Id"] == merged["Id"]
    (root / "Jane Doe/Other.mp4").write_bytes(b"x")
    emby.scan_now()
    assert len(emby.items_by_path()) == 5


def test_home_video_libraries_do_not_merge(emby: StandInEmby) -> None:
    assert len(emby.items_by_path()) == 3
    assert emby.items_by_path()[HARBOUR]["Type"] == "Video"


def test_read_one_item(make: Make) -> None:
    emby, jellyfin = make(), make(kind="jellyfin")
    emby.scan_now()
    jellyfin.scan_now()
    item = read(emby, item_id(emby))
    assert item["Path"] == HARBOUR
    assert item["Name"] == "Jane Doe - ABC-123 Harbour"  # brackets are cut by the scan
    assert item == emby.items_by_path()[HARBOUR]
    assert call(emby, "GET", f"/Users/{VIEWER_ID}/Items/{item['Id']}").status_code == 404
    assert call(emby, "GET", f"/Users/{'f' * 32}/Items/{item['Id']}").status_code == 404
    assert emby.contract_violations == []
    assert call(emby, "GET", f"/Items/{item['Id']}").status_code == 404
    assert len(emby.contract_violations) == 1
    direct = f"/Items/{item_id(jellyfin)}"
    assert call(jellyfin, "GET", direct).status_code == 404
    assert ask(jellyfin, direct, userId=jellyfin.user_id)["Path"] == HARBOUR
    assert jellyfin.contract_violations == []


FULL = {
    "Name": "Harbour",
    "SortName": "ignored",
    "ForcedSortName": "Harbour 1",
    "OriginalTitle": "Original",
    "Overview": "Boats.",
    "PremiereDate": "2024-05-06T12:00:00.0000000Z",
    "ProductionYear": 2024,
    "People": [{"Name": "Jane Doe", "Type": "Actor", "Role": ""}],
    "Genres": ["Drama"],
    "GenreItems": [{"Name": "Drama"}],
    "Tags": ["sea"],
    "TagItems": [{"Name": "sea"}],
    "Studios": [{"Name": "North"}],
    "ProductionLocations": ["Japan"],
    "PreferredMetadataLanguage": "en",
    "PreferredMetadataCountryCode": "JP",
    "ProviderIds": {"Imdb": "tt1", "Tmdb": ""},
    "LockData": True,
    "LockedFields": ["Name"],
}


def test_update_is_stored_and_survives_a_scan(emby: StandInEmby) -> None:
    before = read(emby, item_id(emby))
    assert write(emby, before, **FULL).status_code == 204
    after = read(emby, before["Id"])
    for key in ("Name", "ForcedSortName", "Overview", "PremiereDate", "ProductionYear", "Genres"):
        assert after[key] == FULL[key]
    assert after["SortName"] == "Harbour 1"
    assert after["People"][0]["Name"] == "Jane Doe"
    assert isinstance(after["Studios"][0]["Id"], int)
    assert [tag["Name"] for tag in after["TagItems"]] == ["sea"]
    assert after["ProviderIds"] == {"Imdb": "tt1"}
    assert after["LockData"] is True
    assert after["Path"] == HARBOUR
    emby.scan_now()
    assert read(emby, before["Id"]) == after
    assert write(emby, after).status_code == 204  # what was read can be written back
    assert emby.contract_violations == []


def test_jellyfin_reads_texts_only_and_folds_the_sort_name(make: Make) -> None:
    jellyfin = make(kind="jellyfin")
    jellyfin.scan_now()
    changes = {**FULL, "GenreItems": [], "TagItems": []}
    assert write(jellyfin, read(jellyfin, item_id(jellyfin)), **changes).status_code == 204
    after = read(jellyfin, item_id(jellyfin))
    assert (after["Genres"], after["Tags"]) == (["Drama"], ["sea"])
    assert (after["ForcedSortName"], after["SortName"]) == ("Harbour 1", "harbour 1")
    assert write(jellyfin, after).status_code == 204
    wrong = [{"Name": "North", "Id": 5}]
    assert write(jellyfin, after, Studios=wrong).status_code == 400
    assert write(jellyfin, after, LockedFields=["SortName"]).status_code == 400


def test_what_is_left_out_is_cleared(make: Make) -> None:
    for kind in ("emby", "jellyfin"):
        server = make(kind=kind)
        server.scan_now()
        write(server, read(server, item_id(server)), **FULL)
        identity = item_id(server)
        body = {"Id": identity, "ProviderIds": {}}
        assert call(server, "POST", f"/Items/{identity}", json=body).status_code == 204
        after = read(server, identity)
        for key in ("Name", "Overview", "OriginalTitle", "ForcedSortName", "PremiereDate"):
            assert key not in after
        assert "ProductionYear" not in after
        assert after["LockData"] is False
        assert after["Genres"] == ([] if kind == "emby" else ["Drama"])
        assert after["People"][0]["Name"] == "Jane Doe"
        no_ids = call(server, "POST", f"/Items/{identity}", json={"Id": identity})
        assert no_ids.status_code == (500 if kind == "emby" else 204)


def test_stale_pairs_beat_changed_texts_on_emby(emby: StandInEmby) -> None:
    write(emby, read(emby, item_id(emby)), **FULL)
    item = read(emby, item_id(emby))
    write(emby, item, Genres=["Comedy"], Tags=["lake"])
    assert read(emby, item["Id"])["Genres"] == ["Drama"]
    del item["GenreItems"]
    write(emby, item, Genres=["Comedy"])
    assert read(emby, item["Id"])["Genres"] == ["Comedy"]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"ProductionYear": ""}, 400),
        ({"ProductionYear": "2024"}, 400),
        ({"ProductionYear": True}, 400),
        ({"ProductionYear": None}, 204),
        ({"PremiereDate": "2024-05-06"}, 400),
        ({"PremiereDate": "2024-13-06T00:00:00Z"}, 400),
        ({"PremiereDate": ""}, 400),
        ({"PremiereDate": "2024-05-06T00:00:00"}, 204),
        ({"PremiereDate": None}, 204),
        ({"People": [{"Name": "Jane Doe", "Type": "Actress"}]}, 400),
        ({"People": [{"Name": " ", "Type": "Actor"}]}, 400),
        ({"People": ["Jane Doe"]}, 400),
        ({"Studios": ["North"]}, 400),
        ({"Studios": [{"Name": "North", "Id": "0a"}]}, 400),
        ({"Genres": "Drama"}, 400),
        ({"GenreItems": {"Name": "Drama"}}, 400),
        ({"ProviderIds": []}, 500),
        ({"ProviderIds": None}, 500),
        ({"ProviderIds": {"Imdb": 5}}, 400),
        ({"LockData": "true"}, 400),
        ({"LockedFields": ["Everything"]}, 400),
        ({"Name": 5}, 400),
        ({"CommunityRating": "high"}, 400),
        ({"Id": "31337"}, 400),
    ],
)
def test_update_types_are_strict(emby: StandInEmby, changes: dict[str, Any], status: int) -> None:
    item = read(emby, item_id(emby))
    answer = call(emby, "POST", f"/Items/{item['Id']}", json={**item, **changes})
    assert answer.status_code == status
    if status != 204:
        assert read(emby, item["Id"]) == item


def test_update_of_bad_bodies_unknown_items_and_folders(emby: StandInEmby) -> None:
    path = f"/Items/{item_id(emby)}"
    json_type = {"Content-Type": "application/json"}
    assert call(emby, "POST", path, data="{", headers=json_type).status_code == 400
    assert call(emby, "POST", path, data="[]", headers=json_type).status_code == 400
    assert call(emby, "POST", path, data="{}").status_code == 400
    assert call(emby, "POST", "/Items/777", json={}).status_code == 404
    assert emby.contract_violations == []
    write(emby, listed(emby, ParentId="4")[0], ProviderIds={})
    assert "writes to a folder" in emby.contract_violations[0]


def test_dropped_updates(emby: StandInEmby) -> None:
    item = read(emby, item_id(emby))
    emby.drop_updates(1)
    assert write(emby, item, Name="one").status_code == 204
    assert read(emby, item["Id"]) == item
    write(emby, item, Name="two")
    assert read(emby, item["Id"])["Name"] == "two"


def test_late_save_overwrites_the_name_once(make: Make) -> None:
    emby = make(late_save_seconds=0.2)
    emby.scan_now()
    item = read(emby, item_id(emby))
    write(emby, item, Name="mine", Overview="kept")
    assert read(emby, item["Id"])["Name"] == "mine"
    time.sleep(0.25)
    late = read(emby, item["Id"])
    assert (late["Name"], late["Overview"]) == (item["Name"] + LATE_NAME_ENDING, "kept")
    write(emby, item, Name="mine")
    time.sleep(0.25)
    assert read(emby, item["Id"])["Name"] == "mine"


def upload(
    server: StandInEmby, image_type: str, body: bytes, content_type: str = "image/jpeg"
) -> requests.Response:
    path = f"/Items/{item_id(server)}/Images/{image_type}"
    return call(server, "POST", path, data=body, headers={"Content-Type": content_type})


def test_images_are_uploaded_as_base64_and_listed(emby: StandInEmby) -> None:
    identity = item_id(emby)
    first, second = jpeg("first"), jpeg("second")
    for body in (first, second):
        assert upload(emby, "Primary", base64.b64encode(body)).status_code == 204
        assert upload(emby, "Backdrop", base64.encodebytes(body)).status_code == 204
    assert upload(emby, "Backdrop/0", base64.b64encode(png()), "image/png").status_code == 204
    assert emby.images(identity) == {"Primary": [second], "Backdrop": [first, second, png()]}
    entries = ask(emby, f"/Items/{identity}/Images")
    assert [(e["ImageType"], e.get("ImageIndex")) for e in entries] == [
        ("Primary", None),
        ("Backdrop", 0),
        ("Backdrop", 1),
        ("Backdrop", 2),
    ]
    assert (entries[0]["Width"], entries[0]["Height"]) == (16, 24)
    assert entries[0]["Size"] == len(second)
    assert entries[3]["Filename"].endswith(".png")
    item = read(emby, identity)
    assert set(item["ImageTags"]) == {"Primary"}
    assert len(set(item["BackdropImageTags"])) == 3
    stored = call(emby, "GET", f"/Items/{identity}/Images/Backdrop/1")
    assert (stored.content, stored.headers["Content-Type"]) == (second, "image/jpeg")
    assert emby.contract_violations == []


def test_bad_uploads(emby: StandInEmby) -> None:
    good = base64.b64encode(jpeg())
    assert upload(emby, "Primary", jpeg()).status_code == 400
    assert upload(emby, "Primary", b"data:image/jpeg;base64," + good).status_code == 400
    assert upload(emby, "Primary", b"").status_code == 400
    assert upload(emby, "Primary", base64.b64encode(b"<html>")).status_code == 400
    assert upload(emby, "Primary", good, "application/octet-stream").status_code == 400
    assert upload(emby, "Poster", good).status_code == 400
    assert emby.images(item_id(emby)) == {}
    assert emby.contract_violations == []
    assert upload(emby, "Primary", good, "image/png").status_code == 204
    assert "Content-Type is not the picture's" in emby.contract_violations[0]


def test_deleting_images_shifts_the_rest(make: Make) -> None:
    emby, jellyfin = make(), make(kind="jellyfin")
    for server in (emby, jellyfin):
        server.scan_now()
        for label in "abcd":
            upload(server, "Backdrop", base64.b64encode(jpeg(label)))
    path = f"/Items/{item_id(emby)}/Images/Backdrop"
    assert call(emby, "DELETE", f"{path}/0").status_code == 204
    assert call(emby, "DELETE", f"{path}/1").status_code == 204
    left = emby.images(item_id(emby))["Backdrop"]
    assert [jpeg_label(image) for image in left] == ["b", "d"]
    assert call(emby, "DELETE", f"{path}/2").status_code == 404
    assert call(emby, "DELETE", f"{path}/first").status_code == 400
    assert call(emby, "DELETE", f"{path}?Index=1").status_code == 204
    assert call(emby, "POST", f"{path}/0/Delete").status_code == 204
    assert emby.images(item_id(emby)) == {}
    assert call(emby, "POST", f"{path}/Delete").status_code == 404
    path = f"/Items/{item_id(jellyfin)}/Images/Backdrop"
    assert call(jellyfin, "DELETE", f"{path}?imageIndex=3").status_code == 204
    assert call(jellyfin, "DELETE", f"{path}/3").status_code == 204
    assert len(jellyfin.images(item_id(jellyfin))["Backdrop"]) == 3
    assert emby.contract_violations == jellyfin.contract_violations == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/Items/{id}"),
        ("DELETE", "/emby/Items/{id}"),
        ("DELETE", "/items/{id}/"),
        ("DELETE", "/Items//{id}"),
        ("DELETE", "/Items?Ids={id}"),
        ("POST", "/Items/{id}/Delete"),
        ("POST", "/Items/Delete?Ids={id}"),
        ("POST", "/Items/Metadata/Reset"),
    ],
)
def test_deleting_media_is_refused_and_recorded(
    emby: StandInEmby, root: Path, method: str, path: str
) -> None:
    target = path.replace("{id}", item_id(emby))
    assert call(emby, method, target).status_code == 500
    emby.fail(404, match="/")
    call(emby, method, target)
    assert emby.forbidden_calls == [f"{method} {target}"] * 2
    emby.heal()
    emby.scan_now()
    assert len(emby.items_by_path()) == 3
    assert (root / "Jane Doe/Jane Doe - [No Sub] ABC-123 Harbour.mp4").exists()


def test_empty_segments_are_never_accepted(emby: StandInEmby) -> None:
    identity = item_id(emby)
    for method, path in (
        ("DELETE", f"/Items/{identity}/Images//0"),
        ("DELETE", f"/Items/{identity}/Images/Primary/"),
        ("POST", "/Items//Refresh"),
        ("GET", "/Items/"),
        ("GET", "//Items"),
        ("GET", f"/Users//Items/{identity}"),
    ):
        # Sent by hand: requests would tidy some of these.
        with socket.create_connection(("127.0.0.1", int(emby.base_url.rpartition(":")[2]))) as raw:
            head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nX-Emby-Token: {KEY}\r\n"
            raw.sendall((head + "Content-Length: 0\r\n\r\n").encode())
            assert raw.recv(100).split()[1] == b"400"
        assert emby.contract_violations.pop() == f"{method} {path}: not in the route table"


def test_contract_violations_of_queries(emby: StandInEmby) -> None:
    for query, word in (
        ("Flavour=x", "unknown query parameter Flavour"),
        ("recursive=true", "unknown query parameter recursive"),
        ("EnableTotalRecordCount=false", "unknown query parameter"),
        ("Recursive=True", "instead of true or false"),
        ("Fields=Path,GenreItems", "unknown field GenreItems"),
        ("SortBy=Colour", "cannot sort by Colour"),
    ):
        call(emby, "GET", f"/Items?{query}")
        assert word in emby.contract_violations.pop()
        assert emby.contract_violations == []
    call(emby, "GET", "/Items/4/Ancestors")
    assert "not in the route table" in emby.contract_violations.pop()


def test_counts_are_per_route_and_include_failed_requests(emby: StandInEmby) -> None:
    listed(emby, ParentId="4")
    ask(emby, "/emby/Items")
    emby.fail(503, match="/Items", times=1)
    call(emby, "GET", "/emby/Items")
    read(emby, item_id(emby))
    call(emby, "GET", "/nowhere")
    assert emby.counts() == {"list_items": 3, "read_item": 1, "unknown": 1}
    emby.forget_requests()
    assert emby.counts() == {}


def test_directory_contents(emby: StandInEmby, root: Path) -> None:
    (root.parent / "secret").mkdir()
    path = "/Environment/DirectoryContents"
    assert ask(emby, path, Path=PREFIX, IncludeFiles="true") == []
    found = ask(emby, path, Path=PREFIX, IncludeDirectories="true")
    assert {"Name": "Zoé", "Path": f"{PREFIX}/Zoé", "Type": "Directory"} in found
    found = ask(emby, path, Path=f"{PREFIX}/Zoé/", IncludeFiles="true")
    assert found == [{"Name": SUMMER.rpartition("/")[2], "Path": SUMMER, "Type": "File"}]
    for outside in ("/etc", f"{PREFIX}/../secret", f"{PREFIX}/nobody", PREFIX + "x"):
        assert call(emby, "GET", path, params={"Path": outside}).status_code == 404
    assert call(emby, "GET", path).status_code == 400


def test_route_table_agrees_with_the_official_contract() -> None:
    facts = os.environ.get("EMBYPROC_FACTS")
    folder = Path(facts) if facts else Path(__file__).resolve().parents[3] / "shared" / "facts"
    contract = folder / "emby-openapi.json"
    if not contract.exists():
        pytest.skip("the contract file is not here")
    paths = json.loads(contract.read_text())["paths"]
    official = {
        (method.upper(), re.sub(r"\{\w+\}", "{}", path)): {
            parameter["name"]
            for parameter in operation.get("parameters", [])
            if parameter["in"] == "query"
        }
        for path, operations in paths.items()
        for method, operation in operations.items()
        if isinstance(operation, dict)
    }
    operations = (folder / "emby-operations.txt").read_text().splitlines()
    checked = 0
    for route in ROUTES:
        if route.beyond_contract:
            assert f"{route.method} {route.template}" in operations
        elif "emby" in route.servers and "emby" not in route.unofficial_on:
            key = (route.method, re.sub(r"\{\w+\}", "{}", route.template))
            assert key in official, key
            assert set(route.parameters("emby")) <= official[key], key
            checked += 1
    assert checked > 20
