"""kill -9 at random instants: nothing is lost, nothing is left behind.

EMBYPROC_KILLS sets how many kills; `make chaos` asks for 200.
"""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from installation import Installation

from embyproc.models import Status

KILLS = int(os.environ.get("EMBYPROC_KILLS", "20"))
FILES = 6
SIZE = 6_000_000


def digests(*roots: Path) -> dict[str, int]:
    """How often each content exists below the roots."""
    found: dict[str, int] = {}
    for root in roots:
        for path in root.rglob("*"):
            if path.is_file():
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found[digest] = found.get(digest, 0) + 1
    return found


@pytest.mark.timeout(60 + 4 * KILLS)
def test_kills_at_random_instants_lose_nothing(two_file_systems: Installation) -> None:
    installation, chance = two_file_systems, random.Random(KILLS)
    names = [f"ROW-{100 + n}.mp4" for n in range(FILES)]
    kills, rounds = 0, 0
    while kills < KILLS:
        rounds += 1
        for name in names:
            installation.put(f"{rounds}/{name}", content=chance.randbytes(SIZE))
            installation.put(f"{rounds}/{Path(name).stem}.en.srt")
        installation.scan()
        expected = digests(installation.watch, installation.destination)
        while installation.store.looks.is_waiting(Status.PENDING) and kills < KILLS:
            process = subprocess.Popen(
                [sys.executable, "-m", "embyproc", "process"],
                env=installation.environment(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            time.sleep(chance.uniform(0.1, 0.5))
            process.send_signal(signal.SIGKILL)
            _, errors = process.communicate(timeout=30)
            assert b"Traceback" not in errors
            kills += process.returncode == -signal.SIGKILL
            found = digests(installation.watch, installation.destination)
            assert expected.keys() <= found.keys(), "a content is nowhere"
            for path in installation.destination.rglob("*.mp4"):
                if not path.name.startswith("."):
                    assert path.stat().st_size == SIZE, "a partial file under a final name"
            # Each kill stands for a power cut of its own, not for a file that kills.
            installation.store.database.execute("UPDATE processing_queue SET deaths = 0")
            installation.store.queue.release_dead(
                [run_id for run_id, _ in installation.store.runs.unfinished_owners()]
            )
            installation.store.database.execute("UPDATE processing_queue SET deaths = 0")
        while installation.store.looks.is_waiting(Status.PENDING):
            assert installation.command("process").returncode == 0
        assert digests(installation.watch, installation.destination) == expected
        assert set(expected.values()) == {1}
    counts = installation.store.looks.counts()
    assert counts[Status.MOVED] == rounds * FILES == sum(counts.values())
    assert installation.left() == {}
    assert not [name for name in installation.filed() if ".embyproc-" in name]


def test_the_rows_of_a_killed_process_are_free_at_once(two_file_systems: Installation) -> None:
    """No waiting for its silence where this machine can tell that it is gone."""
    installation = two_file_systems
    installation.put("ROW-100.mp4", content=os.urandom(SIZE))
    installation.scan()
    installation.site.fail("slow", seconds=20, match="/wp-json/emby/v1/missav")
    process = subprocess.Popen(
        [sys.executable, "-m", "embyproc", "process"], env=installation.environment()
    )
    deadline = time.monotonic() + 30
    while not installation.store.looks.is_waiting(Status.PROCESSING):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait(timeout=10)
    installation.site.heal()
    assert installation.process().succeeded == 1
    events = installation.store.looks.events(installation.item("ROW-100.mp4").id)
    assert any("died" in (event.message or "") for event in events)
