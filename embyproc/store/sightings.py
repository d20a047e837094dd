"""What one walk saw, judged against the queue: set-based, whatever the number of films.

The walk is copied into a temporary table, what is new in it becomes `candidates` with a verdict
each. Films that wait in the queue just as they are cost one join and nothing more.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

from embyproc.models import Item, Sighting
from embyproc.store.database import Database

SOURCE_MISSING = "Source file missing"

# Verdicts on films that the next scan looks at again.
UNFINISHED = ("settling", "young", "held", "writing", "later")

# Rows that are in memory at a time.
_ROWS = 5000

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


# The walk beside the queue and beside what the last scan remembers of films that were not ready.
JUDGE = """
    SELECT s.*, q.id AS item, q.status,
           COALESCE(q.error_message LIKE %(missing)s, false) AS back,
           NULL::text AS other, NULL::int AS renamed,
           CASE WHEN s.unseen IS NOT NULL THEN 'unseen'
                WHEN q.status = 'pending'
                     AND (q.inode, q.size, q.mtime_ns) = (s.inode, s.size, s.mtime_ns)
                THEN 'waiting'
                WHEN s.held THEN 'held'
                WHEN s.checks < %(min_checks)s THEN 'settling'
                WHEN s.ctime_ns > %(oldest)s AND s.since > %(before)s THEN 'young'
                ELSE 'ready' END AS verdict
    FROM (SELECT n.*, CASE WHEN n.path IS NULL THEN p.id END AS unseen,
                 COALESCE(g.checks, 0) + 1 AS checks, COALESCE(g.since, %(now)s) AS since
          -- Most films wait in the queue just as they are: they meet this join and no more.
          FROM seen n FULL JOIN (
              SELECT id, file_path, inode, size, mtime_ns, sidecars FROM processing_queue
              -- Where the row's own film is filed already, this is another one: later.
              WHERE status = 'pending' AND new_path IS NULL
                AND starts_with(file_path, %(root)s)) AS p ON p.file_path = n.path
          LEFT JOIN sightings g ON g.path = n.path
              -- Not the device: its number differs between hosts and between mounts.
              AND (g.inode, g.size, g.mtime_ns, g.ctime_ns)
                = (n.inode, n.size, n.mtime_ns, n.ctime_ns)
          WHERE n.path IS NULL
             OR (p.inode, p.size, p.mtime_ns, p.sidecars)
                IS DISTINCT FROM (n.inode, n.size, n.mtime_ns, n.sidecars)
          -- A fence: the planner takes new films for few and would look up each of them.
          OFFSET 0) AS s
    LEFT JOIN processing_queue q ON q.file_path = s.path
    WHERE q.id IS NULL
       OR (q.status = 'pending' AND q.new_path IS NULL)
       OR (q.status = 'error' AND q.error_message LIKE %(missing)s)
       OR (q.status = 'error' AND q.new_path IS NULL AND q.inode IS NOT NULL
           AND (q.inode, q.size, q.mtime_ns) <> (s.inode, s.size, s.mtime_ns))
       OR (q.status = 'completed' AND CASE WHEN q.inode IS NOT NULL
            THEN (q.inode, q.size, q.mtime_ns) <> (s.inode, s.size, s.mtime_ns)
            -- An adopted row: what arrived after it was completed is something new.
            ELSE s.ctime_ns / 1e9 > EXTRACT(EPOCH FROM q.updated_at) END)
