"""Pictures: judged by their content, replaced with care, and never an item's failure."""

import json

import pytest
from installation import Installation, entry
from shown import NAME, kinds, server

from embyproc.demo.messages import Reply
from embyproc.demo.pictures import jpeg, png
from embyproc.models import Status


def test_running_again_leaves_one_picture_of_each_kind(with_emby: Installation) -> None:
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    with_emby.emby_run()
    item = with_emby.item("ABC-123.mp4")
    for _ in range(2):
        with_emby.store.upkeep.reset(item.id)
        with_emby.process()
        assert with_emby.emby_run().succeeded == 1
    assert kinds(with_emby, item.emby_item_id or "") == ["Backdrop", "Banner", "Primary"]


def test_pictures_again_by_hand(with_emby: Installation) -> None:
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    with_emby.site.fail("html200", match="/crop/")
    with_emby.emby_run()
    item = with_emby.item("ABC-123.mp4")
    assert item.status is Status.COMPLETED
    assert item.warnings == ["picture: the answer is no picture (status 200)"]
    assert kinds(with_emby, item.emby_item_id or "") == []
    shown_item = with_emby.command("show", str(item.id)).stdout
    assert "the answer is no picture" in shown_item
    with_emby.site.heal()
    done = with_emby.command("emby", "--images", str(item.id))
    assert done.returncode == 0, done.stderr
    assert kinds(with_emby, item.emby_item_id or "") == ["Backdrop", "Banner", "Primary"]
    assert with_emby.item("ABC-123.mp4").warnings == []
    assert with_emby.command("emby", "--images", "99").returncode == 2


