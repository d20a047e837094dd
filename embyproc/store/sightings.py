"""The diff of the watch folder against the queue, set-based, over what one walk saw.

The walk is copied into a temporary table, what is new in it becomes `candidates` with a verdict
each, and a few statements act on the verdicts. Known files cost one join and nothing more.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

from embyproc.models import Item, Sighting
from embyproc.store.database import Database

SOURCE_MISSING = "Source file missing"

# Films that are queued at a time, and of which rows are in memory at a time.
_PAGE = 5000

# Verdicts on films that the next scan looks at again.
_UNFINISHED = ("settling", "young", "held", "writing", "later")

# Only one scan at a time acts on its verdicts: two would wait for each other's rows.
_LOCK = 5_206_151_967

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


class WatchedFolder(NamedTuple):
    """What the last scan saw of the watched folder itself."""

    device: int
    inode: int
    files: int


class Candidate(NamedTuple):
    """A film that is not in the queue as it is now, and what is to be done about it.

    `verdict` is `ready`, `renamed`, `waiting` (queued, but its file changed), `settling`, `young`,
    `held`, `writing` or `linked`.
    """

    path: str
    verdict: str
    checks: int
    other: str | None


class Page(NamedTuple):
    """Some of the films that seem to be ready."""

    number: int
    paths: Sequence[str]


class Sightings:
    def __init__(self, database: Database) -> None:
        self._database = database

    # -- the watched folder ----------------------------------------------------------------

    def watched_folder(self, root: str) -> WatchedFolder | None:
        rows = self._database.rows(
            "SELECT device, inode, files FROM watched_folders WHERE path = %(path)s",
            {"path": root},
        )
        return WatchedFolder(**rows[0]) if rows else None

    def remember_folder(self, root: str, identity: tuple[int, int], files: int) -> None:
        self._database.execute(
            """
            INSERT INTO watched_folders (path, device, inode, files, seen_at)
            VALUES (%(path)s, %(device)s, %(inode)s, %(files)s, %(now)s)
            ON CONFLICT (path) DO UPDATE SET device = EXCLUDED.device, inode = EXCLUDED.inode,
                files = EXCLUDED.files, seen_at = EXCLUDED.seen_at
            """,
            {
                "path": root,
                "device": identity[0],
                "inode": identity[1],
                "files": files,
                "now": self._database.clock.now(),
            },
        )

    # -- what the walk saw -----------------------------------------------------------------

    def open(self) -> None:
        """A new, empty table for what a walk sees."""
        self._database.execute(
            """
            SET work_mem TO '32MB';
            SET temp_buffers TO '32MB';
            CREATE TEMPORARY TABLE IF NOT EXISTS seen (
                path TEXT, device BIGINT, inode BIGINT, size BIGINT, mtime_ns BIGINT,
                ctime_ns BIGINT, linked BOOLEAN, held BOOLEAN, sidecars JSONB);
            TRUNCATE seen
            """
        )

    def load(self, lines: str) -> None:
        """Add a part of the walk, as `copy_lines` writes it.

        A COPY of its own for each part: no transaction is open while the disk is read.
        """
        self._database.copy("COPY seen FROM STDIN", lines)

    def judge(self, *, min_checks: int, min_age: float, oldest_ctime_ns: int) -> None:
        """Make `candidates`: films that are new, changed or back, with a verdict each.

        `oldest_ctime_ns` is the time of change, by this machine's clock, before which a file is
        old enough; by the database's clock, having looked the same for `min_age` does as well.
        """
        self._database.execute(
            """
            DROP TABLE IF EXISTS candidates;
            CREATE TEMPORARY TABLE candidates AS
            SELECT s.*, q.id AS item, q.status,
                   COALESCE(q.error_message LIKE %(missing)s, false) AS back,
                   NULL::text AS other, NULL::int AS renamed,
                   (row_number() OVER () - 1) / %(page)s AS page,
                   CASE WHEN q.status = 'pending'
                             AND (q.inode, q.size, q.mtime_ns) = (s.inode, s.size, s.mtime_ns)
                        THEN 'waiting'
                        WHEN s.held THEN 'held'
                        WHEN s.checks < %(min_checks)s THEN 'settling'
                        WHEN s.ctime_ns > %(oldest)s AND s.since > %(before)s THEN 'young'
                        ELSE 'ready' END AS verdict
            FROM (SELECT n.*, COALESCE(g.checks, 0) + 1 AS checks,
                         COALESCE(g.since, %(now)s) AS since
                  FROM seen n LEFT JOIN sightings g ON g.path = n.path
                      -- Not the device: its number differs between hosts and between mounts.
                      AND (g.inode, g.size, g.mtime_ns, g.ctime_ns)
                        = (n.inode, n.size, n.mtime_ns, n.ctime_ns)
                  -- A fence: the planner takes new films for few and would look up each of them.
                  OFFSET 0) AS s
            LEFT JOIN processing_queue q ON q.file_path = s.path
            WHERE q.id IS NULL
               -- Where the row's own film is filed already, this is another one: later.
               OR (q.status = 'pending' AND q.new_path IS NULL
                   AND (q.inode, q.size, q.mtime_ns, q.sidecars)
                       IS DISTINCT FROM (s.inode, s.size, s.mtime_ns, s.sidecars))
               OR (q.status = 'error' AND q.error_message LIKE %(missing)s)
               OR (q.status = 'error' AND q.new_path IS NULL AND q.inode IS NOT NULL
                   AND (q.inode, q.size, q.mtime_ns) <> (s.inode, s.size, s.mtime_ns))
               OR (q.status = 'completed' AND CASE WHEN q.inode IS NOT NULL
                    THEN (q.inode, q.size, q.mtime_ns) <> (s.inode, s.size, s.mtime_ns)
                    -- An adopted row: what arrived after it was completed is something new.
                    ELSE s.ctime_ns / 1e9 > EXTRACT(EPOCH FROM q.updated_at) END)
            """,
            {
                "now": self._database.clock.now(),
                "before": self._database.clock.now() - timedelta(seconds=min_age),
                "min_checks": min_checks,
                "oldest": oldest_ctime_ns,
                "missing": SOURCE_MISSING + "%",
                "page": _PAGE,
            },
        )
        (found,) = self._database.rows(
            "SELECT count(*) AS films, bool_or(linked) AS links FROM candidates"
        )
        if found["films"] > _PAGE:
            self._database.execute("CREATE INDEX ON candidates (page)")
        if found["films"]:
            self._find_renamed()
        if found["links"]:
            self._find_links()

    def _find_renamed(self) -> None:
        self._database.execute(
            """
            -- Waiting or failed under a name that is gone, here under another: it was renamed.
            UPDATE candidates c SET verdict = 'renamed', renamed = q.id, other = q.file_path
            FROM processing_queue q
            WHERE c.item IS NULL AND q.inode = c.inode AND q.status IN ('pending', 'error')
              AND (q.device, q.size, q.mtime_ns) = (c.device, c.size, c.mtime_ns)
              AND q.file_path <> c.path AND q.new_path IS NULL
              AND NOT EXISTS (SELECT FROM seen s
                              WHERE s.path = q.file_path AND s.inode = q.inode)
            """
        )

    def _find_links(self) -> None:
        self._database.execute(
            """
            -- Of several links to one file the first by name is taken.
            UPDATE candidates c SET verdict = 'linked', other = first.path
            FROM (SELECT device, inode, min(path) AS path FROM candidates
                  WHERE linked GROUP BY device, inode) AS first
            WHERE c.linked AND c.item IS NULL AND c.path <> first.path
              AND (c.device, c.inode) = (first.device, first.inode);
            UPDATE candidates c SET verdict = 'linked', other = q.file_path
            FROM processing_queue q
            WHERE c.linked AND c.verdict NOT IN ('renamed', 'waiting') AND q.inode = c.inode
              AND q.file_path <> c.path
              AND (q.device, q.size, q.mtime_ns) = (c.device, c.size, c.mtime_ns)
            """
        )

    def ready_pages(self) -> Iterator[Page]:
        """The films that seem to be ready, a page at a time, those that are ready longest first."""
        for rows in self._database.pages(
            """
            SELECT page, array_agg(path) FROM candidates WHERE verdict = 'ready'
            GROUP BY page ORDER BY page
            """,
            size=1,
        ):
            yield Page(number=rows[0][0], paths=rows[0][1])

    def candidates(self) -> list[Candidate]:
        """Every candidate in the order of the paths: for a person to read."""
        rows = self._database.rows(
            "SELECT path, verdict, checks, other FROM candidates ORDER BY path"
        )
        return [Candidate(**row) for row in rows]

    def known(self) -> list[tuple[str, str]]:
        """Path and status of each film that is in the queue as it is."""
        rows = self._database.rows(
            """
            SELECT s.path, q.status FROM seen s JOIN processing_queue q ON q.file_path = s.path
            WHERE NOT EXISTS (SELECT FROM candidates c WHERE c.path = s.path)
            ORDER BY s.path
            """
        )
        return [(row["path"], row["status"]) for row in rows]

    def counts(self) -> dict[str, int]:
        rows = self._database.rows("SELECT verdict, count(*) AS n FROM candidates GROUP BY verdict")
        return {row["verdict"]: row["n"] for row in rows}

    def hold_back(self, paths: Sequence[str]) -> None:
        """These are open for writing."""
        if paths:
            self._database.execute(
                "UPDATE candidates SET verdict = 'writing' WHERE path = ANY (%(paths)s)",
                {"paths": list(paths)},
            )

    # -- acting on it ----------------------------------------------------------------------

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

    def keep_for_later(self, limit: int) -> None:
        """Let only the first so many be ready."""
        self._database.execute(
            """
            UPDATE candidates SET verdict = 'later' WHERE verdict = 'ready' AND path NOT IN (
                SELECT path FROM candidates WHERE verdict = 'ready'
                ORDER BY ctime_ns, path LIMIT %(limit)s)
            """,
            {"limit": limit},
        )

    def queue(self, page: Page) -> int:
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
            {"page": page.number},
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

    def remember(self, root: str, verdicts: Mapping[str, int]) -> None:
        """Keep for the next scan what it needs to know, and nothing else."""
        is_unfinished = any(verdict in verdicts for verdict in _UNFINISHED)
        with self._database.transaction():
            if "waiting" in verdicts or "ready" in verdicts:
                self._refresh_waiting()
            if is_unfinished:
                self._remember_unfinished()
            elif verdicts.get("ready", 0) > _PAGE and self._is_only_root(root):
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
            {"unfinished": list(_UNFINISHED)},
        )

    def _is_only_root(self, root: str) -> bool:
        others = "SELECT EXISTS (SELECT FROM sightings WHERE NOT starts_with(path, %(root)s))"
        return not self._database.scalar(others, {"root": root.rstrip("/") + "/"})

    def _forget_sightings(self, root: str) -> None:
        """What is gone or in the queue was not renewed by this transaction."""
        self._database.execute(
            "DELETE FROM sightings WHERE starts_with(path, %(root)s) AND seen_at <> now()",
            {"root": root.rstrip("/") + "/"},
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

    # -- what has vanished -----------------------------------------------------------------

    def unseen_waiting(self, root: str) -> Iterator[Item]:
        """Pending items below `root` that the walk did not meet, a page at a time."""
        for page in self._database.pages(
            # The ids alone first: with whole rows the planner sorts instead of hashing.
            """
            SELECT q.id FROM processing_queue q
            WHERE q.status = 'pending' AND starts_with(q.file_path, %(root)s)
              AND NOT EXISTS (SELECT FROM seen s WHERE s.path = q.file_path)
              AND NOT EXISTS (SELECT FROM candidates c WHERE c.renamed = q.id)
              -- A row whose film is filed already needs no source.
              AND q.new_path IS NULL
            """,
            {"root": root.rstrip("/") + "/"},
            size=_PAGE,
        ):
            rows = self._database.rows(
                "SELECT * FROM processing_queue WHERE id = ANY (%(ids)s) AND status = 'pending'",
                {"ids": [item_id for (item_id,) in page]},
            )
            yield from (Item.from_row(row) for row in rows)


def copy_lines(walk: Iterable[Sighting]) -> Iterator[str]:
    """The walk in the text format of COPY."""
    for path, device, inode, size, mtime_ns, ctime_ns, linked, held, sidecars in walk:
        beside = json.dumps(sidecars).translate(_ESCAPES) if sidecars else "\\N"
        # The common path needs no escaping, and translate is slow.
        name = path if path.isprintable() and "\\" not in path else path.translate(_ESCAPES)
        yield (
            f"{name}\t{device}\t{inode}\t{size}\t{mtime_ns}\t{ctime_ns}"
            f"\t{'t' if linked else 'f'}\t{'t' if held else 'f'}\t{beside}\n"
        )
