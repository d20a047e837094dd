"""The store: the only package with SQL, apart from the migrations."""

from collections.abc import Callable

from embyproc.store.arrivals import Arrivals
from embyproc.store.database import Clock, Database
from embyproc.store.folders import Folders
from embyproc.store.looks import Looks
from embyproc.store.queue import Queue
from embyproc.store.runs import Runs
from embyproc.store.services import Services
from embyproc.store.sightings import Sightings
from embyproc.store.upkeep import Upkeep

__all__ = ["Store"]


class Store:
    """Everything the program keeps in PostgreSQL, over one connection."""

    def __init__(self, database: Database, reopen: Callable[[], Database]) -> None:
        self.reopen = reopen
        self._use(database)

    def _use(self, database: Database) -> None:
        self.database = database
        self.queue = Queue(database)
        self.upkeep = Upkeep(database)
        self.runs = Runs(database)
        self.looks = Looks(database)
        self.folders = Folders(database)
        self.sightings = Sightings(database)
        self.arrivals = Arrivals(database)
        self.services = Services(database)

    @property
    def clock(self) -> Clock:
        return self.database.clock

    def reconnect(self) -> None:
        """A new connection in place of one that was cut; raises DatabaseUnusable."""
        self.database.close()
        self._use(self.reopen())

    def close(self) -> None:
        self.database.close()