def test_a_plan_of_pictures_changes_nothing(with_emby: Installation) -> None:
    with_emby.put("ABC-123.mp4", "ABC-125.mp4")
    with_emby.file_everything()
    with_emby.emby_run()
    ids = [str(item.id) for item in with_emby.store.looks.find()]
    server(with_emby).forget_requests()
    done = with_emby.command("emby", "--images", *ids, "--limit", "1", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("pictures, once more") == 1
    assert server(with_emby).counts() == {}
    done = with_emby.command("emby", "--images", *ids, "--once", "--json")
    assert json.loads(done.stdout)["succeeded"] == 1


@pytest.mark.parametrize("root", ["/mnt/library", "/somewhere/else"])
@pytest.mark.parametrize("poster", ["ABC-123-poster.jpg", "folder.jpg"])
def test_somebodys_pictures_beside_a_film_stay(
    with_emby: Installation, root: str, poster: str
) -> None:
    """Emby deletes the file of a picture with the picture, and when it is replaced."""
    picture = jpeg("mine")
    with_emby.variables["EMBY_LIBRARY_PATH"] = root
    with_emby.put("ABC-123.mp4")
    with_emby.put("ABC-123-fanart.jpg", content=picture)
    if poster == "folder.jpg":
        (with_emby.destination / "Jane Doe").mkdir()
        (with_emby.destination / "Jane Doe" / poster).write_bytes(picture)
    else:
        with_emby.put(poster, content=picture)
    with_emby.file_everything()
    before = with_emby.filed()
    assert len(before) == 3
    stay = "the picture that lies beside the film stays"
    for _ in range(2):
        assert with_emby.emby_run().succeeded == 1
        assert with_emby.filed() == before
        item = with_emby.item("ABC-123.mp4")
        assert item.warnings == [f"Backdrop: {stay}", f"Primary: {stay}"]
        assert kinds(with_emby, item.emby_item_id or "") == ["Backdrop", "Banner", "Primary"]
        with_emby.store.upkeep.reset(item.id)
        with_emby.process()


def test_pictures_that_the_server_keeps_beside_the_film_are_renewed(
    with_emby: Installation,
) -> None:
    """As with its option to save pictures there: the names are made from the film's."""
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    for ending in ("-poster.jpg", "-fanart.jpg"):
        (with_emby.destination / "Jane Doe" / f"{NAME}{ending}").write_bytes(jpeg("old"))
    assert with_emby.emby_run().succeeded == 1
    item = with_emby.item("ABC-123.mp4")
    assert item.warnings == []
    assert kinds(with_emby, item.emby_item_id or "") == ["Backdrop", "Banner", "Primary"]


@pytest.mark.parametrize(
    ("body", "warning"),
    [
        (b"", "picture: the answer was empty (status 404)"),
        (b"<html>", "picture: the answer is no picture (status 404)"),
        (jpeg("x")[:-40], "picture: the picture is broken"),
        (b"\0" * 21_000_000, "picture: The picture answered with more than 20971520 bytes"),
    ],
)
def test_bad_pictures_are_warnings(with_emby: Installation, body: bytes, warning: str) -> None:
    with_emby.site.put_picture("abc123.jpg", body)
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    assert with_emby.emby_run().succeeded == 1
    item = with_emby.item("ABC-123.mp4")
    assert item.warnings is not None
    assert item.warnings[0].startswith(warning)


def test_a_png_that_says_it_is_a_jpeg(with_emby: Installation) -> None:
    with_emby.site.put_picture("abc123.jpg", png("x"), "image/jpeg")
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    assert with_emby.emby_run().succeeded == 1
    uploads = [r for r in server(with_emby).requests if "/Images/" in r.path]
    assert {r.header("Content-Type") for r in uploads} == {"image/png"}


def test_a_picture_host_that_does_not_exist_and_one_that_is_not_ours(
    with_emby: Installation,
) -> None:
    """No token leaves for another server than that of the API."""
    from embyproc.demo.wordpress import StandInWordPress

    with StandInWordPress({}, token="other") as stranger:
        stranger.put_picture("pic.jpg", jpeg("x"))
        for catalogue in with_emby.site._catalogues.values():
            catalogue["ABC-123"] = entry("x", image_cropped=f"{stranger.base_url}/plain/pic.jpg")
            catalogue["ABC-125"] = entry("y", image_cropped="http://no-such-host.invalid/x.jpg")
        with_emby.put("ABC-123.mp4", "ABC-125.mp4")
        with_emby.file_everything()
        assert with_emby.emby_run().succeeded == 2
        assert stranger.requests
        assert all(r.header("Authorization") == "" for r in stranger.requests)
    (warning, *_) = with_emby.item("ABC-125.mp4").warnings or [""]
    assert warning.startswith("picture: The picture at no-such-host.invalid cannot be reached")


def test_a_refused_upload_is_a_warning(with_emby: Installation) -> None:
    server(with_emby).fail(500, match=lambda r: r.method == "POST" and "/Images/" in r.path)
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    assert with_emby.emby_run().succeeded == 1
    assert with_emby.item("ABC-123.mp4").warnings == ["pictures: Emby answered 500 to a picture"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999/x.jpg", "http://[::1/x.jpg", "x.jpg"])
def test_an_address_of_a_picture_that_is_none_is_a_warning(
    with_emby: Installation, url: str
) -> None:
    for catalogue in with_emby.site._catalogues.values():
        catalogue["ABC-123"] = entry("ABC-123 The Quiet Garden", image_cropped=url)
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    assert with_emby.emby_run().succeeded == 1
    item = with_emby.item("ABC-123.mp4")
    assert (item.warnings or [""])[0].startswith("picture: ")
    assert with_emby.command("emby", "--images", str(item.id)).returncode == 0


@pytest.mark.parametrize("body", [b"<html>", b"", b'[{"ImageType": "Primary", "ImageIndex": "x"}]'])
def test_an_odd_list_of_pictures_fails_no_item(with_emby: Installation, body: bytes) -> None:
    odd = Reply(status=200, body=body, content_type="application/json")
    server(with_emby).fail(odd, match=lambda r: r.method == "GET" and r.path.endswith("/Images"))
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    assert with_emby.emby_run().succeeded == 1
