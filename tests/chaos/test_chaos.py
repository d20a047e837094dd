"""Everything at once: overlapping runs, kills, faulty services, a restarting database.

The real program as subprocesses, on a PostgreSQL of its own. At the end the services are healthy,
the queue is drained and the invariants are checked. EMBYPROC_CHAOS_SEED replays a run's choices;
`make chaos` asks for 500 files, 8 runners and 100 kills with three seeds.
"""

import hashlib
import itertools
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from installation import CATALOGUE, EMBY_KEY, REFRESH_TOKEN, TOKEN, Installation

from embyproc.demo.emby import StandInEmby
from embyproc.demo.wordpress import StandInWordPress
from embyproc.embedded import Embedded
from embyproc.errors import DatabaseUnusable
from embyproc.migrate import migrate
from embyproc.models import LEGAL_MOVES, Status
from embyproc.store import Store
from embyproc.store.database import open_database

FILES = int(os.environ.get("EMBYPROC_CHAOS_FILES", "40"))
RUNNERS = int(os.environ.get("EMBYPROC_CHAOS_RUNNERS", "3"))
KILLS = int(os.environ.get("EMBYPROC_CHAOS_KILLS", "6"))
SEED = int(os.environ.get("EMBYPROC_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
# How many files arrive at a time: there is work as long as the storm lasts.
WAVE = max(1, FILES // 20)

# The program with a clock of its own: hours off, as after a dead battery.
CLOCK_OFF = (
    "import sys, time; real, real_ns = time.time, time.time_ns; off = float(sys.argv.pop(1));"
    "time.time = lambda: real() + off; time.time_ns = lambda: real_ns() + int(off * 1e9);"
    "from embyproc.cli import main; main()"
)


@pytest.fixture
def chaos(open_folder: Path) -> Iterator[tuple[Installation, Embedded]]:
    home = Path(tempfile.mkdtemp(prefix="chaos-", dir=open_folder))
    embedded = Embedded(home=home, extra_settings=(("fsync", "off"),))
    embedded.ensure_running()
    parameters = embedded.connection_parameters()
    database = open_database(parameters)
    migrate(database)
    url = f"postgresql://{parameters['user']}@/{parameters['dbname']}?host={parameters['host']}"
    watch = Path(tempfile.mkdtemp(prefix="embyproc-chaos-"))
    destination = Path(tempfile.mkdtemp(prefix="embyproc-chaos-", dir="/dev/shm"))
    catalogue = {code: fields for code, fields in CATALOGUE.items() if code.startswith("ROW-")}
    with (
        StandInWordPress(catalogue, token=TOKEN, refresh_token=REFRESH_TOKEN, seed=SEED) as site,
        StandInEmby(destination, api_key=EMBY_KEY, seed=SEED, index_delay_seconds=0.1) as emby,
    ):
        yield (
            Installation(
                watch=watch,
                destination=destination,
                site=site,
                emby=emby,
                store=Store(database, lambda: open_database(parameters)),
                database_url=url,
                variables={"RETRY_BACKOFF_MINUTES": "0", "MAX_RETRIES": "1000"},
            ),
            embedded,
        )
        assert not emby.forbidden_calls
        assert not emby.key_in_url
    embedded.stop()
    shutil.rmtree(watch)
    shutil.rmtree(destination)


class Storm:
    """Runners that start the program over and over and end it in every possible way."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.kills = 0
        self.runs = 0
        self.tracebacks: list[str] = []
        self.codes: set[int] = set()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._blow, args=(random.Random(SEED + number),), daemon=True)
            for number in range(RUNNERS)
        ]

    def __enter__(self) -> "Storm":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=90)
        assert not any(thread.is_alive() for thread in self._threads)

    def _blow(self, chance: random.Random) -> None:
        while not self._over.is_set():
            process = self._start(chance)
            end = chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, None])
            if end is not None:
                time.sleep(chance.uniform(0.02, chance.choice([0.15, 0.5, 1.5])))
                process.send_signal(end)
            try:
                _, errors = process.communicate(timeout=80)
            except subprocess.TimeoutExpired:
                process.kill()
                _, errors = process.communicate()
                self.tracebacks.append("a run did not end within 80 s")
            self.runs += 1
            self.kills += process.returncode == -signal.SIGKILL
            self.codes.add(process.returncode)
            if "Traceback" in errors:
                self.tracebacks.append(errors)

    def _start(self, chance: random.Random) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "embyproc"]
        if chance.random() < 0.1:
            command = [sys.executable, "-c", CLOCK_OFF, str(chance.choice([-7200, 7200]))]
        is_full = chance.random() < 0.15  # every larger file stops in the middle, as on a full disk
        words = chance.choice([["run"], ["run"], ["scan"], ["process"], ["emby"], ["retry"]])
        return subprocess.Popen(
            [*command, *words, "--max-runtime", "3"],
            env=self._installation.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_full_disk if is_full else None,
        )


def _full_disk() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))


def contents(installation: Installation) -> dict[str, list[str]]:
    """Digest -> where that content is, hidden files included."""
    found: dict[str, list[str]] = {}
    for root in (installation.watch, installation.destination):
        for path in root.rglob("*"):
            if path.is_file():
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found.setdefault(digest, []).append(str(path))
    return found


def put_files(
    installation: Installation, chance: random.Random, numbers: Iterable[int] = range(FILES)
) -> set[str]:
    digests = set()
    for number in numbers:
        content = chance.randbytes(chance.choice([2_000, 100_000, 300_000]))
        installation.put(f"{number % 5}/ROW-{100 + number}.mp4", content=content)
        digests.add(hashlib.sha256(content).hexdigest())
    return digests


def disturb(installation: Installation, embedded: Embedded, chance: random.Random) -> None:
    """One more thing goes wrong, or right again."""
    assert installation.emby is not None
    match chance.choice(["site", "emby", "heal", "restart", "cut", "token", "pause"]):
        case "site":
            kind: Any = chance.choice([500, 503, "html200", "truncated", "reset"])
            installation.site.fail(kind, probability=0.3)
        case "emby":
            kind = chance.choice([500, 503, "html200", "truncated", "reset"])
            installation.emby.fail(kind, probability=0.2)
        case "heal":
            installation.site.heal()
            installation.emby.heal()
        case "restart":
            embedded.stop()
            time.sleep(chance.uniform(0, 0.5))
            embedded.ensure_running()
        case "cut":
            statement(
                installation,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
            )
        case "token":
            installation.site.expire_token()
        case "pause":
            time.sleep(0.5)
    # Nobody waits a minute here: every pause is over at once.
    statement(installation, "UPDATE services SET open_until = now()")


def statement(installation: Installation, sql: str) -> None:
    try:
        installation.store.database.execute(sql)
    except DatabaseUnusable:
        installation.store.reconnect()
        installation.store.database.execute(sql)


def drain(installation: Installation) -> None:
    """Healthy services, and everything that waits for a person retried."""
    assert installation.emby is not None
    installation.site.heal()
    installation.emby.heal()
    installation.store.reconnect()
    for _ in range(12):
        statement(installation, "DELETE FROM services")
        installation.command("retry", "--all")
        done = installation.command("run", "--max-runtime", "60")
        assert done.returncode in (0, 1), done.stderr
        counts = installation.store.looks.counts()
        if counts[Status.COMPLETED] == FILES:
            return
    waiting = [(i.id, i.status, i.error_message) for i in installation.store.looks.find()]
    raise AssertionError([row for row in waiting if row[1] is not Status.COMPLETED])


def check(installation: Installation, digests: set[str]) -> None:
    store, emby = installation.store, installation.emby
    assert emby is not None
    found = contents(installation)
    assert set(found) == digests, "a content is gone, or one is there that nobody put"
    assert all(len(places) == 1 for places in found.values()), "a file exists twice"
    assert installation.left() == {}
    assert not [name for name in installation.filed() if os.path.basename(name).startswith(".")]

    shown = emby.items_by_path()
    items = store.looks.find()
    assert {item.status for item in items} == {Status.COMPLETED}
    for item in items:
        path = Path(item.new_path or "")
        in_emby = shown[f"/mnt/library/{path.relative_to(installation.destination)}"]
        assert in_emby["Id"] == item.emby_item_id
        assert in_emby["Name"] == path.stem
        pictures = emby.images(in_emby["Id"])
        assert all(len(bodies) <= 1 for bodies in pictures.values())

    for item in items:
        owner: int | None = None
        for event in store.looks.events(item.id):
            source, target = Status(event.source), Status(event.target)
            assert source is target or target in LEGAL_MOVES[source], event
            if target in (Status.PROCESSING, Status.EMBY_PENDING):
                owner = event.run
            elif source in (Status.PROCESSING, Status.EMBY_PENDING):
                assert event.run == owner, "two runs worked on one item"


@pytest.mark.timeout(300 + 10 * KILLS)
def test_nothing_is_lost_stuck_or_done_twice(chaos: tuple[Installation, Embedded]) -> None:
    installation, embedded = chaos
    print(f"EMBYPROC_CHAOS_SEED={SEED}")
    chance = random.Random(SEED)
    numbers = iter(range(FILES))
    digests: set[str] = set()
    with Storm(installation) as storm:
        while storm.kills < KILLS or len(digests) < FILES:
            digests |= put_files(installation, chance, itertools.islice(numbers, WAVE))
            time.sleep(chance.uniform(0.1, 0.6))
            disturb(installation, embedded, chance)
    assert not storm.tracebacks, storm.tracebacks[:3]
    assert storm.codes <= {0, 1, 2, 3, -signal.SIGKILL, -signal.SIGTERM}, storm.codes
    drain(installation)
    check(installation, digests)
    print(f"{storm.runs} runs, {storm.kills} kills, exit codes {sorted(storm.codes)}")


def test_a_database_restarted_during_a_run(chaos: tuple[Installation, Embedded]) -> None:
    """The run says so and ends with 3; the next one goes on, and nothing is lost."""
    installation, embedded = chaos
    digests = put_files(installation, random.Random(1))
    installation.site.latency_seconds = 0.3
    installation.command("scan")
    process = subprocess.Popen(
        [sys.executable, "-m", "embyproc", "-q", "process"],
        env=installation.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not installation.store.looks.is_waiting(Status.MOVED):
        time.sleep(0.02)
    embedded.stop()
    embedded.ensure_running()
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 3, output + errors
    assert len(errors.strip().splitlines()) == 1, errors
    assert errors.startswith("embyproc: database postgres at ")
    installation.site.latency_seconds = 0.0
    drain(installation)
    check(installation, digests)
    assert {item.deaths for item in installation.store.looks.find()} == {0}
