"""Samples, pictures, and what both stand-in servers share: transport, request log, faults."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from embyproc.demo import Reply, Request, StandInServer, tiny_mp4
from embyproc.demo.messages import json_reply
from embyproc.demo.pictures import jpeg, jpeg_label, picture_size, picture_type, png

TIMEOUT = 5


# --- samples and pictures


def boxes(data: bytes) -> dict[str, bytes]:
    found = {}
    while data:
        size, kind = struct.unpack(">I4s", data[:8])
        assert 8 <= size <= len(data)
        found[kind.decode()] = data[8:size]
        data = data[size:]
    return found


def test_mp4_boxes_are_well_formed_and_the_frame_is_where_the_table_says() -> None:
    video = tiny_mp4(7)
    assert list(boxes(video)) == ["ftyp", "moov", "mdat"]
    track = boxes(boxes(video)["moov"])["trak"]
    table = boxes(boxes(boxes(boxes(track)["mdia"])["minf"])["stbl"])
    (offset,) = struct.unpack(">I", table["stco"][8:12])
    (length,) = struct.unpack(">I", table["stsz"][12:16])
    assert jpeg_label(video[offset : offset + length]) == "frame 000000000007"


def test_mp4_differs_by_seed_and_has_the_size_asked_for() -> None:
    assert tiny_mp4(1) == tiny_mp4(1) != tiny_mp4(2)
    assert len(tiny_mp4(1)) == len(tiny_mp4(999)) < 2000
    padded = tiny_mp4(1, 100_000)
    assert len(padded) == 100_000
    assert "free" in boxes(padded)
    assert padded != tiny_mp4(2, 100_000)
    with pytest.raises(ValueError, match="size"):
        tiny_mp4(1, 100)


def test_pictures_tell_their_type_size_and_label() -> None:
    assert jpeg("one") != jpeg("two")
    assert jpeg_label(jpeg("crop é")) == "crop é"
    assert jpeg_label(jpeg()) == ""
    assert (picture_type(jpeg("x")), picture_size(jpeg("x"))) == ("image/jpeg", (16, 24))
    assert (picture_type(png("x", 5, 7)), picture_size(png("x", 5, 7))) == ("image/png", (5, 7))
    assert picture_type(b"<html>") == ""
    assert picture_size(b"<html>") is None


def test_png_chunks_have_right_checksums_and_enough_pixels() -> None:
    data, pixels = png("x", 5, 7)[8:], b""
    while data:
        (length,) = struct.unpack(">I", data[:4])
        body = data[4 : 8 + length]
        (checksum,) = struct.unpack(">I", data[8 + length : 12 + length])
        assert zlib.crc32(body) == checksum
        pixels += zlib.decompress(body[4:]) if body[:4] == b"IDAT" else b""
        data = data[12 + length :]
    assert len(pixels) == 7 * (1 + 5 * 3)


# --- the base


class Echo(StandInServer):
    """Answers what it was asked, and counts."""

    effects = 0

    def respond(self, request: Request) -> Reply:
        self.effects += 1
        if request.path == "/broken":
            raise KeyError("a mistake")
        if request.path == "/none":
            return Reply(status=204)
        body = request.body.decode()
        return json_reply({"path": request.path, "body": body, "ok": True, "n": 1, "l": ["a"]})


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as server:
        yield server
    assert not server.errors


def get(server: StandInServer, path: str = "/", **more: Any) -> requests.Response:
    return requests.get(server.base_url + path, timeout=TIMEOUT, **more)


def test_requests_are_logged_with_everything(echo: Echo) -> None:
    url = echo.base_url + "/a%20b?x=1&y=%C3%A9&z="
    requests.post(url, data=b"\x00\xff"[:1], headers={"X-Test": "t"}, timeout=TIMEOUT)
    (record,) = echo.requests
    assert (record.method, record.path, record.status) == ("POST", "/a b", 200)
    assert record.query == {"x": "1", "y": "é", "z": ""}
    assert record.headers["X-Test"] == record.header("x-test") == "t"
    assert record.body == b"\x00"
    with pytest.raises(AttributeError):
        record.status = 1  # type: ignore[misc]
    echo.forget_requests()
    assert echo.requests == []


def test_one_connection_serves_many_requests(echo: Echo) -> None:
    with requests.Session() as session:
        for method in ("GET", "POST", "HEAD", "DELETE", "PUT"):
            answer = session.request(method, echo.base_url + "/x", data="b", timeout=TIMEOUT)
            assert answer.status_code == 200
        assert session.get(echo.base_url + "/none", timeout=TIMEOUT).status_code == 204
        pools = session.get_adapter(echo.base_url).poolmanager.pools  # type: ignore[attr-defined]
        (key,) = pools.keys()
        assert pools[key].num_connections == 1


def test_chunked_in_both_directions(echo: Echo) -> None:
    echo.send_content_length = False
    parts = (part for part in (b"one", b"two"))
    answer = requests.post(echo.base_url, data=parts, timeout=TIMEOUT)
    assert "Content-Length" not in answer.headers
    assert answer.json()["body"] == "onetwo"


def test_latency_and_clock_are_as_told(echo: Echo) -> None:
    echo.latency_seconds = 0.15
    echo.clock_skew_seconds = 86400 * 400
    start = time.monotonic()
    answer = get(echo)
    assert 0.15 <= time.monotonic() - start < 1
    assert str(time.gmtime(echo.now()).tm_year) in answer.headers["Date"]


def test_requests_at_once_are_served_at_once(echo: Echo) -> None:
    echo.latency_seconds = 0.3
    threads = [threading.Thread(target=get, args=(echo,)) for _ in range(8)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - start < 1.2
    assert echo.max_in_flight == 8
    assert len(echo.requests) == 8


def test_stop_is_an_outage_also_for_open_connections_and_start_ends_it() -> None:
    server = Echo().start()
    url = server.base_url
    session = requests.Session()
    session.get(url, timeout=TIMEOUT)
    start = time.monotonic()
    server.stop()
    server.stop()
    assert time.monotonic() - start < 1
    with pytest.raises(requests.ConnectionError):
        session.get(url, timeout=TIMEOUT)
    server.start()
    assert server.base_url == url
    assert session.get(url, timeout=TIMEOUT).ok
    server.stop()
    session.close()


def test_stop_does_not_wait_for_a_slow_answer() -> None:
    server = Echo(latency_seconds=30).start()
    outcome = []

    def hang() -> None:
        with pytest.raises(requests.ConnectionError) as caught:
            get(server)
        outcome.append(caught.value)

    hanging = threading.Thread(target=hang)
    hanging.start()
    while not server.requests:
        time.sleep(0.01)
    start = time.monotonic()
    server.stop()
    assert time.monotonic() - start < 1
    hanging.join(2)
    assert outcome


def test_never_started_has_no_address_and_a_mistake_is_kept_not_printed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(RuntimeError):
        _ = Echo().base_url
    with Echo() as server:
        assert get(server, "/broken").status_code == 500
        assert server.errors == ["KeyError: 'a mistake'"]
        with socket.create_connection(
            ("127.0.0.1", int(server.base_url.rpartition(":")[2]))
        ) as raw:
            raw.sendall(b"nonsense\r\n\r\n")
            raw.recv(100)
    assert capfd.readouterr() == ("", "")


# --- faults


@pytest.mark.parametrize(
    ("status", "retry_after"), [(500, None), (503, "600"), (429, "30"), (404, None), (403, None)]
)
def test_status_faults_are_html_pages(echo: Echo, status: int, retry_after: str | None) -> None:
    echo.fail(status)
    answer = get(echo, headers={"Accept": "application/json", "X-Secret": "hush"})
    assert answer.status_code == status
    assert answer.headers["Content-Type"].startswith("text/html")
    assert answer.headers.get("Retry-After") == retry_after
    assert "hush" in answer.text  # a client that quotes error bodies is to be caught
    assert echo.effects == 0
    assert echo.requests[0].status == status
    echo.heal()
    assert get(echo).ok


def test_retry_after_can_be_chosen_and_a_ready_reply_served(echo: Echo) -> None:
    echo.fail(503, retry_after="7", times=1)
    assert get(echo).headers["Retry-After"] == "7"
    echo.fail(Reply(status=500, body=b'{"code":"x"}', content_type="application/json"), times=1)
    assert get(echo).json() == {"code": "x"}


def test_html200_big_and_empty(echo: Echo) -> None:
    echo.fail("html200", times=1)
    answer = get(echo)
    assert (answer.status_code, answer.headers["Content-Type"][:9]) == (200, "text/html")
    echo.fail("big", times=1)
    answer = get(echo)
    assert answer.status_code == 404
    assert 40_000 <= len(answer.content) < 41_000
    echo.fail("big", times=1, status=500)
    assert get(echo).status_code == 500
    echo.fail("empty", times=1)
    answer = get(echo)
    assert (answer.status_code, answer.content) == (200, b"")


def test_truncated_json_has_the_length_of_what_is_sent(echo: Echo) -> None:
    whole = get(echo).content
    echo.fail("truncated")
    answer = get(echo)
    assert answer.content == whole[: len(whole) // 2]
    assert int(answer.headers["Content-Length"]) == len(answer.content)
    with pytest.raises(ValueError):
        json.loads(answer.content)
    assert get(echo, "/none").status_code == 204


def test_wrong_types_spoil_the_leaves(echo: Echo) -> None:
    echo.fail("wrong_types")
    spoilt = {"path": ["/"], "body": [""], "ok": "yes", "n": "1", "l": {"0": ["a"]}}
    assert get(echo).json() == spoilt


def test_reset_sends_rst_and_is_logged(echo: Echo) -> None:
    echo.fail("reset", times=1)
    with pytest.raises(requests.ConnectionError) as caught:
        get(echo)
    assert "ConnectionResetError" in repr(caught.value)
    assert echo.requests[0].status == 0
    assert echo.effects == 0
    echo.fail("reset", times=1, after=True)
    with pytest.raises(requests.ConnectionError):
        get(echo)
    assert echo.effects == 1
    assert get(echo).ok


def test_slow_takes_effect_before_the_client_gives_up(echo: Echo) -> None:
    echo.fail("slow", seconds=0.5, times=2)
    with pytest.raises(requests.Timeout):
        requests.get(echo.base_url, timeout=0.1)
    assert echo.effects == len(echo.requests) == 1
    start = time.monotonic()
    assert get(echo).ok
    assert time.monotonic() - start >= 0.5


def test_redirect_leads_somewhere(echo: Echo) -> None:
    echo.fail("redirect")
    answer = requests.post(echo.base_url, allow_redirects=False, timeout=TIMEOUT)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/redirected")
    followed = requests.post(echo.base_url, timeout=TIMEOUT)
    assert followed.json()["path"] == "/redirected"
    assert echo.requests[-1].method == "GET"


def test_faults_by_count_prefix_test_and_order(echo: Echo) -> None:
    echo.fail(500, times=2, match="/a")
    echo.fail(404, match=lambda request: request.method == "POST")
    statuses = [get(echo, path).status_code for path in ("/b", "/ax", "/a", "/a")]
    assert statuses == [200, 500, 500, 200]
    assert requests.post(echo.base_url + "/a", timeout=TIMEOUT).status_code == 404


def test_probability_faults_repeat_with_the_seed() -> None:
    def run(seed: int) -> list[int]:
        with Echo(seed=seed) as server, requests.Session() as session:
            server.fail(500, probability=0.5)
            return [session.get(server.base_url, timeout=TIMEOUT).status_code for _ in range(30)]

    assert run(1) == run(1)
    assert set(run(1)) == {200, 500}
    assert run(1) != run(2)


def test_impossible_faults_are_refused(echo: Echo) -> None:
    for kind, more in (("typo", {}), (200, {}), (500, {"probability": 2.0})):
        with pytest.raises(ValueError):
            echo.fail(kind, **more)  # type: ignore[arg-type]
