"""Brings the schema up to date from the numbered files in `migrations/`.

A small runner of our own: the libraries either record outside the transaction of the migration or
cost more to import than an idle run (yoyo: 48 ms), and adoption of a foreign table plus a lock that
also works behind a transaction pooler are a dozen lines.
"""

from pathlib import Path
from typing import NamedTuple

from embyproc.errors import DatabaseUnusable
from embyproc.models import Status
from embyproc.store.database import Database

# Any number that nobody else uses; two processes migrating at once wait for each other on it.
_LOCK = 5_206_151_966

_RECORD = """
    CREATE TABLE IF NOT EXISTS embyproc_migrations (
        version    INTEGER PRIMARY KEY,
        name       TEXT NOT NULL,
        applied_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT clock_timestamp()
    )
"""


class Migration(NamedTuple):
    version: int
    name: str
    path: Path


class SchemaState(NamedTuple):
    """Where the database stands: `current` 0 means no migration of ours was applied."""

    current: int
    latest: int
    has_queue: bool

    @property
    def is_empty(self) -> bool:
        return self.current == 0 and not self.has_queue


def available() -> list[Migration]:
    """The migrations of this version, in order; inside the wheel or beside the package."""
    package = Path(__file__).resolve().parent
    inside, beside = package / "migrations", package.parent / "migrations"
    found = []
    for path in sorted((inside if inside.is_dir() else beside).glob("[0-9]*.sql")):
        number, _, name = path.stem.partition("_")
        found.append(Migration(version=int(number), name=name, path=path))
    return found


def schema_state(database: Database) -> SchemaState:
    row = database.rows(
        """SELECT to_regclass('processing_queue') IS NOT NULL AS has_queue,
                  to_regclass('embyproc_migrations') IS NOT NULL AS has_record"""
    )[0]
    current = 0
    if row["has_record"]:
        current = database.scalar("SELECT COALESCE(max(version), 0) FROM embyproc_migrations")
    latest = available()[-1].version
    return SchemaState(current=current, latest=latest, has_queue=row["has_queue"])


def migrate(database: Database) -> list[Migration]:
    """Apply what is missing, all or nothing, and return it; raises where the schema is newer."""
    with database.transaction():
        database.execute("SELECT pg_advisory_xact_lock(%(lock)s)", {"lock": _LOCK})
        state = schema_state(database)
        _refuse_newer(state)
        _refuse_unknown_statuses(database, state)
        database.execute(_RECORD)
        missing = [m for m in available() if m.version > state.current]
        for migration in missing:
            database.execute(migration.path.read_text(encoding="utf-8"))
            database.execute(
                "INSERT INTO embyproc_migrations (version, name) VALUES (%(version)s, %(name)s)",
                {"version": migration.version, "name": migration.name},
            )
    return missing


def ensure_usable(database: Database) -> None:
    """Make an empty database ours; raise with what to do where the schema does not fit."""
    state = schema_state(database)
    if state.current == state.latest:
        return
    _refuse_newer(state)
    if state.is_empty:
        migrate(database)
        return
    found = f"at version {state.current}" if state.current else "of the earlier emby-processor"
    raise DatabaseUnusable(
        f"the database schema is {found} and this program needs version {state.latest}; "
        "make a backup, then run: embyproc migrate"
    )


def _refuse_unknown_statuses(database: Database, state: SchemaState) -> None:
    """Rows of an adopted table that no stage would ever take."""
    if state.current or not state.has_queue:
        return
    rows = database.rows("SELECT DISTINCT status FROM processing_queue ORDER BY status")
    unknown = [row["status"] for row in rows if row["status"] not in set(Status)]
    if unknown:
        listed = ", ".join(repr(status) for status in unknown)
        raise DatabaseUnusable(
            f"processing_queue holds rows with the status {listed}, which nothing here knows; "
            "change or delete them, then run: embyproc migrate"
        )


def _refuse_newer(state: SchemaState) -> None:
    if state.current > state.latest:
        raise DatabaseUnusable(
            f"the database schema is at version {state.current}, newer than this program knows "
            f"({state.latest}); update embyproc on this machine"
        )
