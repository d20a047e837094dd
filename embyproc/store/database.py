"""One connection to PostgreSQL: opening it, running SQL, translating every failure."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from io import StringIO
from operator import itemgetter
from typing import Any, Protocol

import psycopg2

from embyproc.errors import ConfigError, DatabaseUnusable
from embyproc.models import Item

_CONNECT_SECONDS = 10

# A host that vanishes is noticed by keepalives only; times come back in UTC whatever the server's
# zone is; a lock held by somebody else may not hang a run for ever. The rows that wait are few and
# in memory: with the default page cost the planner distrusts the partial indexes that hold them.
_SESSION = """
    SET timezone TO 'UTC';
    SET tcp_keepalives_idle TO 30;
    SET tcp_keepalives_interval TO 10;
    SET tcp_keepalives_count TO 3;
    SET lock_timeout TO '30s';
    SET random_page_cost TO 1.1;
    SET jit TO off;
    SELECT clock_timestamp()
"""

Parameters = Mapping[str, Any]
Row = dict[str, Any]


class Clock(Protocol):
    """Where every time in a rule comes from; tests put a frozen one in its place."""

    def now(self) -> datetime: ...


class DatabaseClock:
    """The database's time, carried on by the local monotonic clock: hosts drift, this does not."""

    def __init__(self, database_time: datetime) -> None:
        self._base = database_time
        self._started = time.monotonic()

    def now(self) -> datetime:
        return self._base + timedelta(seconds=time.monotonic() - self._started)


class Database:
    """A connection in autocommit mode: no transaction is ever left open during other work."""

    def __init__(self, connection: Any, place: str, clock: Clock | None = None) -> None:
        self._connection = connection
        self._place = place
        with self._translated():
            connection.autocommit = True
            database_time = self.scalar(_SESSION)
        self.clock: Clock = clock or DatabaseClock(database_time)

    def rows(self, sql: str, parameters: Parameters | None = None) -> list[Row]:
        """Run one statement and return what it returns, each row by column name."""
        with self._translated(), self._connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            if cursor.description is None:
                return []
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def items(self, sql: str, parameters: Parameters | None = None) -> list[Item]:
        """Run one statement that returns rows of the queue, and return those as items."""
        with self._translated(), self._connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            # By name: a newer schema may have columns this version does not know.
            names = [column.name for column in cursor.description]
            fields = itemgetter(*(names.index(field) for field in Item._fields))
            return [Item.of(fields(row)) for row in cursor.fetchall()]

    def scalar(self, sql: str, parameters: Parameters | None = None) -> Any:
        """The first column of the first row, or None."""
        with self._translated(), self._connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            row = cursor.fetchone()
            return None if row is None else row[0]

    def pages(
        self, sql: str, parameters: Parameters | None = None, *, size: int
    ) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a large result, `size` at a time, kept on the server until they are asked
        for; no transaction is open meanwhile."""
        with self._translated(), self._connection.cursor("pages", withhold=True) as cursor:
            cursor.execute(sql, parameters)
            while page := cursor.fetchmany(size):
                yield page

    def execute(self, sql: str, parameters: Parameters | None = None) -> int:
        """Run one statement and return how many rows it touched."""
        with self._translated(), self._connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return int(cursor.rowcount)

    def copy(self, sql: str, lines: str) -> None:
        """Feed a COPY ... FROM STDIN statement with lines in its text format."""
        with self._translated(), self._connection.cursor() as cursor:
            # In one piece: each further one would wait for its turn beside a busy thread.
            cursor.copy_expert(sql, StringIO(lines), size=len(lines) + 1)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Several statements that happen all or not at all; only for SQL, never around work."""
        self.execute("BEGIN")
        try:
            yield
        except BaseException:
            if self.is_open:
                self.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    @property
    def is_open(self) -> bool:
        return not self._connection.closed

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Nothing of psycopg2 escapes from here."""
        try:
            yield
        except psycopg2.Error as error:
            raise DatabaseUnusable(f"{self._place}: {first_line(error)}") from error


def open_database(parameters: Mapping[str, Any], clock: Clock | None = None) -> Database:
    """Connect by libpq parameters, or by a URL under the key `dsn`.

    Raises DatabaseUnusable naming host, port and database, never the password.
    """
    parameters = _parsed(parameters["dsn"]) if "dsn" in parameters else parameters
    place = _place(parameters)
    settings = {
        "connect_timeout": _CONNECT_SECONDS,
        "application_name": "embyproc",
        **parameters,
        "client_encoding": "UTF8",  # whatever PGCLIENTENCODING says
    }
    try:
        connection = psycopg2.connect(**settings)
    except psycopg2.Error as error:
        reason = first_line(error)
        if password := str(parameters.get("password") or ""):
            reason = reason.replace(password, "***")
        raise DatabaseUnusable(f"{place} cannot be used: {reason}") from error
    return Database(connection, place, clock)


def _parsed(url: str) -> dict[str, Any]:
    from psycopg2.extensions import parse_dsn

    try:
        return dict(parse_dsn(url))
    except psycopg2.ProgrammingError:
        # libpq quotes the whole text, password and all: say nothing of what it said.
        expected = "postgresql://user:password@host:5432/name, special characters percent-encoded"
        problem = f"DATABASE_URL: found a value (not shown) that is no URL, expected {expected}"
        raise ConfigError([problem]) from None


def _place(parameters: Mapping[str, Any]) -> str:
    host = parameters.get("host") or "localhost"
    port = parameters.get("port") or 5432
    name = parameters.get("dbname") or parameters.get("user") or "(default)"
    return f"database {name} at {host}, port {port}"


def first_line(error: BaseException) -> str:
    """What the server said, without the hints and positions of the further lines."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
