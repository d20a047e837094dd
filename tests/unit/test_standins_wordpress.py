"""The stand-in WordPress answers as the facts say, awkward sides included."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from embyproc.demo import Quirks, StandInWordPress
from embyproc.demo.pictures import jpeg_label, picture_type, png

TIMEOUT = 5
ENTRY = {
    "title": "ABC-123 A Quiet/Harbour é",
    "overview": "Boats.",
    "release_date": "2024-05-06",
    "actress": ["Jane Doe", "Ann Roe (A. R., Annie)"],
    "genre": ["Drama", "Sea"],
    "label": ["North", "South"],
    "image_cropped": "{base}/crop/abc-123.jpg?w=400&horizontal=1&v=2",
    "raw_image_url": "{base}/plain/abc-123.jpg",
}


@pytest.fixture
def site() -> Iterator[StandInWordPress]:
    with StandInWordPress({"ABC-123": ENTRY}, per_source={"javguru": {"XYZ-9": {}}}) as server:
        yield server
    assert not server.errors


def search(
    site: StandInWordPress, path: str = "/missav/search", code: Any = "ABC-123", token: str = ""
) -> requests.Response:
    return requests.post(
        site.api_url + path,
        json={"moviecode": code},
        headers={"Authorization": f"Bearer {token or site.token}"},
        timeout=TIMEOUT,
    )


def refresh(site: StandInWordPress, token: str, refresh_token: str) -> requests.Response:
    return requests.post(
        site.refresh_url,
        json={"token": refresh_token},
        headers={"Authorization": f"Bearer {token}"},
        timeout=TIMEOUT,
    )


def test_found(site: StandInWordPress) -> None:
    answer = search(site, code="abc-123")
    assert answer.headers["Content-Type"] == "application/json; charset=UTF-8"
    assert "Quiet\\/Harbour \\u00e9" in answer.text
    body = answer.json()
    assert (body["success"], body["source"]) == (True, "missav")
    data = body["data"]
    assert data["movie_code"] == "ABC-123"
    assert data["actress"] == ENTRY["actress"]
    assert data["genre"] == ["Drama", "Sea"]
    assert data["label"] == "North, South"
    assert data["raw_image_url"] == f"{site.base_url}/plain/abc-123.jpg"
    assert "original_title" not in data


def test_sources_have_their_own_catalogue_and_the_server_can_pick(site: StandInWordPress) -> None:
    assert not search(site, "/javguru/search").json()["success"]
    assert search(site, "/javguru/search", "XYZ-9").json()["success"]
    assert search(site, "/search", "XYZ-9").json()["source"] == "javguru"
    assert search(site, "/search").json()["source"] == "missav"
    assert not search(site, "/search", "NOPE-1").json()["success"]


def test_not_found_in_three_forms(site: StandInWordPress) -> None:
    answer = search(site, code="NOPE-1")
    assert (answer.status_code, answer.json()["success"]) == (200, False)
    site.quirks = Quirks(not_found="data_null")
    assert search(site, code="NOPE-1").json() == {"success": True, "source": "missav", "data": None}
    site.quirks = Quirks(not_found="data_empty")
    assert search(site, code="NOPE-1").json()["data"] == []


def test_field_quirks(site: StandInWordPress) -> None:
    site.quirks = Quirks(genre="string", label="list", actress="string", unknown="null")
    data = search(site).json()["data"]
    assert data["genre"] == "Drama, Sea"
    assert data["label"] == ["North", "South"]
    assert data["actress"] == "Jane Doe, Ann Roe (A. R., Annie)"
    assert data["original_title"] is None
    site.quirks = Quirks(unknown="empty_list")
    assert search(site).json()["data"]["original_title"] == []
    site.quirks = Quirks(unknown="empty_string")
    assert search(site).json()["data"]["original_title"] == ""


def test_answer_for_another_code() -> None:
    with StandInWordPress({"ABC-123": {"movie_code": "ABD-123", "title": 5}}) as site:
        data = search(site).json()["data"]
    assert data == {"movie_code": "ABD-123", "title": 5}


def test_401_comes_before_routing(site: StandInWordPress) -> None:
    for path in ("/missav/search", "/no/such/route", "//missav/search"):
        answer = search(site, path, token="wrong")
        assert answer.status_code == 401
        assert answer.json()["data"] == {"status": 401}
        assert set(answer.json()) == {"code", "message", "data"}
    site.quirks = Quirks(refused_status=403)
    answer = search(site, token="wrong")
    assert (answer.status_code, answer.json()["code"]) == (403, "jwt_auth_invalid_token")


def test_wrong_method_source_or_double_slash_is_no_route(site: StandInWordPress) -> None:
    headers = {"Authorization": f"Bearer {site.token}"}
    answers = [
        requests.get(f"{site.api_url}/missav/search", headers=headers, timeout=TIMEOUT),
        requests.get(site.refresh_url, headers=headers, timeout=TIMEOUT),
        search(site, "//missav/search"),
        search(site, "/missav//search"),
        search(site, "/nowhere/search"),
    ]
    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (404, "rest_no_route")


def test_wrong_base_url_is_a_big_html_page(site: StandInWordPress) -> None:
    answer = requests.post(f"{site.base_url}/emby/v1/search", json={}, timeout=TIMEOUT)
    assert (answer.status_code, answer.headers["Content-Type"][:9]) == (404, "text/html")
    assert len(answer.content) >= 40_000


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b'{"moviecode": "ABC-123"}', "text/plain", "rest_missing_callback_param"),
        (b"{}", "application/json", "rest_missing_callback_param"),
        (b"{", "application/json", "rest_invalid_json"),
        (b'{"moviecode": 5}', "application/json", "rest_invalid_param"),
        (b'{"moviecode": "A-1", "fresh": 1}', "application/json", "rest_invalid_param"),
    ],
)
def test_bad_searches(site: StandInWordPress, body: bytes, content_type: str, code: str) -> None:
    headers = {"Authorization": f"Bearer {site.token}", "Content-Type": content_type}
    url = f"{site.api_url}/missav/search"
    answer = requests.post(url, data=body, headers=headers, timeout=TIMEOUT)
    assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_refresh_issues_a_token_and_kills_the_old_one(site: StandInWordPress) -> None:
    old = site.token
    assert refresh(site, old, "wrong").status_code == 401
    assert site.refresh_count == 0
    answer = refresh(site, old, site.refresh_token).json()
    assert answer == {"access_token": site.token, "expires_in": 86400}
    assert site.token != old
    assert search(site, token=old).status_code == 401
    assert search(site).status_code == 200
    assert site.refresh_count == 1


@pytest.mark.parametrize(("strict", "expected"), [(False, 200), (True, 401)])
def test_refresh_with_a_replaced_token(strict: bool, expected: int) -> None:
    quirks = Quirks(refresh_refuses_dead_token=strict)
    with StandInWordPress({"ABC-123": ENTRY}, quirks=quirks) as site:
        old = site.token
        refresh(site, old, site.refresh_token)
        assert refresh(site, old, site.refresh_token).status_code == expected
        body = {"token": site.refresh_token}
        assert requests.post(site.refresh_url, json=body, timeout=TIMEOUT).status_code == 200


def test_an_expired_token_still_gets_its_successor(site: StandInWordPress) -> None:
    site.expire_token()
    assert search(site).status_code == 401
    assert refresh(site, site.token, site.refresh_token).status_code == 200
    assert search(site).status_code == 200


def test_tokens_die_by_themselves() -> None:
    with StandInWordPress({"ABC-123": ENTRY}, token_lifetime_seconds=0.2) as site:
        assert search(site).status_code == 200
        time.sleep(0.25)
        assert search(site).status_code == 401


def test_crop_answers_404_with_a_picture_and_needs_the_token(site: StandInWordPress) -> None:
    url = search(site).json()["data"]["image_cropped"]
    headers = {"Authorization": f"Bearer {site.token}"}
    assert requests.get(url, timeout=TIMEOUT).status_code == 401
    answer = requests.get(url, headers=headers, timeout=TIMEOUT)
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, "image/jpeg")
    assert jpeg_label(answer.content) == "crop abc-123.jpg horizontal=1&v=2&w=400"
    wide = requests.get(
        site.base_url + "/crop/abc-123.jpg?w=800&v=2", headers=headers, timeout=TIMEOUT
    )
    assert jpeg_label(wide.content) == "crop abc-123.jpg v=2&w=800"
    missing = requests.get(
        site.base_url + "/crop/nothing.jpg?w=800", headers=headers, timeout=TIMEOUT
    )
    assert (missing.status_code, missing.headers["Content-Type"][:9]) == (404, "text/html")


def test_plain_pictures_need_no_token_and_any_bytes_can_be_put(site: StandInWordPress) -> None:
    answer = requests.get(site.base_url + "/plain/abc-123.jpg", timeout=TIMEOUT)
    assert (answer.status_code, picture_type(answer.content)) == (200, "image/jpeg")
    assert requests.get(site.base_url + "/plain/nothing.jpg", timeout=TIMEOUT).status_code == 404
    site.put_picture("odd.jpg", png("odd"), "image/jpeg")
    assert requests.get(site.base_url + "/plain/odd.jpg", timeout=TIMEOUT).content == png("odd")
