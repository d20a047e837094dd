"""The composition root: builds configuration, store and report, once, and hands them down."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from embyproc.config import Config, load
from embyproc.errors import DatabaseUnusable
from embyproc.log import Log
from embyproc.report import Report

if TYPE_CHECKING:
    from embyproc.store import Store
    from embyproc.store.database import Clock, Database


# The ids of the queue are PostgreSQL integers.
ITEM_ID = click.IntRange(min=1, max=2**31 - 1)


class App:
    """What a command needs, made when it is first asked for."""

    def __init__(
        self, environ: Mapping[str, str] | None = None, clock: "Clock | None" = None
    ) -> None:
        self.env_file: Path | None = None
        self.report = Report()
        self.log = Log()
        self._environ = os.environ if environ is None else environ
        self._clock = clock
        self._config: Config | None = None
        self._store: Store | None = None

    @property
    def config(self) -> Config:
        if self._config is None:
            # Settings that were handed in are all there is: the demo reads nobody's ./.env.
            own = self._environ is not os.environ
            self._config = load(self._environ, self.env_file, use_env_file=not own)
        return self._config

    @property
    def store(self) -> "Store":
        """The store over a database whose schema fits; an empty database is made ours."""
        if self._store is None:
            from embyproc.migrate import ensure_usable
            from embyproc.store import Store

            database = self.open_database()
            self._store = Store(database, self.open_database)
            ensure_usable(database)
        return self._store

    def open_database(self) -> "Database":
        """A connection to the configured database, or to the embedded one, started if need be."""
        from embyproc.store.database import open_database

        if not self.config.uses_embedded_database:
            return open_database(self.config.database_parameters(), self._clock)
        from embyproc.embedded import Embedded

        embedded = Embedded(home=self.config.embyproc_home)
        try:
            return open_database(embedded.connection_parameters(), self._clock)
        except DatabaseUnusable:
            embedded.ensure_running()
            return open_database(embedded.connection_parameters(), self._clock)

    def print_json(self, value: Any) -> None:
        import json

        self.report.line(json.dumps(value, ensure_ascii=True, default=str))

    def without_secrets(self, text: str) -> str:
        """`text` with every configured secret blotted out: the last gate before the screen."""
        for secret in self._config.secrets() if self._config else ():
            text = text.replace(secret, "***")
        return text

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
