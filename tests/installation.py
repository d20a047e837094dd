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
from embyproc.demo.emby import StandInEmby
from embyproc.demo.wordpress import StandInWordPress
from embyproc.models import Item, RunSummary
from embyproc.stages import emby, process, scan
from embyproc.stages.runner import Options, running
from embyproc.store import Store

TOKEN = "secret-access-token-1"
REFRESH_TOKEN = "secret-refresh-token-1"
EMBY_KEY = "secret-emby-key-1"


def entry(title: str, *performers: str, **fields: Any) -> dict[str, Any]:
    return {"title": title, "actress": list(performers) or ["Jane Doe"], **fields}


CATALOGUE = {
    "ABC-123": entry(
        "ABC-123 The Quiet Garden",
        genre="Drama, Nature",
        label="Studio One",
        overview="A garden, in winter.",
        original_title="静かな庭",
        release_date="2025-01-07",
        image_cropped="{base}/crop/abc123.jpg?w=400&horizontal=1&k=v",
    ),
    "ABC-124": entry("a walk in the rain", "Mary Major", "Jane Doe"),
    "ABC-125": entry("don't look now"),
    "300MIUM-126": entry("Numbers First"),
    **{
        f"ROW-{n}": entry(
            f"row {n}", f"Performer {n % 7}", image_cropped=f"{{base}}/crop/row{n}.jpg?horizontal=1"
        )
        for n in range(100, 700)
    },
}


@dataclass(slots=True, kw_only=True)
class Installation:
    """What a person has: two folders, a site, settings."""

    watch: Path
    destination: Path
    site: StandInWordPress
    store: Store
    database_url: str
    emby: StandInEmby | None = None
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
            **self._emby_settings(),
            **self.variables,
        }

    def _emby_settings(self) -> dict[str, str]:
        if self.emby is None:
            return {}
        return {
            "EMBY_BASE_URL": self.emby.base_url,
            "EMBY_API_KEY": EMBY_KEY,
            "EMBY_LIBRARY_PATH": "/mnt/library",
            "EMBY_PARENT_FOLDER_ID": self.emby.parent_folder_id,
            "EMBY_SCAN_RETRY_DELAYS": "0.05,0.1,0.2,0.4",
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

    def emby_run(self, **options: Any) -> RunSummary:
        with running(self.store, self.config, "emby", Options(**options)) as run:
            emby.run(run)
        return run.summary

    def file_everything(self) -> None:
        """Everything in the watch folder up to `moved`."""
        self.scan()
        self.process()

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


@pytest.fixture
def with_emby(installation: Installation) -> Iterator[Installation]:
    """The installation with an Emby that sees the destination as /mnt/library."""
    with StandInEmby(installation.destination, api_key=EMBY_KEY) as server:
        installation.emby = server
        yield installation
        assert not server.forbidden_calls
        assert not server.key_in_url
        assert not server.contract_violations
        assert not server.errors
