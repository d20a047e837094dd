"""What happens to rows that no run is working on: trying again, starting over, forgetting."""

from collections.abc import Sequence
from datetime import timedelta

from embyproc.policy import NO_MOVIE_CODE
from embyproc.store.database import Database

_FIRST_EVENTS, _LAST_EVENTS = 10, 100


class Upkeep:
    def __init__(self, database: Database) -> None:
        self._database = database

    # -- trying again ----------------------------------------------------------------------

    def retry_due(self, max_retries: int, limit: int | None = None) -> list[int]:
        """Queue again every error whose time has come; returns the ids."""
        rows = self._database.rows(
            """
            WITH due AS MATERIALIZED (
                SELECT id FROM processing_queue
                WHERE status = 'error' AND next_retry_at IS NOT NULL
                  AND next_retry_at <= %(now)s AND retry_count <= %(max_retries)s
                  AND COALESCE(error_message, '') NOT LIKE %(no_code)s
                ORDER BY next_retry_at
                LIMIT %(limit)s
                FOR UPDATE SKIP LOCKED
            )
            UPDATE processing_queue q
            SET status = 'pending', error_message = NULL, next_retry_at = NULL,
                note = CASE WHEN q.retry_count = 0 THEN 'tried again'
                            ELSE 'retry ' || q.retry_count || ' of ' || %(max_retries)s END
            FROM due WHERE q.id = due.id AND q.status = 'error'
            RETURNING q.id
            """,
            {
                "now": self._database.clock.now(),
                "max_retries": max_retries,
                "no_code": NO_MOVIE_CODE + "%",
                "limit": limit,
            },
        )
        return sorted(row["id"] for row in rows)

    def trim_timelines(self, ids: Sequence[int]) -> None:
        """What goes round for months keeps how it began and what it did lately."""
        self._database.execute(
            """
            DELETE FROM queue_events WHERE id IN (
                SELECT id FROM (
                    SELECT id, row_number() OVER (PARTITION BY item ORDER BY id) AS from_first,
                           row_number() OVER (PARTITION BY item ORDER BY id DESC) AS from_last
                    FROM queue_events WHERE item = ANY (%(ids)s::int[])) AS numbered
                WHERE from_first > %(first)s AND from_last > %(last)s)
            """,
            {"ids": list(ids), "first": _FIRST_EVENTS, "last": _LAST_EVENTS},
        )

    def retry_by_hand(self, ids: Sequence[int] | None, limit: int | None = None) -> list[int]:
        """Queue these errors (None: all of them), so many at the most, now and with a fresh count;
        returns the ids."""
        rows = self._database.rows(
            """
            UPDATE processing_queue
            SET status = 'pending', error_message = NULL, next_retry_at = NULL,
                retry_count = 0, deaths = 0, note = 'retried by hand'
            WHERE status = 'error' AND id IN (
                SELECT id FROM processing_queue
                WHERE status = 'error' AND (%(ids)s::int[] IS NULL OR id = ANY (%(ids)s::int[]))
                ORDER BY id LIMIT %(limit)s)
            RETURNING id
            """,
            {"ids": None if ids is None else list(ids), "limit": limit},
        )
        return sorted(row["id"] for row in rows)

    def reset(self, item_id: int) -> bool:
        """Any item back to `pending` with counters 0, by legal moves only; False if unknown.

        A run that is working on it loses its claim and changes nothing more.
        """
        parameters = {"id": item_id, "note": "reset by hand"}
        with self._database.transaction():
            # Nobody may move it between two of our statements.
            self._database.execute(
                "SELECT FROM processing_queue WHERE id = %(id)s FOR UPDATE", parameters
            )
            # `moved` has no way back of its own: emby_pending and error lead there.
            for source, target in (("moved", "emby_pending"), ("emby_pending", "error")):
                self._database.execute(
                    """
                    UPDATE processing_queue
                    SET status = %(target)s, error_message = %(note)s, note = %(note)s
                    WHERE id = %(id)s AND status = %(source)s
                    """,
                    {**parameters, "source": source, "target": target},
                )
            touched = self._database.execute(
                """
                UPDATE processing_queue
                SET status = 'pending', error_message = NULL, next_retry_at = NULL,
                    retry_count = 0, deaths = 0, claimed_by = NULL, claimed_at = NULL,
                    note = %(note)s
                WHERE id = %(id)s
                """,
                parameters,
            )
        return touched == 1

    # -- removing --------------------------------------------------------------------------

    def delete(self, item_id: int) -> bool:
        """Remove a row and its timeline; files are not touched. False if it is unknown, or a run
        works on it."""
        removed = self._database.scalar(
            """
            WITH gone AS (DELETE FROM processing_queue
                          WHERE id = %(id)s AND status NOT IN ('processing', 'emby_pending')
                          RETURNING id),
                 told AS (DELETE FROM queue_events WHERE item IN (SELECT id FROM gone))
            SELECT count(*) FROM gone
            """,
            {"id": item_id},
        )
        return bool(removed)

    def cleanup(self, days: int) -> int:
        """Remove `completed` rows untouched for `days` days; returns how many."""
        removed = self._database.scalar(
            """
            WITH gone AS (DELETE FROM processing_queue
                          WHERE status = 'completed' AND updated_at < %(before)s RETURNING id),
                 told AS (DELETE FROM queue_events WHERE item IN (SELECT id FROM gone))
            SELECT count(*) FROM gone
            """,
            {"before": self._database.clock.now() - timedelta(days=days)},
        )
        return int(removed)
