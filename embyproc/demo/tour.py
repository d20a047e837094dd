"""The tour: the whole pipeline on made-up files, with stand-in services, as cron would run it."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embyproc.demo.emby import StandInEmby
from embyproc.demo.samples import tiny_mp4
from embyproc.demo.wordpress import StandInWordPress
from embyproc.embedded import Embedded

Tell = Callable[[str], None]

UNFINISHED = "ORC-410 Still Arriving.mp4"

# Names that show the rules; a dozen and a half of small but real mp4 files.
FILES = (
    "hhd800.com@LMN-101.mp4",
    "lmn00102 the second garden 1080p.mp4",
    "LMN-103 English subbed A Quiet Harbour.mp4",
    "LMN-104-C.mp4",
    "300QRS-205.mp4",
    "FC2-PPV-1234567.mp4",
    "heyzo_hd_1380_full.mp4",
    "020126-001-carib-720p.mp4",
    "two parts/ORC-301-A.mp4",
    "two parts/ORC-301-B.mp4",
    "ORC-302/Unknown.mp4",
    "ORC-303.mp4",
    "holiday in the mountains.mp4",
    "ZZZ-999.mp4",
    "ORC-500.mp4.part",
    "@eaDir/LMN-101.mp4/thumbnail.mp4",
)
SIDECARS = ("ORC-303.en.srt", "ORC-303.nfo")

_TITLES = {
    "LMN-101": ("the garden behind the wall", "Ada Example"),
    "LMN-102": ("the second garden", "Ada Example"),
    "LMN-103": ("a quiet harbour", "Berta Sample"),
    "LMN-104": ("don't wake the cat", "Berta Sample"),
    "300QRS-205": ("300QRS-205 numbers first", "Clara Placeholder"),
    "FC2-PPV-1234567": ("seven short walks", "Dora Instance"),
    "HEYZO-1380": ("tea at four", "Dora Instance"),
    "020126-001": ("a letter from the coast", "Clara Placeholder"),
    "ORC-301": ("a long evening, in two parts", "Ada Example"),
    "ORC-302": ("known by its folder", "Emma Specimen"),
    "ORC-303": ("with subtitles", "Emma Specimen"),
    "ORC-410": ("still arriving", "Emma Specimen"),
}


def catalogue() -> dict[str, dict[str, Any]]:
    """What the stand-in source knows of the made-up works."""
    return {
        code: {
            "title": title,
            "actress": [performer],
            "genre": "Drama, Nature",
            "label": "Example Pictures",
            "overview": f"A made-up film for the demonstration: {title}.",
            "release_date": "2026-02-01",
            "image_cropped": f"{{base}}/crop/{code.lower()}.jpg?horizontal=1",
        }
        for code, (title, performer) in _TITLES.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where the tour takes place."""

    watch: Path
    destination: Path
    settings: dict[str, str]
    emby: StandInEmby


def tour(tell: Tell, *, keep: bool) -> None:
    """Play the whole story; leaves nothing behind unless asked to keep the folders."""
    root = Path(tempfile.mkdtemp(prefix="embyproc-demo-"))
    root.chmod(0o755)  # as root the database runs as another account
    try:
        with _stage(root) as stage:
            _play(stage, tell)
        if keep:
            tell(f"Kept: {stage.watch} (watch folder) and {stage.destination} (library).")
    finally:
        if keep:
            for name in ("home", "secrets"):
                shutil.rmtree(root / name, ignore_errors=True)
        else:
            shutil.rmtree(root)


