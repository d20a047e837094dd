"""The queue: the statements by which a run takes rows, moves them on and gives them back.

Each write repeats the status it expects and the run that must own the row (the fence), so a run
that lost its claim changes nothing. The journal of events is kept by a trigger.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from embyproc.cleaning import clean
from embyproc.models import Failed, Finished, Item, Planned, Stage, Status
from embyproc.policy import MAX_DEATHS
from embyproc.store.database import Database

# A run that has not beaten for this long is dead.
DEAD_AFTER = timedelta(seconds=60)

# MATERIALIZED: inlined, the LIMIT would not bind the UPDATE.
CLAIM = """
    WITH next AS MATERIALIZED (
        SELECT id FROM processing_queue
        WHERE status = %(takes)s AND deaths = %(deaths)s
          AND (created_at, id) > (%(after)s, %(after_id)s)
        ORDER BY created_at, id
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    )
    UPDATE processing_queue q
    SET status = %(holds)s, claimed_by = %(run)s, claimed_at = %(now)s, note = NULL
    FROM next
    WHERE q.id = next.id AND q.status = %(takes)s
    RETURNING q.*
"""


class Queue:
    def __init__(self, database: Database) -> None:
        self._database = database
        # How far this run has claimed, by stage: the index entries of what it has taken stay behind
        # as dead ones, and each claim would step over all of them.
        self._reached: dict[Stage, tuple[datetime, int]] = {}

    # -- filling ---------------------------------------------------------------------------

    def add_many(self, paths: Iterable[str]) -> list[int]:
        """Queue the paths that are not in the queue yet, in one statement and in the order given;
        returns the new ids.

        An anti-join, so that known paths burn no ids; ON CONFLICT only meets a concurrent scan.
        """
        rows = self._database.rows(
            """
            INSERT INTO processing_queue (file_path)
            SELECT given.path FROM unnest(%(paths)s::text[]) WITH ORDINALITY AS given (path, place)
            WHERE NOT EXISTS (SELECT FROM processing_queue q WHERE q.file_path = given.path)
            ORDER BY given.place
            ON CONFLICT (file_path) DO NOTHING
            RETURNING id
            """,
            {"paths": list(dict.fromkeys(paths))},
        )
        return sorted(row["id"] for row in rows)

    # -- claiming and finishing ------------------------------------------------------------

    def claim(self, stage: Stage, run: int, limit: int, *, idle: bool = True) -> list[Item]:
        """Take up to `limit` rows for `run`, oldest first; nobody else can have them then.

        A row that a run died with comes after all others, in small batches and the second time
        alone, and only while this run is `idle`: a file that kills the program takes no bystander
        with it, and a power cut costs nobody his retries.
        """
        claimed = self._claim(stage, run, limit, deaths=0, after=self._reached.get(stage))
        if not claimed and self._reached.pop(stage, None) is not None:
            # The end is reached: what came back meanwhile lies before.
            claimed = self._claim(stage, run, limit, deaths=0)
        if claimed:
            self._reached[stage] = (claimed[-1].created_at, claimed[-1].id)
        if claimed or not idle:
            return claimed
        few = max(1, limit // 10)
        return self._claim(stage, run, few, deaths=1) or self._claim(stage, run, 1, deaths=2)

    def _claim(
        self,
        stage: Stage,
        run: int,
        limit: int,
        *,
        deaths: int,
        after: tuple[datetime, int] | None = None,
    ) -> list[Item]:
        items = self._database.items(
            # No waiting for the disk: what is done with a row is recorded later, and that waits
            # for all before it. A claim lost in a power cut is a row that nobody has touched.
            f"SET LOCAL synchronous_commit TO off; {CLAIM}",
            {
                "takes": stage.takes,
                "holds": stage.holds,
                "run": run,
                "now": self._database.clock.now(),
                "limit": limit,
                "deaths": deaths,
                "after": after[0] if after else "-infinity",
                "after_id": after[1] if after else 0,
            },
        )
        return sorted(items, key=lambda item: (item.created_at, item.id))

    def record_plans(self, run: int, plans: Sequence[Planned]) -> set[int]:
        """Write down what is about to happen to claimed files; returns the ids still ours."""
        if not plans:
            return set()
        rows = self._database.rows(
            """
            UPDATE processing_queue q
            SET planned_path = plan.planned_path, movie_code = plan.movie_code,
                actress = plan.actress, subtitle = plan.subtitle, part = plan.part,
                metadata_json = plan.metadata_json
            FROM jsonb_to_recordset(%(plans)s::jsonb) AS plan (
                id INTEGER, planned_path TEXT, movie_code TEXT, actress TEXT, subtitle TEXT,
                part INTEGER, metadata_json JSONB)
            WHERE q.id = plan.id AND q.status = 'processing' AND q.claimed_by = %(run)s
            RETURNING q.id
            """,
            {"run": run, "plans": _json(plans)},
        )
        return {row["id"] for row in rows}

    def forget_filed(self, run: int, item_id: int) -> None:
        """A claimed row is about a new file: where an earlier one was filed counts no more."""
        self._database.execute(
            """
            UPDATE processing_queue SET new_path = NULL, planned_path = NULL
            WHERE id = %(id)s AND status = 'processing' AND claimed_by = %(run)s
            """,
            {"id": item_id, "run": run},
        )

    def record_emby_ids(self, run: int, ids: Mapping[int, str]) -> None:
        """Keep which item of Emby a claimed row is, as soon as it is known."""
        self._database.execute(
            """
            UPDATE processing_queue q SET emby_item_id = found.emby
            FROM unnest(%(items)s::int[], %(ids)s::text[]) AS found (item, emby)
            WHERE q.id = found.item AND q.status = 'emby_pending' AND q.claimed_by = %(run)s
            """,
            {"run": run, "items": list(ids), "ids": list(ids.values())},
        )

    def record_warnings(self, item_id: int, warnings: Sequence[str]) -> None:
        self._database.execute(
            "UPDATE processing_queue SET warnings = %(warnings)s WHERE id = %(id)s",
            {"id": item_id, "warnings": list(warnings)},
        )

    def is_still_mine(self, run: int, item_id: int) -> bool:
        """Asked before the step that cannot be taken back: does the row belong to this run, and
        has nobody had reason to think the run dead?"""
        return bool(
            self._database.scalar(
                """
                SELECT true FROM processing_queue q JOIN runs r ON r.id = q.claimed_by
                WHERE q.id = %(id)s AND q.claimed_by = %(run)s
                  AND q.status IN ('processing', 'emby_pending')
                  AND r.finished_at IS NULL AND r.heartbeat_at >= %(silent)s
                """,
                {"id": item_id, "run": run, "silent": self._database.clock.now() - DEAD_AFTER},
            )
        )

    def release_items(self, run: int, ids: Sequence[int], reason: str) -> int:
        """Give back one step some of the rows that `run` holds."""
        return self._release(run, list(ids), reason)

    def follow_file(self, item_id: int, old_path: str, new_path: str, note: str) -> None:
        """A file waiting for Emby was moved by hand: keep where it is now."""
        with self._database.transaction():
            touched = self._database.execute(
                """
                UPDATE processing_queue SET new_path = %(new)s, note = %(note)s
                WHERE id = %(id)s AND status = 'moved' AND new_path = %(old)s
                """,
                {"id": item_id, "old": old_path, "new": new_path, "note": note},
            )
            if touched:
                self.add_event(item_id, Status.MOVED, note)

    def add_event(self, item_id: int, status: Status, message: str) -> None:
        """Something that happened to an item without changing its status."""
        self._database.execute(
            """
            INSERT INTO queue_events (item, "from", "to", message)
            VALUES (%(id)s, %(status)s, %(status)s, %(message)s)
            """,
            {"id": item_id, "status": status, "message": message},
        )

    def claim_one(self, stage: Stage, run: int, item_id: int) -> bool:
        """Claim this very row, if it waits for the stage."""
        touched = self._database.execute(
            """
            UPDATE processing_queue SET status = %(holds)s, claimed_by = %(run)s,
                claimed_at = %(now)s, note = NULL
            WHERE id = %(id)s AND status = %(takes)s
            """,
            {
                "id": item_id,
                "run": run,
                "takes": stage.takes,
                "holds": stage.holds,
                "now": self._database.clock.now(),
            },
        )
        return touched == 1

    def finish(self, stage: Stage, run: int, results: Sequence[Finished]) -> set[int]:
        """Move claimed rows on; returns the ids that were still ours."""
        if not results:
            return set()
        rows = self._database.rows(
            """
            UPDATE processing_queue q
            SET status = %(makes)s, claimed_by = NULL, claimed_at = NULL, deaths = 0,
                error_message = NULL, next_retry_at = NULL, note = done.note,
                movie_code = COALESCE(done.movie_code, q.movie_code),
                actress = COALESCE(done.actress, q.actress),
                subtitle = COALESCE(done.subtitle, q.subtitle),
                new_path = COALESCE(done.new_path, q.new_path),
                emby_item_id = COALESCE(done.emby_item_id, q.emby_item_id),
                metadata_json = COALESCE(done.metadata_json, q.metadata_json),
                warnings = COALESCE(done.warnings, q.warnings)
            FROM jsonb_to_recordset(%(results)s::jsonb) AS done (
                id INTEGER, movie_code TEXT, actress TEXT, subtitle TEXT, new_path TEXT,
                emby_item_id TEXT, metadata_json JSONB, note TEXT, warnings TEXT[])
            WHERE q.id = done.id AND q.status = %(holds)s AND q.claimed_by = %(run)s
            RETURNING q.id
            """,
            {
                "makes": stage.makes,
                "holds": stage.holds,
                "run": run,
                "results": _json(results),
            },
        )
        return {row["id"] for row in rows}

    def fail(self, stage: Stage, run: int, failures: Sequence[Failed]) -> list[Item]:
        """Move claimed rows to `error`; returns those that were still ours."""
        return self._fail(stage.holds, run, failures)

    def fail_waiting(self, failures: Sequence[Failed]) -> list[Item]:
        """Move `pending` rows to `error`, as scan does when their file is gone."""
        return self._fail(Status.PENDING, None, failures)

    def _fail(self, status: Status, run: int | None, failures: Sequence[Failed]) -> list[Item]:
        if not failures:
            return []
        return self._database.items(
            """
            UPDATE processing_queue q
            SET status = 'error', claimed_by = NULL, claimed_at = NULL, deaths = 0,
                error_message = failed.error_message, next_retry_at = failed.next_retry_at,
                retry_count = failed.retry_count
            FROM jsonb_to_recordset(%(failures)s::jsonb) AS failed (
                id INTEGER, error_message TEXT, next_retry_at TIMESTAMP WITH TIME ZONE,
                retry_count INTEGER)
            WHERE q.id = failed.id AND q.status = %(status)s
              AND q.claimed_by IS NOT DISTINCT FROM %(run)s
            RETURNING q.*
            """,
            {"status": status, "run": run, "failures": _json(failures)},
        )

    # -- giving back -----------------------------------------------------------------------

    def release(self, run: int, reason: str) -> int:
        """Give back one step whatever `run` still holds; returns how many rows that were."""
        return self._release(run, None, reason)

    def _release(self, run: int, ids: list[int] | None, reason: str) -> int:
        return self._database.execute(
            """
            UPDATE processing_queue
            SET status = CASE status WHEN 'processing' THEN 'pending' ELSE 'moved' END,
                claimed_by = NULL, claimed_at = NULL, note = %(note)s
            WHERE status IN ('processing', 'emby_pending') AND claimed_by = %(run)s
              AND (%(ids)s::int[] IS NULL OR id = ANY (%(ids)s::int[]))
            """,
            {"run": run, "ids": ids, "note": f"released: {reason}"},
        )

    def release_dead(self, gone: Sequence[int] = ()) -> list[Item]:
        """Give back the rows of runs that are finished, unknown, or silent for too long, and of
        those among `gone`, which are known to be dead.

        A row that three runs in a row died with becomes an error that waits for a person. Returns
        those that were set aside so.
        """
        now = self._database.clock.now()
        items = self._database.items(
            """
            WITH suspects AS MATERIALIZED (
                SELECT q.id, q.claimed_by, r.id AS run, r.host, r.finished_at
                FROM processing_queue q LEFT JOIN runs r ON r.id = q.claimed_by
                WHERE q.status IN ('processing', 'emby_pending')
                  AND (r.id IS NULL OR r.finished_at IS NOT NULL OR r.heartbeat_at < %(silent)s
                       OR r.id = ANY (%(gone)s::bigint[]))
            ), dead AS MATERIALIZED (
                -- Between that look and this lock the row may have become another run's.
                SELECT q.id, s.run, s.host, s.finished_at,
                       q.deaths + (s.run IS NOT NULL AND s.finished_at IS NULL)::int AS deaths
                FROM processing_queue q JOIN suspects s ON s.id = q.id
                WHERE q.status IN ('processing', 'emby_pending')
                  AND q.claimed_by IS NOT DISTINCT FROM s.claimed_by
                FOR UPDATE OF q SKIP LOCKED
            )
            UPDATE processing_queue q
            SET status = CASE WHEN dead.deaths >= %(max_deaths)s THEN 'error'
                              WHEN q.status = 'processing' THEN 'pending' ELSE 'moved' END,
                error_message = CASE WHEN dead.deaths >= %(max_deaths)s
                    THEN 'Set aside: ' || dead.deaths || ' runs in a row died while working on '
                         || 'this file; look at it, then retry it by hand'
                    ELSE q.error_message END,
                next_retry_at = NULL,
                retry_count = q.retry_count + (dead.deaths >= %(max_deaths)s)::int,
                deaths = CASE WHEN dead.deaths >= %(max_deaths)s THEN 0 ELSE dead.deaths END,
                claimed_by = NULL, claimed_at = NULL,
                note = 'released: ' || CASE
                    WHEN dead.run IS NULL THEN 'the run that had it is unknown'
                    WHEN dead.finished_at IS NOT NULL THEN 'run ' || dead.run || ' has ended'
                    ELSE 'run ' || dead.run || ' on ' || dead.host || ' died' END
            FROM dead WHERE q.id = dead.id
            RETURNING q.*
            """,
            {"silent": now - DEAD_AFTER, "max_deaths": MAX_DEATHS, "gone": list(gone)},
        )
        return [item for item in items if item.status is Status.ERROR]


def _json(rows: Sequence[Finished] | Sequence[Failed] | Sequence[Planned]) -> str:
    # What is not given is NULL.
    given = [{k: clean(v) for k, v in row._asdict().items() if v is not None} for row in rows]
    return json.dumps(given, default=str)
