"""The diff of the watch folder against the queue, set-based, over what one walk saw.

The walk is copied into a temporary table, what is new in it becomes `candidates` with a verdict
each, and a few statements act on the verdicts. Known files cost one join and nothing more.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from embyproc.models import Item, Sighting
from embyproc.store.database import Database

SOURCE_MISSING = "Source file missing"

# Rows of the walk that are in memory at a time.
_CHUNK = 5000

# Only one scan at a time acts on its verdicts: two would wait for each other's rows.
_LOCK = 5_206_151_967

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedFolder:
    """What the last scan saw of the watched folder itself."""

    device: int
    inode: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A film that is not in the queue as it is now, and what is to be done about it.

    `verdict` is `ready`, `renamed`, `waiting` (queued, but its file changed), `settling`, `young`,
    `held`, `writing` or `linked`.
    """

    path: str
    verdict: str
    checks: int
    other: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """What a scan has put into the queue; `ids` is cut, `count` is not."""

    count: int
    items: Sequence[tuple[int, str]]


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

    def load(self, walk: Iterable[Sighting], progress: Callable[[int], None]) -> int:
        """Copy a walk into the temporary table, a chunk at a time; returns how many films.

        `progress` is told the number so far, and may raise to stop.
        """
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
        total = 0
        lines = _copy_lines(walk)
        # A COPY of its own for each chunk, so that no transaction is open while the disk is read.
        while chunk := list(islice(lines, _CHUNK)):
            self._database.copy("COPY seen FROM STDIN", chunk)
            total += len(chunk)
            progress(total)
        return total

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
                   COALESCE(g.checks, 0) + 1 AS checks, COALESCE(g.since, %(now)s) AS since,
                   COALESCE(q.error_message LIKE %(missing)s, false) AS back,
                   NULL::text AS other, NULL::int AS renamed,
                   CASE WHEN q.status = 'pending'
                             AND (q.inode, q.size, q.mtime_ns) = (s.inode, s.size, s.mtime_ns)
                        THEN 'waiting'
                        WHEN s.held THEN 'held'
                        WHEN COALESCE(g.checks, 0) + 1 < %(min_checks)s THEN 'settling'
                        WHEN s.ctime_ns > %(oldest)s AND COALESCE(g.since, %(now)s) > %(before)s
                        THEN 'young' ELSE 'ready' END AS verdict
            FROM seen s
            LEFT JOIN processing_queue q ON q.file_path = s.path
            LEFT JOIN sightings g ON g.path = s.path
                -- Not the device: its number differs between hosts and between mounts.
                AND (g.inode, g.size, g.mtime_ns, g.ctime_ns)
                  = (s.inode, s.size, s.mtime_ns, s.ctime_ns)
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
            },
        )
        links = self._database.scalar("SELECT bool_or(linked) FROM candidates")
        if links is not None:
            self._find_renamed()
        if links:
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

    def ready_pages(self) -> Iterator[list[str]]:
        """The films that seem to be ready, a page at a time."""
        for page in self._database.pages(
            "SELECT path FROM candidates WHERE verdict = 'ready'", size=_CHUNK
        ):
            yield [path for (path,) in page]

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
        self._database.execute(
            "UPDATE candidates SET verdict = 'writing' WHERE path = ANY (%(paths)s)",
            {"paths": list(paths)},
        )

    # -- acting on it ----------------------------------------------------------------------

    def apply(self, root: str, limit: int | None, *, told: int) -> Queued | None:
        """Queue what is ready, follow what was renamed, remember the rest for the next scan.

        Returns how many items were queued, and the first `told` of them; None, with nothing
        changed, where another scan is doing the same at this moment.
        """
        counts = self.counts()
        queued = Queued(count=0, items=())
        with self._database.transaction():
            lock = "SELECT pg_try_advisory_xact_lock(%(lock)s)"
            if not self._database.scalar(lock, {"lock": _LOCK}):
                return None
            if "renamed" in counts:
                self._follow_renamed()
            if "ready" in counts:
                queued = self._queue_ready(limit, told)
            if counts.keys() & {"waiting", "ready"}:
                self._refresh_waiting()
            if counts.keys() & {"settling", "young", "held", "writing", "ready"}:
                self._remember_unfinished()
            self._forget_sightings(root)
        return queued

    def _follow_renamed(self) -> None:
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

    def _queue_ready(self, limit: int | None, told: int) -> Queued:
        if limit is not None:
            self._database.execute(
                """
                UPDATE candidates SET verdict = 'later' WHERE verdict = 'ready' AND path NOT IN (
                    SELECT path FROM candidates WHERE verdict = 'ready'
                    ORDER BY ctime_ns, path LIMIT %(limit)s)
                """,
                {"limit": limit},
            )
        added = self._database.execute(
            """
            INSERT INTO processing_queue
                (file_path, device, inode, size, mtime_ns, ctime_ns, sidecars)
            SELECT path, device, inode, size, mtime_ns, ctime_ns, sidecars FROM candidates
            WHERE verdict = 'ready' AND item IS NULL
              -- Another scan may have been quicker; it held the lock that is ours now.
              AND NOT EXISTS (SELECT FROM processing_queue q WHERE q.file_path = path)
            ORDER BY ctime_ns
            """
        )
        again = self._database.execute(
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
        rows = self._database.rows(
            """
            SELECT q.id, q.file_path
            FROM (SELECT path FROM candidates WHERE verdict = 'ready' LIMIT %(told)s) AS r
            JOIN processing_queue q ON q.file_path = r.path ORDER BY q.id
            """,
            {"told": told},
        )
        return Queued(count=added + again, items=[(row["id"], row["file_path"]) for row in rows])

    def _remember_unfinished(self) -> None:
        self._database.execute(
            """
            INSERT INTO sightings (path, device, inode, size, mtime_ns, ctime_ns, checks, since)
            SELECT path, device, inode, size, mtime_ns, ctime_ns, checks, since FROM candidates
            WHERE verdict IN ('settling', 'young', 'held', 'writing', 'later')
            ON CONFLICT (path) DO UPDATE SET device = EXCLUDED.device, inode = EXCLUDED.inode,
                size = EXCLUDED.size, mtime_ns = EXCLUDED.mtime_ns, ctime_ns = EXCLUDED.ctime_ns,
                checks = EXCLUDED.checks, since = EXCLUDED.since
            """
        )

    def _forget_sightings(self, root: str) -> None:
        """What is gone, or in the queue since the last scan, need not be remembered."""
        self._database.execute(
            """
            DELETE FROM sightings g
            WHERE starts_with(g.path, %(root)s)
              AND NOT EXISTS (SELECT FROM candidates c WHERE c.path = g.path)
            """,
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
        after = 0
        while rows := self._database.rows(
            """
            SELECT q.* FROM processing_queue q
            WHERE q.status = 'pending' AND q.id > %(after)s AND starts_with(q.file_path, %(root)s)
              AND NOT EXISTS (SELECT FROM seen s WHERE s.path = q.file_path)
              AND NOT EXISTS (SELECT FROM candidates c WHERE c.renamed = q.id)
              -- A row whose film is filed already needs no source.
              AND q.new_path IS NULL
            ORDER BY q.id LIMIT %(page)s
            """,
            {"after": after, "root": root.rstrip("/") + "/", "page": _CHUNK},
        ):
            yield from (Item.from_row(row) for row in rows)
            after = rows[-1]["id"]


def _copy_lines(walk: Iterable[Sighting]) -> Iterator[str]:
    """The walk in the text format of COPY."""
    for path, device, inode, size, mtime_ns, ctime_ns, linked, held, sidecars in walk:
        beside = json.dumps(sidecars).translate(_ESCAPES) if sidecars else "\\N"
        # The common path needs no escaping, and translate is slow.
        name = path if path.isprintable() and "\\" not in path else path.translate(_ESCAPES)
        yield (
            f"{name}\t{device}\t{inode}\t{size}\t{mtime_ns}\t{ctime_ns}"
            f"\t{'t' if linked else 'f'}\t{'t' if held else 'f'}\t{beside}\n"
        )
