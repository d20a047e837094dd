"""emby while the server is down, busy, odd or refuses."""

from typing import Any

import pytest
from installation import EMBY_KEY, Installation
from shown import server, shown

from embyproc.clients.emby import Emby
from embyproc.demo.emby import StandInEmby
from embyproc.errors import EmbyRefused
from embyproc.models import Status


def test_an_outage_burns_no_retries_and_heals_by_itself(with_emby: Installation) -> None:
    with_emby.put("ABC-123.mp4", "ABC-125.mp4")
    with_emby.file_everything()
    server(with_emby).stop()
    for _ in range(3):
        summary = with_emby.emby_run()
        assert (summary.claimed, summary.failed) == (0, 0)
    state = with_emby.store.services.states()["emby"]
    assert state.failures == 1
    assert state.down_since is not None
    server(with_emby).start()
    with_emby.store.database.execute("UPDATE services SET open_until = now()")
    assert with_emby.emby_run().succeeded == 2
    assert with_emby.store.services.states() == {}
    assert {item.retry_count for item in with_emby.store.looks.find()} == {0}


@pytest.mark.parametrize("kind", [401, 403, 429, 503, "reset", "html200", "redirect"])
def test_a_server_that_does_not_work_blames_no_item(with_emby: Installation, kind: Any) -> None:
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    server(with_emby).fail(kind)
    done = with_emby.command("emby")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    item = with_emby.item("ABC-123.mp4")
    assert (item.status, item.retry_count) == (Status.MOVED, 0)


def test_going_down_in_the_middle_gives_the_rest_back(with_emby: Installation) -> None:
    with_emby.put(*(f"ROW-{n}.mp4" for n in range(100, 140)))
    with_emby.file_everything()
    calls = iter(range(10_000))
    server(with_emby).fail("reset", match=lambda request: next(calls) > 60)
    with_emby.emby_run()
    counts = with_emby.store.looks.counts()
    assert counts[Status.COMPLETED] >= 3
    assert counts[Status.COMPLETED] + counts[Status.MOVED] == 40
    server(with_emby).heal()
    with_emby.store.database.execute("UPDATE services SET open_until = now()")
    with_emby.emby_run()
    assert with_emby.store.looks.counts()[Status.COMPLETED] == 40


@pytest.mark.parametrize("kind", [403, 502, "redirect"])
def test_an_item_that_cannot_be_written_fails_alone(with_emby: Installation, kind: Any) -> None:
    with_emby.put("ABC-123.mp4", "ABC-125.mp4")
    with_emby.file_everything()
    server(with_emby).scan_now()
    path = f"/Items/{shown(with_emby)['Id']}"
    server(with_emby).fail(kind, match=lambda r: r.method == "POST" and r.path.endswith(path))
    summary = with_emby.emby_run()
    assert (summary.succeeded, summary.failed) == (1, 1)
    item = with_emby.item("ABC-123.mp4")
    assert (item.error_message or "").startswith(
        "Emby update failed: Emby re" if kind != 502 else "Emby update failed: Emby answered 502"
    )
    assert with_emby.store.services.states() == {}


def test_an_emby_too_busy_to_write_costs_nobody_a_retry(with_emby: Installation) -> None:
    with_emby.put(*(f"ROW-{n}.mp4" for n in range(100, 110)))
    with_emby.file_everything()
    writing = server(with_emby)
    writing.fail(504, match=lambda r: r.method == "POST" and not r.path.endswith("/Refresh"))
    summary = with_emby.emby_run()
    assert (summary.succeeded, summary.given_up) == (0, 0)
    assert set(with_emby.store.services.states()) == {"emby"}
    writing.heal()
    with_emby.store.database.execute("UPDATE services SET open_until = now()")
    with_emby.store.database.execute("UPDATE processing_queue SET next_retry_at = now()")
    with_emby.store.upkeep.retry_due(3)
    with_emby.process()
    assert with_emby.emby_run().succeeded == 10
    assert {item.retry_count for item in with_emby.store.looks.find()} == {0}
    assert with_emby.store.services.states() == {}


