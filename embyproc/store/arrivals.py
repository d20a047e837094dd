"""Acting on the verdicts of a scan: items that follow their films, and films that are queued."""

from collections.abc import Iterator
from contextlib import contextmanager

from embyproc.store.database import Database
from embyproc.store.sightings import UNFINISHED, Verdicts, below

# So many rows are worth emptying a whole table instead of deleting them.
_MANY = 5000

# Only one scan at a time acts on its verdicts: two would wait for each other's rows.
_LOCK = 5_206_151_967


class Arrivals:
    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether no other scan acts until this is left; each works by what it has judged itself.

        A lock of the session: it is gone with the connection, whatever becomes of this run.
        """
        lock = {"lock": _LOCK}
        got = bool(self._database.scalar("SELECT pg_try_advisory_lock(%(lock)s)", lock))
        try:
            yield got
        finally:
            if got and self._database.is_open:
                self._database.execute("SELECT pg_advisory_unlock(%(lock)s)", lock)

    def follow_renamed(self) -> None:
        """The item stays one item; a failure under the old name says nothing of the new one."""
        self._database.execute(
            """
            UPDATE processing_queue q
            SET file_path = c.path, device = c.device, inode = c.inode, size = c.size,
                mtime_ns = c.mtime_ns, ctime_ns = c.ctime_ns, sidecars = c.sidecars,
                status = 'pending', error_message = NULL, next_retry_at = NULL,
                retry_count = CASE q.status WHEN 'error' THEN 0 ELSE q.retry_count END,
                note = 'renamed from ' || q.file_path
            FROM candidates c
            WHERE c.verdict = 'renamed' AND q.id = c.renamed AND q.file_path = c.other
              AND q.status IN ('pending', 'error')
              AND NOT EXISTS (SELECT FROM processing_queue o WHERE o.file_path = c.path)
            """
        )

    def queue(self, page: int) -> int:
        """Queue what is ready of a page; returns how many items that are.

        Nobody can have been quicker: only scans add rows, and this one is alone.
        """
        return self._database.execute(
            # No waiting for the disk a page: `remember` waits for all of them.
            """
            SET LOCAL synchronous_commit TO off;
            INSERT INTO processing_queue
                (file_path, device, inode, size, mtime_ns, ctime_ns, sidecars)
            SELECT path, device, inode, size, mtime_ns, ctime_ns, sidecars FROM candidates
            WHERE page = %(page)s AND verdict = 'ready' AND item IS NULL
            ORDER BY ctime_ns, path
            """,
            {"page": page},
        )

    def queue_again(self) -> int:
        """Another pass for what is ready and has been in the queue before."""
        return self._database.execute(
            """
            UPDATE processing_queue q
            SET status = 'pending', device = r.device, inode = r.inode, size = r.size,
                mtime_ns = r.mtime_ns, ctime_ns = r.ctime_ns, sidecars = r.sidecars,
                error_message = NULL, next_retry_at = NULL, retry_count = 0, deaths = 0,
                -- Another film under the same name: what was known of the old one is not true.
                movie_code = CASE WHEN r.back THEN q.movie_code END,
                actress = CASE WHEN r.back THEN q.actress END,
                subtitle = CASE WHEN r.back THEN q.subtitle END,
                part = CASE WHEN r.back THEN q.part END,
                planned_path = CASE WHEN r.back THEN q.planned_path END,
                new_path = CASE WHEN r.back THEN q.new_path END,
                emby_item_id = CASE WHEN r.back THEN q.emby_item_id END,
                metadata_json = CASE WHEN r.back THEN q.metadata_json END,
                note = CASE WHEN r.back THEN 'the file is back'
                       ELSE 'the same path with other content' END
            FROM candidates r
            WHERE r.verdict = 'ready' AND q.id = r.item AND q.status = r.status
              AND q.status IN ('completed', 'error')
            """
        )

    def queued(self, most: int) -> list[tuple[int, str]]:
        """Id and path of the first `most` films that were ready."""
        rows = self._database.rows(
            """
            SELECT q.id, q.file_path
            FROM (SELECT path FROM candidates WHERE verdict = 'ready' LIMIT %(most)s) AS r
            JOIN processing_queue q ON q.file_path = r.path ORDER BY q.id
            """,
            {"most": most},
        )
        return [(row["id"], row["file_path"]) for row in rows]

    def remember(self, root: str, verdicts: Verdicts) -> None:
        """Keep for the next scan what it needs to know, and nothing else."""
        with self._database.transaction():
            if verdicts.known:
                self._refresh_waiting()
            if any(verdicts.counts[verdict] for verdict in UNFINISHED):
                self._remember_unfinished()
            elif verdicts.counts["ready"] > _MANY and self._is_only_root(root):
                self._database.execute("TRUNCATE sightings")
                return
            self._forget_sightings(root)

    def _remember_unfinished(self) -> None:
        self._database.execute(
            """
            INSERT INTO sightings
                (path, device, inode, size, mtime_ns, ctime_ns, checks, since, seen_at)
            SELECT path, device, inode, size, mtime_ns, ctime_ns, checks, since, now()
            FROM candidates
            WHERE verdict = ANY (%(unfinished)s)
            ON CONFLICT (path) DO UPDATE SET device = EXCLUDED.device, inode = EXCLUDED.inode,
                size = EXCLUDED.size, mtime_ns = EXCLUDED.mtime_ns, ctime_ns = EXCLUDED.ctime_ns,
                checks = EXCLUDED.checks, since = EXCLUDED.since, seen_at = EXCLUDED.seen_at
            """,
            {"unfinished": list(UNFINISHED)},
        )

    def _is_only_root(self, root: str) -> bool:
        others = "SELECT EXISTS (SELECT FROM sightings WHERE NOT starts_with(path, %(root)s))"
        return not self._database.scalar(others, {"root": below(root)})

    def _forget_sightings(self, root: str) -> None:
        """What is gone or in the queue was not renewed by this transaction."""
        self._database.execute(
            "DELETE FROM sightings WHERE starts_with(path, %(root)s) AND seen_at <> now()",
            {"root": below(root)},
        )

    def _refresh_waiting(self) -> None:
        """A waiting item follows its file: replaced, or a subtitle came after it."""
        self._database.execute(
            """
            UPDATE processing_queue q
            SET device = c.device, inode = c.inode, size = c.size, mtime_ns = c.mtime_ns,
                ctime_ns = c.ctime_ns, sidecars = c.sidecars
            FROM candidates c
            WHERE c.verdict IN ('waiting', 'ready') AND q.id = c.item AND q.status = 'pending'
              AND c.status = 'pending'
            """
        )
