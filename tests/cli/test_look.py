"""What a person sees: at several widths, in a pipe, and what the log says."""

import io
import json
import os
import re
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from embyproc.log import NORMAL, VERBOSE, Log
from embyproc.report import Report, cut_in_the_middle, sparkline
from embyproc.store.database import Database

CommandLine = Callable[..., subprocess.CompletedProcess[str]]

ROWS = [
    (
        7,
        "error",
        "ABC-123",
        "/watch/a very long folder/with [brackets] in the name of the film.mp4",
    ),
    (12, "completed", "FC2-PPV-1234567", "/watch/short.mp4"),
]

SNAPSHOTS = {
    60: [
        "  id   status      code              file",
        "   7   error       ABC-123           /watch/a… film.mp4",
        "  12   completed   FC2-PPV-1234567   /watch/short.mp4",
    ],
    80: [
        "  id   status      code              file",
        "   7   error       ABC-123           /watch/a very long f…name of the film.mp4",
        "  12   completed   FC2-PPV-1234567   /watch/short.mp4",
    ],
    200: [
        "  id   status      code              file",
        f"   7   error       ABC-123           {ROWS[0][3]}",
        "  12   completed   FC2-PPV-1234567   /watch/short.mp4",
    ],
}


def drawn(width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    out = io.StringIO()
    Report(out, terminal=True).table(("id", "status", "code", "file"), ROWS, right=("id",))
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()]


@pytest.mark.parametrize("width", SNAPSHOTS)
def test_tables_fit_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = drawn(width, monkeypatch)
    assert all(len(line) <= width for line in lines)
    assert [line for line in lines if line and "───" not in line] == SNAPSHOTS[width]


def test_cutting_and_sparkline() -> None:
    assert cut_in_the_middle("abcdefghij", 5) == "ab…ij"
    assert cut_in_the_middle("abc", 5) == "abc"
    assert sparkline([0, 1, 7, 14]) == "▁▁▄█"
    assert sparkline([0, 0]) == "▁▁"


def test_status_tells_throughput_outages_and_a_stopped_cron(
    command_line: CommandLine, database: Database
) -> None:
    database.execute(
        """INSERT INTO queue_events (item, at, "from", "to") SELECT n, now() - interval '2 hours',
           'emby_pending', 'completed' FROM generate_series(1, 5) AS n"""
    )
    database.execute(
        """INSERT INTO services (name, failures, open_until, down_since, last_error)
           VALUES ('emby', 3, now(), now() - interval '3 hours', 'Emby answered 503')"""
    )
    database.execute(
        """INSERT INTO runs (command, host, pid, started_at, heartbeat_at, finished_at, exit_code)
           SELECT 'scan', 'nas', 1, t, t, t, 0 FROM (SELECT now() - interval '1 hour') AS x (t)"""
    )
    plain = command_line("status").stdout
    assert "▁█▁▁ 5 completed" in plain.replace("▁█▁ 5", "▁█▁▁ 5")
    assert "down: emby for 3 h: Emby answered 503" in plain
    assert "warning: scan has not run for a while; is cron running?" in plain
    found = json.loads(command_line("status", "--json").stdout)
    assert sum(found["completed_per_hour"]) == 5
    assert found["services"][0]["name"] == "emby"


def test_list_filters(command_line: CommandLine, database: Database) -> None:
    database.execute(
        """INSERT INTO processing_queue (file_path, movie_code, actress, updated_at)
           VALUES ('/a', 'ABC-123', 'Jane Doe', now()),
                  ('/b', 'XYZ-9', 'Mary Major', now() - interval '3 days')"""
    )

    def paths(*words: str) -> list[str]:
        return [
            row["file_path"] for row in json.loads(command_line("list", "--json", *words).stdout)
        ]

    assert paths("--code", "abc") == ["/a"]
    assert paths("--performer", "major") == ["/b"]
    assert paths("--since", "2d") == ["/a"]
    assert paths("--since", "4d") == ["/b", "/a"]
    assert command_line("list", "--since", "soon").returncode == 2


def test_log_lines() -> None:
    out = io.StringIO()
    log = Log(level=NORMAL, stream=out, clean=lambda text: text.replace("s3cret", "***"))
    log.event("moved", {"item": 7, "file": "/a b/x\n.mp4", "from": "processing", "none": None})
    log.event("detail", {"x": 1}, level=VERBOSE)
    log.event("failed", {"message": "s3cret"})
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    stamp, rest = lines[0].split(" ", 1)
    assert datetime.fromisoformat(stamp).tzinfo == UTC
    assert rest == 'moved item=7 file="/a b/x\\n.mp4" from=processing'
    assert lines[1].endswith("failed message=***")
    out = io.StringIO()
    Log(level=NORMAL, stream=out, as_json=True).event("moved", {"item": 7})
    assert json.loads(out.getvalue()) | {"at": ""} == {"at": "", "event": "moved", "item": 7}


def test_completion_script_is_there(command_line: CommandLine) -> None:
    done = command_line(_EMBYPROC_COMPLETE="bash_source", PATH=os.environ["PATH"])
    assert "_embyproc_completion" in done.stdout