def test_three_films_that_cannot_be_written_do_not_stand_before_the_others(
    with_emby: Installation,
) -> None:
    with_emby.variables["EMBY_CONCURRENCY"] = "1"
    with_emby.put("ROW-100.mp4", "ROW-101.mp4", "ROW-102.mp4")
    with_emby.file_everything()
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    server(with_emby).scan_now()
    items = server(with_emby).items_by_path().items()
    odd = tuple(f"/Items/{item['Id']}" for path, item in items if "ROW-" in path)
    server(with_emby).fail(403, match=lambda r: r.method == "POST" and r.path.endswith(odd))
    with_emby.emby_run()
    with_emby.store.database.execute("UPDATE services SET open_until = now()")
    with_emby.emby_run()
    assert with_emby.item("ABC-123.mp4").status is Status.COMPLETED
    rows = [with_emby.item(f"ROW-{n}.mp4") for n in range(100, 103)]
    assert {(row.status, row.retry_count) for row in rows} == {(Status.ERROR, 0)}


def test_what_is_awaited_when_emby_goes_down_costs_no_retry(with_emby: Installation) -> None:
    emby = server(with_emby)
    with_emby.put("ABC-123.mp4", "ABC-125.mp4")
    with_emby.file_everything()
    emby.scan_now()
    with_emby.put("ROW-100.mp4")
    with_emby.file_everything()
    emby.index_delay_seconds = 60
    emby.fail(404, match=lambda r: "/VirtualFolders" in r.path)
    updates = tuple(f"/Items/{item['Id']}" for item in emby.items_by_path().values())
    emby.fail(
        503, match=lambda r: r.method == "POST" and r.path.endswith(updates), retry_after="60"
    )
    with_emby.emby_run()
    item = with_emby.item("ROW-100.mp4")
    assert (item.status, item.retry_count) == (Status.MOVED, 0)


def test_an_emby_that_only_greets_is_down_until_somebody_is_told(with_emby: Installation) -> None:
    with_emby.variables["OUTAGE_ALERT_MINUTES"] = "30"
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    server(with_emby).fail(403, match=lambda request: request.path.endswith("/Refresh"))
    codes = []
    for _ in range(4):
        codes.append(with_emby.command("emby").returncode)
        with_emby.store.database.execute(
            "UPDATE services SET open_until = now() - interval '1 s', "
            "down_since = down_since - interval '20 min'"
        )
    assert codes == [0, 0, 3, 0]  # told once
    item = with_emby.item("ABC-123.mp4")
    assert (item.status, item.retry_count) == (Status.MOVED, 0)
    server(with_emby).heal()
    assert with_emby.emby_run().succeeded == 1
    assert with_emby.store.services.states() == {}


@pytest.mark.parametrize("kind", ["emby", "jellyfin"])
@pytest.mark.parametrize("fault", [404, "html200"])
def test_a_list_of_libraries_that_cannot_be_had_holds_up_nobody(
    installation: Installation, kind: Any, fault: Any
) -> None:
    with StandInEmby(installation.destination, api_key=EMBY_KEY, kind=kind) as emby:
        installation.emby = emby
        installation.put("ABC-123.mp4")
        installation.file_everything()
        emby.fail(fault, match=lambda request: "/VirtualFolders" in request.path)
        assert installation.emby_run().succeeded == 1
        assert "internal error" not in installation.command("doctor").stderr


@pytest.mark.parametrize(
    ("kind", "begins"),
    [(404, "Emby scan failed: Emby answered 404"), (500, "Emby scan failed: Emby answered 500")],
)
def test_a_refused_scan(with_emby: Installation, kind: int, begins: str) -> None:
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    server(with_emby).fail(kind, match=lambda request: request.path.endswith("/Refresh"))
    with_emby.emby_run()
    assert (with_emby.item("ABC-123.mp4").error_message or "").startswith(begins)


@pytest.mark.parametrize("status", [414, 500, "truncated", "html200"])
def test_a_list_that_fails_once_is_asked_for_again(with_emby: Installation, status: Any) -> None:
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    server(with_emby).fail(status, times=1, match=lambda r: r.path.endswith("/Items"))
    assert with_emby.emby_run().succeeded == 1


def test_an_address_with_an_empty_part_is_never_sent(with_emby: Installation) -> None:
    client = Emby(server(with_emby).base_url, EMBY_KEY)
    client.connect()
    server(with_emby).forget_requests()
    for item_id, kind in (("", "Primary"), ("5", ""), ("..", "Primary"), (" ", "Logo")):
        with pytest.raises(EmbyRefused, match="not sent"):
            client.delete_image(item_id, kind, 0)
    with pytest.raises(EmbyRefused, match="not sent"):
        client.update({"Name": "x"})
    assert server(with_emby).requests == []
