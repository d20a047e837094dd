"""Runs: one row each, and the thread that keeps saying "I am alive"."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from embyproc.errors import DatabaseUnusable
from embyproc.models import RunRecord
from embyproc.store.database import Database
from embyproc.store.queue import DEAD_AFTER

BEAT_SECONDS = 10.0

# What is recorded of a run that never said how it ended; as a shell says of SIGKILL.
KILLED = 137

_KEEP_RUNS = timedelta(days=7)


class Runs:
    def __init__(self, database: Database) -> None:
        self._database = database

    def start(self, command: str, process: str | None = None) -> int:
        """Record that a run begins; returns its id.

        Not waiting for the disk is safe here: a later claim that does wait flushes this too.
        """
        now = self._database.clock.now()
        run_id = self._database.scalar(
            """
            SET LOCAL synchronous_commit TO off;
            INSERT INTO runs (command, host, pid, process, started_at, heartbeat_at)
            VALUES (%(command)s, %(host)s, %(pid)s, %(process)s, %(now)s, %(now)s)
            RETURNING id
            """,
            {
                "command": command,
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "process": process,
                "now": now,
            },
        )
        # The journal's trigger reads it for rows that no run has claimed.
        self._database.execute(
            "SELECT set_config('embyproc.run', %(id)s, false)", {"id": str(run_id)}
        )
        return int(run_id)

    def unfinished_owners(self) -> list[tuple[int, str]]:
        """Runs that hold rows and have not ended, with what tells which process they are."""
        rows = self._database.rows(
            """
            SELECT id, process FROM runs
            WHERE finished_at IS NULL AND process IS NOT NULL AND id IN (
                SELECT claimed_by FROM processing_queue
                WHERE status IN ('processing', 'emby_pending'))
            """
        )
        return [(row["id"], row["process"]) for row in rows]

    def close_dead(self) -> list[int]:
        """End the rows of runs that died without ending them; returns their ids."""
        now = self._database.clock.now()
        rows = self._database.rows(
            """
            UPDATE runs SET finished_at = heartbeat_at, exit_code = %(killed)s
            WHERE finished_at IS NULL AND heartbeat_at < %(silent)s
            RETURNING id
            """,
            {"silent": now - DEAD_AFTER, "killed": KILLED},
        )
        return [row["id"] for row in rows]

    def are_over(self, ids: Sequence[int]) -> set[int]:
        """Which of these runs have ended or are not known."""
        rows = self._database.rows(
            """
            SELECT given.id FROM unnest(%(ids)s::bigint[]) AS given (id)
            LEFT JOIN runs r ON r.id = given.id WHERE r.id IS NULL OR r.finished_at IS NOT NULL
            """,
            {"ids": list(ids)},
        )
        return {row["id"] for row in rows}

    def beat(self, run: int) -> bool:
        """Say that the run is alive; False when others already had reason to think it dead."""
        now = self._database.clock.now()
        touched = self._database.execute(
            """
            UPDATE runs SET heartbeat_at = %(now)s
            WHERE id = %(run)s AND finished_at IS NULL AND heartbeat_at >= %(silent)s
            """,
            {"run": run, "now": now, "silent": now - DEAD_AFTER},
        )
        return touched == 1

    def finish(self, run: int, exit_code: int, counts: dict[str, Any]) -> None:
        self._database.execute(
            """
            SET LOCAL synchronous_commit TO off;
            UPDATE runs SET finished_at = %(now)s, exit_code = %(exit_code)s,
                            counts = %(counts)s::jsonb
            WHERE id = %(run)s
            """,
            {
                "run": run,
                "now": self._database.clock.now(),
                "exit_code": exit_code,
                "counts": json.dumps(counts),
            },
        )

    def prune(self) -> int:
        """Forget runs of last week that hold no row; cron makes thousands a day."""
        return self._database.execute(
            """
            DELETE FROM runs r
            WHERE r.started_at < %(before)s
              AND NOT EXISTS (SELECT FROM processing_queue q
                              WHERE q.status IN ('processing', 'emby_pending')
                                AND q.claimed_by = r.id)
            """,
            {"before": self._database.clock.now() - _KEEP_RUNS},
        )

    def last_good_end(self) -> datetime | None:
        """When a run last ended well."""
        found = self._database.scalar(
            "SELECT finished_at FROM runs WHERE exit_code IN (0, 1) ORDER BY id DESC LIMIT 1"
        )
        return found if isinstance(found, datetime) else None

    def last_of(self, commands: list[str]) -> list[RunRecord]:
        """The newest run of each of these commands."""
        rows = self._database.rows(
            """
            SELECT r.* FROM unnest(%(commands)s::text[]) AS wanted (command)
            CROSS JOIN LATERAL (
                SELECT * FROM runs WHERE runs.command = wanted.command ORDER BY id DESC LIMIT 1
            ) AS r
            """,
            {"commands": commands},
        )
        return [RunRecord.from_row(row) for row in rows]


class Heartbeat(threading.Thread):
    """Beats every ~10 s on a connection of its own, opened at the first beat: most runs are over
    before that. `alive` turns False once the run may be thought dead; it then publishes nothing.
    """

    def __init__(self, run: int, open_database: Callable[[], Database]) -> None:
        super().__init__(name=f"heartbeat-{run}", daemon=True)
        self._run_id = run
        self._open_database = open_database
        self._stopping = threading.Event()
        self._last_beat = time.monotonic()
        self._declared_dead = False

    @property
    def alive(self) -> bool:
        silent = time.monotonic() - self._last_beat
        return not self._declared_dead and silent < DEAD_AFTER.total_seconds()

    def run(self) -> None:
        database: Database | None = None
        while not self._stopping.wait(BEAT_SECONDS):
            beat_at = time.monotonic()
            try:
                database = database or self._open_database()
                if not Runs(database).beat(self._run_id):
                    self._declared_dead = True
                    break
                self._last_beat = beat_at
            except DatabaseUnusable:
                # A server that restarts is back soon; until then `alive` counts the silence.
                if database is not None:
                    database.close()
                database = None
        if database is not None:
            database.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join(timeout=5)