@contextmanager
def _stage(root: Path) -> Iterator[Stage]:
    watch, destination = root / "downloads", root / "library"
    watch.mkdir()
    destination.mkdir()
    _put_files(watch)
    embedded = Embedded(home=root / "home", extra_settings=(("fsync", "off"),))
    with (
        StandInWordPress(catalogue(), token="demo-token", refresh_token="demo-refresh") as site,
        StandInEmby(destination, api_key="demo-key", index_delay_seconds=0.5) as emby,
        (watch / UNFINISHED).open("wb") as writer,
    ):
        writer.write(tiny_mp4(99)[:500])
        writer.flush()
        settings = {
            "EMBYPROC_HOME": str(root / "home"),
            "WATCH_DIR": str(watch),
            "DESTINATION_DIR": str(destination),
            "STABILITY_MIN_AGE": "0",
            "API_BASE_URL": site.api_url,
            "API_TOKEN": "demo-token",
            "EMBY_BASE_URL": emby.base_url,
            "EMBY_API_KEY": "demo-key",
            "EMBY_LIBRARY_PATH": "/mnt/library",
            "EMBY_SCAN_RETRY_DELAYS": "0.3,0.5,1,2",
        }
        embedded.ensure_running()
        try:
            yield Stage(watch=watch, destination=destination, settings=settings, emby=emby)
        finally:
            embedded.stop()


def _put_files(watch: Path) -> None:
    for number, name in enumerate(FILES):
        path = watch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tiny_mp4(number))
    for name in SIDECARS:
        (watch / name).write_text("1\n00:00:00,000 --> 00:00:02,000\nHello.\n")


def _play(stage: Stage, tell: Tell) -> None:
    tell("1. Downloads have arrived. One is still being written, one is a leftover .part file.")
    _tell_tree(stage.watch, tell)
    tell("")
    tell("2. Cron starts scan twice: a file is queued when two scans saw it unchanged.")
    _run(stage, tell, "scan")
    _run(stage, tell, "scan")
    tell("")
    tell("3. process reads the names, asks the source, and files what it knows.")
    _run(stage, tell, "process")
    _tell_tree(stage.destination, tell)
    tell("")
    tell("4. emby has Emby scan once for all of them, then sets title, people and pictures.")
    _run(stage, tell, "emby")
    _tell_emby(stage, tell)
    tell("")
    tell("5. retry would queue again what is due; then a look at the whole.")
    _run(stage, tell, "retry")
    _run(stage, tell, "status")
    tell("")
    tell("6. Why two items wait:")
    _run(stage, tell, "list", "--status", "error")
    tell("   One is known to no source yet: it is asked for again by itself. The other has no code")
    tell("   in its name: rename it, and scan follows it. The file that is still being written is")
    tell("   not in the queue at all:")
    _run(stage, tell, "scan", "--dry-run", only=UNFINISHED)
    tell("")
    tell("Next: embyproc explain 'YOUR-123 file.mp4'   what would be made of a name of yours")
    tell("      cp .env.example .env                  then edit it, and: embyproc scan --dry-run")


def _run(stage: Stage, tell: Tell, *words: str, only: str | None = None) -> None:
    """Run the real program as cron would, and show what it prints."""
    tell(f"   $ embyproc {' '.join(words)}")
    done = subprocess.run(
        [sys.executable, "-m", "embyproc", *words],
        env={"PATH": os.environ.get("PATH", ""), **stage.settings},
        cwd=stage.watch.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    for line in done.stdout.splitlines():
        if only is None or only in line:
            tell(f"     {line}")


def _tell_tree(root: Path, tell: Tell) -> None:
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    folder: Path | None = None
    for path in paths:
        place = path.parent.relative_to(root)
        if place != folder and str(place) != ".":
            tell(f"     {place}/")
        folder = place
        tell(f"     {'' if str(place) == '.' else '  '}{path.name}")


def _tell_emby(stage: Stage, tell: Tell) -> None:
    shown = stage.emby.items_by_path()
    tell(f"   Emby now shows {len(shown)} films, for example:")
    for item in list(shown.values())[:3]:
        people = ", ".join(person["Name"] for person in item["People"])
        pictures = ", ".join(sorted(stage.emby.images(item["Id"])))
        tell(f"     {item['Name']}")
        tell(f"       with {people}; {item['ProductionYear']}; {pictures}")
