import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from embyproc.store.database import Database

CommandLine = Callable[..., subprocess.CompletedProcess[str]]


def test_scan(command_line: CommandLine, database: Database, tmp_path: Path) -> None:
    watch = tmp_path / "watch"
    watch.mkdir()
    (watch / "ABC-123 [x].mp4").write_bytes(b"film")
    (watch / "ABC-124.mp4.part").write_bytes(b"film")
    variables = {"WATCH_DIR": str(watch), "STABILITY_MIN_AGE": "0"}
    dry = command_line("scan", "--dry-run", **variables)
    assert f"{watch}/ABC-123 [x].mp4: waits: seen 1 of 2 times" in dry.stdout
    assert f"{watch}/ABC-124.mp4.part: passed over: unfinished" in dry.stdout
    found = json.loads(command_line("scan", "--settle", "0.1", "--json", **variables).stdout)
    assert (found["command"], found["succeeded"]) == ("scan", 1)
    assert [item["file_path"] for item in found["items"]] == [f"{watch}/ABC-123 [x].mp4"]
    assert "scan: 0 claimed" in command_line("scan", **variables).stdout
    assert json.loads(command_line("status", "--json").stdout)["counts"]["pending"] == 1


def test_scan_without_a_usable_folder(command_line: CommandLine, tmp_path: Path) -> None:
    unset = command_line("scan")
    assert unset.returncode == 2
    assert "WATCH_DIR: not set" in unset.stderr
    missing = command_line("scan", WATCH_DIR=str(tmp_path / "none"))
    assert missing.returncode == 2
    assert "does not exist; is the volume mounted?" in missing.stderr
    assert len(missing.stderr.splitlines()) == 1
