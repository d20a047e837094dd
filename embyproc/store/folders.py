"""The configured folders as the last run met them: how an unmounted volume is recognised."""

from typing import NamedTuple

from embyproc.store.database import Database


class WatchedFolder(NamedTuple):
    """A folder and how much was in it."""

    device: int
    inode: int
    files: int


class Folders:
    def __init__(self, database: Database) -> None:
        self._database = database

    def last(self, path: str) -> WatchedFolder | None:
        rows = self._database.rows(
            "SELECT device, inode, files FROM watched_folders WHERE path = %(path)s",
            {"path": path},
        )
        return WatchedFolder(**rows[0]) if rows else None

    def remember(self, path: str, identity: tuple[int, int], files: int) -> None:
        self._database.execute(
            # No waiting for the disk: the next run writes it again.
            """
            SET LOCAL synchronous_commit TO off;
            INSERT INTO watched_folders (path, device, inode, files, seen_at)
            VALUES (%(path)s, %(device)s, %(inode)s, %(files)s, %(now)s)
            ON CONFLICT (path) DO UPDATE SET device = EXCLUDED.device, inode = EXCLUDED.inode,
                files = EXCLUDED.files, seen_at = EXCLUDED.seen_at
            """,
            {
                "path": path,
                "device": identity[0],
                "inode": identity[1],
                "files": files,
                "now": self._database.clock.now(),
            },
        )
