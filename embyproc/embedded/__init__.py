"""The embedded PostgreSQL: where it lives and how to reach it.

Every run needs this much; what it takes to start a server is imported by the run that has to.
"""

import os
from dataclasses import dataclass
from pathlib import Path

USER = "embyproc"
# The cluster is ours alone, so the database that initdb makes is good enough.
DATABASE = "postgres"

_SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_PATH_LIMIT = 107  # bytes in sun_path


@dataclass(slots=True, kw_only=True)
class Embedded:
    """An embedded server in `home`; nothing is started until `ensure_running`."""

    home: Path
    extra_settings: tuple[tuple[str, str], ...] = ()

    @property
    def data(self) -> Path:
        return self.home / "postgres"

    @property
    def socket_folder(self) -> Path:
        """Where clients connect: in the home, or a private folder where that path is too long."""
        folder = self.home / "run"
        if len(os.fsencode(folder / _SOCKET_NAME)) <= _SOCKET_PATH_LIMIT:
            return folder
        import hashlib
        import tempfile

        digest = hashlib.sha256(os.fsencode(self.home)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"embyproc-{os.geteuid()}-{digest}"

    def connection_parameters(self) -> dict[str, str]:
        # The port too: PGPORT in the environment is about somebody else's server.
        return {
            "host": str(self.socket_folder),
            "port": "5432",
            "user": USER,
            "dbname": DATABASE,
        }

    def ensure_running(self) -> None:
        """Start the server unless it runs; safe when several processes do it at once.

        Raises ConfigError where it can never start, DatabaseUnusable where it did not this time.
        """
        from embyproc.embedded.server import Server

        Server(self).ensure_running()

    def stop(self) -> None:
        """Stop the server if it runs, waiting until its files are closed."""
        from embyproc.embedded.server import Server

        Server(self).stop()
