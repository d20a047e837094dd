"""A whole installation in a temporary folder: watch and destination, WordPress on loopback."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from embyproc.config import Config, load
from embyproc.demo.wordpress import StandInWordPress
from embyproc.models import Item, RunSummary
from embyproc.stages import process, scan
from embyproc.stages.runner import Options, running
from embyproc.store import Store

TOKEN = "secret-access-token-1"
REFRESH_TOKEN = "secret-refresh-token-1"


def entry(title: str, *performers: str, **fields: Any) -> dict[str, Any]:
    return {"title": title, "actress": list(performers) or ["Jane Doe"], **fields}


CATALOGUE = {
    "ABC-123": entry("ABC-123 The Quiet Garden", genre="Drama, Nature", release_date="2025-01-07"),
    "ABC-124": entry("a walk in the rain", "Mary Major", "Jane Doe"),
    "ABC-125": entry("don't look now"),
    "300MIUM-126": entry("Numbers First"),
    **{f"ROW-{n}": entry(f"row {n}", f"Performer {n % 7}") for n in range(100, 700)},
}


@dataclass(slots=True, kw_only=True)
class Installation:
    """What a person has: two folders, a site, settings."""

    watch: Path
    destination: Path
    site: StandInWordPress
    store: Store
    database_url: str
    variables: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "DATABASE_URL": self.database_url,
            "WATCH_DIR": str(self.watch),
            "DESTINATION_DIR": str(self.destination),
            "STABILITY_MIN_AGE": "0",
            "STABILITY_MIN_CHECKS": "1",
            "API_BASE_URL": self.site.api_url,
            "API_TOKEN": TOKEN,
            "API_REFRESH_TOKEN": REFRESH_TOKEN,
            **self.variables,
        }

    @property
    def config(self) -> Config:
        return load(self.environment())

    def put(self, *names: str, content: bytes | None = None) -> None:
        for name in names:
            path = self.watch / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(f"content of {name}".encode() if content is None else content)

    def scan(self) -> RunSummary:
        with running(self.store, self.config, "scan", Options()) as run:
            scan.run(run)
        return run.summary

    def process(self, **options: Any) -> RunSummary:
        with running(self.store, self.config, "process", Options(**options)) as run:
            process.run(run)
        return run.summary

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "embyproc", *words],
            capture_output=True,
            text=True,
            timeout=60,
            env=self.environment(),
            check=False,
        )

    def item(self, name: str) -> Item:
        (found,) = [i for i in self.store.looks.find() if i.file_path == str(self.watch / name)]
        return found

    def filed(self) -> dict[str, bytes]:
        """Every file below the destination, hidden ones included."""
        return tree(self.destination)

    def left(self) -> dict[str, bytes]:
        return tree(self.watch)


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def site() -> Iterator[StandInWordPress]:
    with StandInWordPress(CATALOGUE, token=TOKEN, refresh_token=REFRESH_TOKEN) as server:
        yield server


@pytest.fixture
def installation(
    tmp_path: Path, site: StandInWordPress, store: Store, database_url: str
) -> Installation:
    made = Installation(
        watch=tmp_path / "watch",
        destination=tmp_path / "destination",
        site=site,
        store=store,
        database_url=database_url,
    )
    made.watch.mkdir()
    made.destination.mkdir()
    return made


@pytest.fixture
def other_file_system() -> Iterator[Path]:
    """A folder on another device than tmp_path."""
    with tempfile.TemporaryDirectory(prefix="embyproc-", dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture
def two_file_systems(installation: Installation, other_file_system: Path) -> Installation:
    """The same installation with the destination on another device."""
    assert other_file_system.stat().st_dev != installation.watch.stat().st_dev
    installation.destination = other_file_system
    return installation
