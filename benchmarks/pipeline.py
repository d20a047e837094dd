"""process and emby with services that take their time, beside the ideal and beside one by one."""

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.measure import Figure, growth
from benchmarks.place import Place, place
from embyproc.demo.emby import StandInEmby
from embyproc.demo.wordpress import StandInWordPress

PROCESSED, LOOKUP_SECONDS, LOOKUPS_AT_A_TIME = 500, 0.1, 8
SHOWN, INDEX_SECONDS, REQUEST_SECONDS, AT_A_TIME = 200, 5.0, 0.02, 4
# Two reads, a write, a list of pictures, three uploads and two downloads.
REQUESTS_AN_ITEM = 9
# One by one takes a quarter of an hour for all of them: so many are really done.
ONE_BY_ONE = 5


def figures() -> Iterator[Figure]:
    with place() as b, _site(b, PROCESSED) as site:
        processed = _process(b, site, PROCESSED)
        yield Figure(
            what=f"process, {PROCESSED} items, 100 ms a look-up, 8 at a time, beside ideal",
            figure=processed,
            floor=PROCESSED * LOOKUP_SECONDS / LOOKUPS_AT_A_TIME,
            unit="s",
            target=1.3,
        )
        site.latency_seconds = REQUEST_SECONDS
        one = _one_by_one(b)
        shown = _show(b, SHOWN)
    ideal = INDEX_SECONDS + SHOWN * REQUESTS_AN_ITEM * REQUEST_SECONDS / AT_A_TIME
    yield Figure(
        what=f"emby, {SHOWN} items, 5 s to index, 20 ms a request, beside ideal",
        figure=shown,
        floor=ideal,
        unit="s",
        target=1.5,
    )
    yield Figure(
        what=f"emby, items a minute, beside one after the other ({ONE_BY_ONE} measured)",
        figure=60 * SHOWN / shown,
        floor=60 / one,
        unit="/",
        target=10.0,
        higher_is_better=True,
    )
    with place() as b, _site(b, 10 * PROCESSED) as site:
        more = _process(b, site, 10 * PROCESSED)
        yield growth(f"process, {10 * PROCESSED:,} items, beside 10 x", processed, more)
        site.latency_seconds = REQUEST_SECONDS
        yield growth(f"emby, {10 * SHOWN:,} items, beside 10 x", shown, _show(b, 10 * SHOWN))


def _site(b: Place, count: int) -> StandInWordPress:
    """A site that knows `count` works, whose files lie in the watch folder."""
    catalogue = {
        f"ROW-{100 + n}": {
            "title": f"row {n}",
            "actress": [f"Performer {n % 7}"],
            "image_cropped": f"{{base}}/crop/row{n}.jpg?horizontal=1",
        }
        for n in range(count)
    }
    for n in range(count):
        (b.watch / f"ROW-{100 + n}.mp4").write_bytes(f"film {n}".encode())
    return StandInWordPress(catalogue, token="bench")


def _process(b: Place, site: StandInWordPress, count: int) -> float:
    b.settings |= {
        "API_BASE_URL": site.api_url,
        "API_TOKEN": "bench",
        "PROCESS_CONCURRENCY": str(LOOKUPS_AT_A_TIME),
        "STABILITY_MIN_CHECKS": "1",
    }
    b.run("scan")
    site.latency_seconds = LOOKUP_SECONDS
    taken = b.run("process", "--max-runtime", "600").wall
    _expect(b, "moved", count)
    return taken


def _show(b: Place, count: int) -> float:
    """Seconds for `count` items together."""
    _leave(b, count)
    with _emby(b):
        taken = b.run("emby", "--max-runtime", "900").wall
    _expect(b, "moved", 0)
    return taken


def _one_by_one(b: Place) -> float:
    """Seconds an item: scan, wait, update and pictures of one, then the next."""
    with _emby(b):
        taken = [b.run("emby", "--once").wall for _ in range(ONE_BY_ONE)]
    _expect(b, "completed", ONE_BY_ONE)
    return sum(taken) / len(taken)


@contextmanager
def _emby(b: Place) -> Iterator[None]:
    with StandInEmby(
        b.destination,
        api_key="bench",
        index_delay_seconds=INDEX_SECONDS,
        latency_seconds=REQUEST_SECONDS,
    ) as emby:
        b.settings |= {"EMBY_BASE_URL": emby.base_url, "EMBY_API_KEY": "bench"}
        yield


def _leave(b: Place, count: int) -> None:
    """Let only `count` items wait for Emby."""
    for before, after in (("moved", "emby_pending"), ("emby_pending", "completed")):
        b.database.execute(
            """
            UPDATE processing_queue SET status = %(after)s WHERE status = %(before)s AND id NOT IN (
                SELECT id FROM processing_queue WHERE status = 'moved' ORDER BY id LIMIT %(count)s)
            """,
            {"before": before, "after": after, "count": count},
        )


def _expect(b: Place, status: str, count: int) -> None:
    """A benchmark of work that was not done would be a fine figure."""
    sql = "SELECT count(*) FROM processing_queue WHERE status = %(status)s"
    found = b.database.scalar(sql, {"status": status})
    assert found == count, f"{found} items are {status}, not {count}"
