"""Real PostgreSQL for the tests: one server, a template migrated once, a clone per test."""

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg2
import pytest
from installation import installation, other_file_system, site, two_file_systems, with_emby

from embyproc.config import Config, load
from embyproc.embedded import Embedded
from embyproc.migrate import migrate
from embyproc.store import Store
from embyproc.store.database import Database, open_database

__all__ = ["installation", "other_file_system", "site", "two_file_systems", "with_emby"]

CommandLine = Callable[..., subprocess.CompletedProcess[str]]


class WallClock:
    """The clock of this process, which freezegun can freeze."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class Server:
    """A PostgreSQL on which databases are made and dropped."""

    def __init__(self, url: str) -> None:
        self.url = url

    def url_of(self, name: str) -> str:
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    def execute(self, sql: str) -> None:
        connection = psycopg2.connect(self.url)
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(sql)
        connection.close()

    def create(self, template: str | None = None) -> str:
        name = f"embyproc_test_{uuid.uuid4().hex[:12]}"
        source = f" TEMPLATE {template}" if template else " TEMPLATE template0"
        self.execute(f"CREATE DATABASE {name}{source} ENCODING 'UTF8'")
        return name

    def drop(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """A folder that every account may enter, as the embedded server needs when run by root."""
    folder = Path(tempfile.mkdtemp(prefix="embyproc-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def server(open_folder: Path) -> Iterator[Server]:
    """TEST_DATABASE_URL, or an embedded server that forgets its data after the tests."""
    if url := os.environ.get("TEST_DATABASE_URL"):
        yield Server(url)
        return
    embedded = Embedded(
        home=open_folder / "server", extra_settings=(("fsync", "off"), ("max_connections", "100"))
    )
    embedded.ensure_running()
    parameters = embedded.connection_parameters()
    host = quote(parameters["host"], safe="")
    yield Server(f"postgresql://{parameters['user']}@/{parameters['dbname']}?host={host}")
    embedded.stop()


@pytest.fixture(scope="session")
def template(server: Server) -> Iterator[str]:
    name = server.create()
    database = open_database({"dsn": server.url_of(name)})
    migrate(database)
    database.close()
    yield name
    server.drop(name)


@pytest.fixture
def database_url(server: Server, template: str) -> Iterator[str]:
    """A database of this test's own, with the current schema."""
    name = server.create(template)
    yield server.url_of(name)
    server.drop(name)


@pytest.fixture
def empty_database_url(server: Server) -> Iterator[str]:
    name = server.create()
    yield server.url_of(name)
    server.drop(name)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = open_database({"dsn": database_url}, WallClock())
    yield database
    database.close()


@pytest.fixture
def store(database: Database, database_url: str) -> Store:
    return Store(database, lambda: open_database({"dsn": database_url}, WallClock()))


@pytest.fixture
def config() -> Config:
    return load({})


@pytest.fixture
def command_line(database_url: str, tmp_path: Path) -> CommandLine:
    """Run the real program in a process of its own, as cron would, on this test's database."""

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "DATABASE_URL": database_url,
            **variables,
        }
        return subprocess.run(
            [sys.executable, "-m", "embyproc", *words],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
            env=environment,
            check=False,
        )

    return run
