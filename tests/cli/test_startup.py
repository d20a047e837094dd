"""What a run imports: it is started 1,440 times a day."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from embyproc.cli import cli
try:
    cli(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


UNWANTED = {
    "requests",
    "urllib3",
    "tenacity",
    "rich",
    "dotenv",
    "yoyo",
    "subprocess",
    "PIL",
    "ctypes",
}


@pytest.mark.parametrize("command", ["status", "retry", "scan", "process", "emby", "run"])
def test_an_idle_command_imports_only_what_it_needs(
    command: str, database_url: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, command],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "DATABASE_URL": database_url,
            "WATCH_DIR": str(tmp_path),
            "DESTINATION_DIR": "/tmp",
            "API_BASE_URL": "http://127.0.0.1:1",
            "API_TOKEN": "unused",
            "EMBY_BASE_URL": "http://127.0.0.1:1",
            "EMBY_API_KEY": "unused",
        },
        check=True,
    )
    imported = set(done.stderr.splitlines()[-1].split())
    assert "psycopg2" in imported
    assert not imported & UNWANTED
