"""A database, folders and settings for one benchmark, gone when it is over."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Cost, peak_mb, process
from embyproc.embedded import Embedded
from embyproc.migrate import migrate
from embyproc.store import Store
from embyproc.store.database import Database, open_database


class Place:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.embedded = Embedded(home=root / "home")
        self.embedded.ensure_running()
        self.parameters = self.embedded.connection_parameters()
        self.database: Database = open_database(self.parameters)
        migrate(self.database)
        self.store = Store(self.database, lambda: open_database(self.parameters))
        self.watch, self.destination = root / "watch", root / "destination"
        self.watch.mkdir()
        self.destination.mkdir()
        self.settings = {
            "PATH": os.environ["PATH"],
            "EMBYPROC_HOME": str(root / "home"),
            "WATCH_DIR": str(self.watch),
            "DESTINATION_DIR": str(self.destination),
            "STABILITY_MIN_AGE": "0",
            "API_BASE_URL": "http://127.0.0.1:1",
            "API_TOKEN": "unused",
            "EMBY_BASE_URL": "http://127.0.0.1:1",
            "EMBY_API_KEY": "unused",
            "EMBY_LIBRARY_PATH": "/mnt/library",
        }

    @property
    def dsn(self) -> str:
        return " ".join(f"{name}='{value}'" for name, value in self.parameters.items())

    def run(self, *words: str) -> Cost:
        """The real program, as cron starts it."""
        return process(self._command(*words), self.settings, self.root)

    def peak_mb(self, *words: str) -> float:
        return peak_mb(self._command(*words), self.settings, self.root)

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "embyproc", "-q", *words]

    def python(self, program: str, *words: str) -> Cost:
        """A few lines of Python that do the least there is to do."""
        return process([sys.executable, "-c", program, *words], self.settings, self.root)

    def add_completed(self, count: int) -> None:
        self.database.execute(
            """INSERT INTO processing_queue (file_path, status)
               SELECT '/old/' || n, 'completed' FROM generate_series(1, %(count)s) AS n""",
            {"count": count},
        )
        self.settle()

    def settle(self) -> None:
        """What would happen in the background by and by happens now, not in somebody's figure."""
        self.database.execute("VACUUM ANALYZE processing_queue, sightings")
        self.database.execute("CHECKPOINT")
        os.sync()  # a million files just made keep the disk busy for long

    def empty(self) -> None:
        self.database.execute(
            "TRUNCATE processing_queue, sightings, queue_events, services, watched_folders, runs"
        )


@contextmanager
def place() -> Iterator[Place]:
    root = Path(tempfile.mkdtemp(prefix="embyproc-bench-"))
    root.chmod(0o755)
    made = Place(root)
    try:
        yield made
    finally:
        made.database.close()
        made.embedded.stop()
        shutil.rmtree(root)