"""


class Candidate(NamedTuple):
    """A film that is not in the queue as it is now, and what is to be done about it.

    `verdict` is `ready`, `renamed`, `waiting` (queued, but its file changed), `settling`, `young`,
    `held`, `writing` or `linked`.
    """

    path: str
    verdict: str
    checks: int
    other: str | None


class Verdicts(NamedTuple):
    """All candidates in figures."""

    counts: Counter[str]
    # The pages of the walk with films that are ready.
    ready: Sequence[int]
    # Whether any of them has other links, and whether any has been in the queue before.
    links: bool
    known: bool


class Sightings:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._pages = 0

    def open(self) -> None:
        """Forget what an earlier walk saw."""
        self._pages = 0

    def _make_table(self) -> None:
        """A new, empty table for what a walk sees: only made when there is something to see."""
        self._database.execute(
            # Temporary tables: nothing of them needs to reach the disk.
            """
            SET LOCAL synchronous_commit TO off;
            SET work_mem TO '64MB';
            SET temp_buffers TO '32MB';
            CREATE TEMPORARY TABLE IF NOT EXISTS seen (
                path TEXT, device BIGINT, inode BIGINT, size BIGINT, mtime_ns BIGINT,
                ctime_ns BIGINT, linked BOOLEAN, held BOOLEAN, sidecars JSONB, page INTEGER);
            TRUNCATE seen
            """
        )

    def load(self, lines: Sequence[str]) -> None:
        """Add a page of the walk, as `copy_lines` writes it.

        A COPY of its own for each page: no transaction is open while the disk is read.
        """
        if not lines:
            return
        if self._pages == 0:
            self._make_table()
        ending = f"\t{self._pages}\n"
        self._database.copy("COPY seen FROM STDIN", ending.join(lines) + ending)
        self._pages += 1

    def judge(
        self, root: str, *, min_checks: int, min_age: float, oldest_ctime_ns: int
    ) -> Verdicts:
        """Make `candidates`: films that are new, changed or back, with a verdict each; and items
        whose film was not seen.

        `oldest_ctime_ns` is the time of change, by this machine's clock, before which a file is
        old enough; by the database's clock, having looked the same for `min_age` does as well.
        """
        if self._pages == 0:
            if not self._is_anything_waiting():
                return Verdicts(counts=Counter(), ready=(), links=False, known=False)
            self._make_table()
        self._database.execute(
            "SET LOCAL synchronous_commit TO off; DROP TABLE IF EXISTS candidates; "
            "CREATE TEMPORARY TABLE candidates AS " + JUDGE,
            {
                "now": self._database.clock.now(),
                "before": self._database.clock.now() - timedelta(seconds=min_age),
                "min_checks": min_checks,
                "oldest": oldest_ctime_ns,
                "missing": SOURCE_MISSING + "%",
                "root": below(root),
            },
        )
        verdicts = self._verdicts()
        touched = self._find_renamed() if self._may_be_renamed(verdicts) else 0
        if verdicts.links:
            self._find_links()
        if len(verdicts.ready) > 1:
            self._database.execute("CREATE INDEX ON candidates (page)")
        return self._verdicts() if touched or verdicts.links else verdicts

    def _is_anything_waiting(self) -> bool:
        waiting = "SELECT EXISTS (SELECT FROM processing_queue WHERE status = 'pending')"
        return bool(self._database.scalar(waiting))

    def _verdicts(self) -> Verdicts:
        rows = self._database.rows(
            """
            SELECT verdict, page, count(*) AS films, bool_or(linked) AS links,
                   bool_or(item IS NOT NULL) AS known
            FROM candidates GROUP BY verdict, page
            """
        )
        counts: Counter[str] = Counter()
        for row in rows:
            counts[row["verdict"]] += row["films"]
        return Verdicts(
            counts=counts,
            ready=sorted(row["page"] for row in rows if row["verdict"] == "ready"),
            links=any(row["links"] for row in rows),
            known=any(row["known"] for row in rows),
        )

    def _may_be_renamed(self, verdicts: Verdicts) -> bool:
        """Whether there is a name under which something waits or failed, and which it lost."""
        if not verdicts.counts:
            return False
        if verdicts.known or "unseen" in verdicts.counts:
            return True
        failed = "SELECT EXISTS (SELECT FROM processing_queue WHERE status = 'error')"
        return bool(self._database.scalar(failed))

    def _find_renamed(self) -> int:
        return self._database.execute(
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

    def ready(self, page: int) -> list[str]:
        """The films of a page of the walk that seem to be ready."""
        paths = "SELECT array_agg(path) FROM candidates WHERE page = %(page)s AND verdict = 'ready'"
        return self._database.scalar(paths, {"page": page}) or []

    def hold_back(self, page: int, paths: Sequence[str]) -> None:
        """These are open for writing."""
        if paths:
            self._database.execute(
                """
                UPDATE candidates SET verdict = 'writing'
                WHERE page = %(page)s AND path = ANY (%(paths)s)
                """,
                {"page": page, "paths": list(paths)},
            )

    def keep_for_later(self, limit: int) -> Verdicts:
        """Let only the first so many be ready."""
        self._database.execute(
            """
            UPDATE candidates SET verdict = 'later' WHERE verdict = 'ready' AND path NOT IN (
                SELECT path FROM candidates WHERE verdict = 'ready'
                ORDER BY ctime_ns, path LIMIT %(limit)s)
            """,
            {"limit": limit},
        )
        return self._verdicts()

    def unseen(self) -> Iterator[Item]:
        """Pending items that the walk did not meet, under no name."""
        for page in self._database.pages(
            """
            SELECT unseen FROM candidates c WHERE verdict = 'unseen'
              AND NOT EXISTS (SELECT FROM candidates r WHERE r.renamed = c.unseen)
            """,
            size=_ROWS,
        ):
            yield from self._database.items(
                "SELECT * FROM processing_queue WHERE id = ANY (%(ids)s) AND status = 'pending'",
                {"ids": [item_id for (item_id,) in page]},
            )

    def candidates(self) -> list[Candidate]:
        """Every candidate in the order of the paths: for a person to read."""
        if self._pages == 0:
            return []
        rows = self._database.rows(
            """
            SELECT path, verdict, checks, other FROM candidates WHERE verdict <> 'unseen'
            ORDER BY path
            """
        )
        return [Candidate(**row) for row in rows]

    def known(self) -> list[tuple[str, str]]:
        """Path and status of each film that is in the queue as it is."""
        if self._pages == 0:
            return []
        rows = self._database.rows(
            """
            SELECT s.path, q.status FROM seen s JOIN processing_queue q ON q.file_path = s.path
            WHERE NOT EXISTS (SELECT FROM candidates c WHERE c.path = s.path)
            ORDER BY s.path
            """
        )
        return [(row["path"], row["status"]) for row in rows]


def below(folder: str) -> str:
    """With what the path of everything in the folder begins."""
    return folder.rstrip("/") + "/"


def copy_lines(walk: Iterable[Sighting]) -> Iterator[str]:
    """The walk in the text format of COPY, without the ends of the lines."""
    for path, device, inode, size, mtime_ns, ctime_ns, linked, held, sidecars in walk:
        beside = json.dumps(sidecars).translate(_ESCAPES) if sidecars else "\\N"
        # The common path needs no escaping, and translate is slow.
        name = path if path.isprintable() and "\\" not in path else path.translate(_ESCAPES)
        yield (
            f"{name}\t{device}\t{inode}\t{size}\t{mtime_ns}\t{ctime_ns}"
            f"\t{'t' if linked else 'f'}\t{'t' if held else 'f'}\t{beside}"
        )
