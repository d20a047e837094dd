"""Reading: counts, lists, one item and its timeline. Changes nothing."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from embyproc.models import Event, Figure, Item, ServiceState, Status
from embyproc.policy import NO_MOVIE_CODE
from embyproc.store.database import Database
from embyproc.store.queue import DEAD_AFTER


class Waiting(NamedTuple):
    """The oldest item of a status that waits for a stage."""

    status: Status
    id: int
    file_path: str
    since: datetime


class Looks:
    def __init__(self, database: Database) -> None:
        self._database = database

    def counts(self) -> dict[Status, int]:
        """How many items there are in each status, in pipeline order, zeros included."""
        rows = self._database.rows(
            "SELECT status, count(*) AS n FROM processing_queue GROUP BY status"
        )
        found = {row["status"]: row["n"] for row in rows}
        return {status: found.get(status, 0) for status in Status}

    def get(self, item_id: int) -> Item | None:
        found = self._database.items(
            "SELECT * FROM processing_queue WHERE id = %(id)s", {"id": item_id}
        )
        return found[0] if found else None

    def waiting(self, status: Status, limit: int | None = None) -> list[Item]:
        """What a stage would claim, in the order in which it would."""
        return self._database.items(
            """
            SELECT * FROM processing_queue WHERE status = %(status)s
            ORDER BY created_at, id LIMIT %(limit)s
            """,
            {"status": status, "limit": limit},
        )

    def planned(self) -> list[Item]:
        """Waiting items for which an earlier run had recorded a plan."""
        return self._database.items(
            """
            SELECT * FROM processing_queue
            WHERE status = 'pending' AND planned_path IS NOT NULL ORDER BY id
            """
        )

    def is_waiting(self, status: Status) -> bool:
        return bool(
            self._database.scalar(
                "SELECT true FROM processing_queue WHERE status = %(status)s LIMIT 1",
                {"status": status},
            )
        )

    def is_anything_claimed(self) -> bool:
        return bool(
            self._database.scalar(
                "SELECT true FROM processing_queue "
                "WHERE status IN ('processing', 'emby_pending') LIMIT 1"
            )
        )

    def needs_reconciling(self) -> bool:
        """Whether anything could disagree with the disk: planned rows, filed ones, dead runs."""
        return bool(
            self._database.scalar(
                """
                SELECT EXISTS (SELECT FROM processing_queue WHERE status = 'moved')
                    OR EXISTS (SELECT FROM processing_queue
                               WHERE status = 'pending' AND planned_path IS NOT NULL)
                    OR EXISTS (SELECT FROM runs
                               WHERE finished_at IS NULL AND heartbeat_at < %(silent)s)
                """,
                {"silent": self._database.clock.now() - DEAD_AFTER},
            )
        )

    def services_down(self) -> list[ServiceState]:
        """Services that are down, by name."""
        rows = self._database.rows(
            "SELECT * FROM services WHERE down_since IS NOT NULL ORDER BY name"
        )
        return [ServiceState(**row) for row in rows]

    def completed_per_hour(self) -> list[int]:
        """How many items were completed in each of the last 24 hours, the oldest first."""
        now = self._database.clock.now()
        rows = self._database.rows(
            """
            SELECT floor(EXTRACT(EPOCH FROM %(now)s - at) / 3600)::int AS hours, count(*) AS n
            FROM queue_events
            WHERE at > %(now)s - interval '24 hours' AND "to" = 'completed' AND "from" <> "to"
            GROUP BY hours
            """,
            {"now": now},
        )
        found = {row["hours"]: row["n"] for row in rows}
        return [found.get(hours, 0) for hours in range(23, -1, -1)]

    def server_version(self) -> int:
        """As PostgreSQL counts it: 180004."""
        return int(self._database.scalar("SHOW server_version_num"))

    def server_time(self) -> datetime:
        found = self._database.scalar("SELECT clock_timestamp()")
        assert isinstance(found, datetime)
        return found

    def figures(self, max_retries: int) -> list[Figure]:
        """What is worth plotting."""
        now = self._database.clock.now()
        figures = [
            Figure(name="items", help="Items by status.", value=n, labels={"status": str(status)})
            for status, n in self.counts().items()
        ]
        figures += [
            Figure(
                name="given_up",
                help="Items that wait for a person.",
                value=len(self.given_up(max_retries)),
            ),
            Figure(
                name="retries",
                help="Failures so far of the items that are in the queue.",
                value=self._database.scalar(
                    "SELECT COALESCE(sum(retry_count), 0) FROM processing_queue "
                    "WHERE status <> 'completed'"
                ),
            ),
            Figure(
                name="moved_bytes",
                help="Size of the files that are in the queue and filed.",
                value=self._database.scalar(
                    "SELECT COALESCE(sum(size), 0) FROM processing_queue WHERE new_path IS NOT NULL"
                ),
            ),
        ]
        for waiting in self.oldest_waiting():
            figures.append(
                Figure(
                    name="oldest_waiting_seconds",
                    help="Age of the item that waits longest.",
                    value=(now - waiting.since).total_seconds(),
                    labels={"status": str(waiting.status)},
                )
            )
        for state in self.services_down():
            figures.append(
                Figure(
                    name="service_up",
                    help="Whether a service that misbehaved works.",
                    value=0,
                    labels={"service": state.name},
                )
            )
        return figures + self._run_figures()

    def _run_figures(self) -> list[Figure]:
        figures = []
        for row in self._database.rows(
            """
            SELECT command, count(*) AS runs,
                   COALESCE(sum(EXTRACT(EPOCH FROM finished_at - started_at)), 0) AS seconds,
                   EXTRACT(EPOCH FROM max(finished_at) FILTER (WHERE exit_code IN (0, 1))) AS good
            FROM runs GROUP BY command ORDER BY command
            """
        ):
            labels = {"stage": row["command"]}
            about = (
                ("runs", "Runs remembered (a week).", row["runs"]),
                ("run_seconds", "Time those runs took.", row["seconds"]),
                ("last_success_timestamp_seconds", "When a run last ended well.", row["good"]),
            )
            figures += [
                Figure(name=name, help=text, value=float(value), labels=labels)
                for name, text, value in about
                if value is not None
            ]
        return figures

    def of_codes(self, codes: Sequence[str]) -> list[Item]:
        """Every item of these works, oldest first."""
        return self._database.items(
            "SELECT * FROM processing_queue WHERE movie_code = ANY (%(codes)s) ORDER BY id",
            {"codes": list(codes)},
        )

    def find(
        self,
        *,
        status: Status | None = None,
        code: str | None = None,
        performer: str | None = None,
        since: timedelta | None = None,
        given_up_after: int | None = None,
        limit: int | None = None,
    ) -> list[Item]:
        """Items, newest first; code and performer by any part of them. With `given_up_after` so
        many retries: only errors that nothing will happen to until a person acts."""
        return self._database.items(
            """
            SELECT * FROM processing_queue
            WHERE (%(status)s::text IS NULL OR status = %(status)s)
              AND (%(code)s::text IS NULL OR position(lower(%(code)s) IN lower(movie_code)) > 0)
              AND (%(performer)s::text IS NULL
                   OR position(lower(%(performer)s) IN lower(actress)) > 0)
              AND (%(since)s::timestamptz IS NULL OR updated_at >= %(since)s)
              AND (%(given_up)s::int IS NULL OR (
                   status = 'error' AND (next_retry_at IS NULL OR retry_count > %(given_up)s
                                         OR error_message LIKE %(no_code)s)))
            ORDER BY id DESC LIMIT %(limit)s
            """,
            {
                "given_up": given_up_after,
                "no_code": NO_MOVIE_CODE + "%",
                "status": status,
                "code": code,
                "performer": performer,
                "since": None if since is None else self._database.clock.now() - since,
                "limit": limit,
            },
        )

    def given_up(self, max_retries: int, limit: int | None = None) -> list[Item]:
        """Errors that nothing will happen to until a person acts, newest first."""
        return self.find(given_up_after=max_retries, limit=limit)

    def events(self, item_id: int) -> list[Event]:
        """The timeline of one item, oldest first."""
        rows = self._database.rows(
            "SELECT * FROM queue_events WHERE item = %(id)s ORDER BY id", {"id": item_id}
        )
        return [Event.from_row(row) for row in rows]

    def oldest_waiting(self) -> list[Waiting]:
        """For `pending` and `moved`: the item that waits longest, if there is one."""
        # The status is a literal in each half, so that each uses its partial index.
        rows = self._database.rows(
            """
            (SELECT status, id, file_path, created_at FROM processing_queue
             WHERE status = 'pending' ORDER BY created_at, id LIMIT 1)
            UNION ALL
            (SELECT status, id, file_path, created_at FROM processing_queue
             WHERE status = 'moved' ORDER BY created_at, id LIMIT 1)
            """
        )
        return [
            Waiting(
                status=Status(row["status"]),
                id=row["id"],
                file_path=row["file_path"],
                since=row["created_at"],
            )
            for row in rows
        ]

    def due(self, max_retries: int, limit: int | None = None) -> list[int]:
        """The errors that `retry` would queue again now."""
        rows = self._database.rows(
            """
            SELECT id FROM processing_queue
            WHERE status = 'error' AND next_retry_at IS NOT NULL
              AND next_retry_at <= %(now)s AND retry_count <= %(max_retries)s
              AND COALESCE(error_message, '') NOT LIKE %(no_code)s
            ORDER BY next_retry_at LIMIT %(limit)s
            """,
            {
                "now": self._database.clock.now(),
                "max_retries": max_retries,
                "no_code": NO_MOVIE_CODE + "%",
                "limit": limit,
            },
        )
        return [row["id"] for row in rows]

    def moved_since(self, ids: Sequence[int], since: datetime) -> set[int]:
        """Which of these were filed for the first time after `since`."""
        rows = self._database.rows(
            """
            SELECT item FROM queue_events WHERE item = ANY (%(ids)s::int[]) AND "to" = 'moved'
            GROUP BY item HAVING min(at) > %(since)s
            """,
            {"ids": list(ids), "since": since},
        )
        return {row["item"] for row in rows}

    def in_error(self, ids: Sequence[int] | None, limit: int | None = None) -> list[int]:
        """Which of these ids (None: of all) are in error, so many at the most."""
        rows = self._database.rows(
            """
            SELECT id FROM processing_queue
            WHERE status = 'error' AND (%(ids)s::int[] IS NULL OR id = ANY (%(ids)s::int[]))
            ORDER BY id LIMIT %(limit)s
            """,
            {"ids": None if ids is None else list(ids), "limit": limit},
        )
        return [row["id"] for row in rows]

    def missing(self, ids: Sequence[int]) -> list[int]:
        """Which of these ids are not in the queue."""
        rows = self._database.rows(
            """
            SELECT given.id FROM unnest(%(ids)s::int[]) AS given (id)
            WHERE NOT EXISTS (SELECT FROM processing_queue q WHERE q.id = given.id)
            ORDER BY given.id
            """,
            {"ids": list(ids)},
        )
        return [row["id"] for row in rows]
