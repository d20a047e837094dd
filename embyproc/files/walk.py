"""Walking the watch folder: every film in it with what identifies it, and what was passed over."""

import errno
import fcntl
import os
import signal
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from embyproc.errors import ConfigError
from embyproc.models import Sighting
from embyproc.watching import (
    LEFTOVER_SECONDS,
    SIDECARS,
    UNDECODABLE,
    file_reason,
    folder_reason,
    held_stem,
    match_sidecars,
    may_hold,
    split_ending,
)

# Linux only, and not in every build of Python's fcntl.
_F_SETLEASE = getattr(fcntl, "F_SETLEASE", 1024)

# The kinds of file systems, by how their names begin.
_REMOTE = ("nfs", "cifs", "smb")

_SIGN = 1 << 63

# Bytes of a path, and characters of a folder's below which no file in it can have so many (a name
# has 255 bytes at the most).
_LONG_PATH = 2600
_SHORT_PATH = (_LONG_PATH - 256) // 4

# A summary is read by a person; the same note a thousand times helps nobody.
_MOST_PROBLEMS = 20


@dataclass(slots=True, kw_only=True)
class Walk:
    """One walk below `root`; iterate over it once, then read what it noticed."""

    root: str
    extensions: Collection[str]
    min_size: int = 0
    # A folder that is not entered although it lies in the tree: the destination.
    excluded: str | None = None
    # Told of each path that is passed over and why.
    on_skip: Callable[[str, str], None] = lambda path, reason: None
    skipped: int = 0
    problems: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Sighting]:
        """Raises ConfigError if the root itself cannot be read; everything else is noted."""
        # Folders by identity: bind mounts can make a loop, and one folder may be seen twice.
        entered: set[tuple[int, int]] = set()
        excluded = _identity_of(self.excluded) if self.excluded else None
        pending = [self.root]
        while pending:
            folder = pending.pop()
            handle = None
            try:
                # Entries are looked up in the open folder: that is quicker than by their paths.
                follow = 0 if folder == self.root else os.O_NOFOLLOW
                handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | follow)
                found = os.fstat(handle)
                if (found.st_dev, found.st_ino) in entered:
                    continue
                entered.add((found.st_dev, found.st_ino))
                if excluded == (found.st_dev, found.st_ino) and folder != self.root:
                    self._skip(folder, "the destination folder")
                    continue
                prefix = folder if folder.endswith("/") else folder + "/"
                with os.scandir(handle) as listing:
                    subfolders, films, others = self._sort(listing, prefix)
                pending += subfolders
                if films:
                    yield from self._films(handle, prefix, films, others)
            except OSError as error:
                if folder == self.root:
                    raise ConfigError([f"WATCH_DIR: {unreadable(folder, error)}"]) from error
                self._note(unreadable(folder, error))
                self._skip(folder, "cannot be read")
            finally:
                if handle is not None:
                    os.close(handle)

    def _sort(
        self, listing: Iterator["os.DirEntry[str]"], prefix: str
    ) -> tuple[list[str], list[str], list[str]]:
        """Split one folder into subfolders to enter, films, and the names beside them.

        Names only: half a million entries in one folder are met in the field, and an entry weighs
        ten times its name.
        """
        subfolders: list[str] = []
        films: list[str] = []
        others: list[str] = []
        may_be_long = len(prefix) >= _SHORT_PATH
        extensions = self.extensions
        for entry in listing:
            name = entry.name
            if entry.is_dir(follow_symlinks=False):
                if reason := folder_reason(name):
                    self._skip(prefix + name, reason)
                else:
                    subfolders.append(prefix + name)
                continue
            reason = file_reason(name, extensions)
            if reason is None:
                # PostgreSQL's indexes take no key that is much longer.
                if may_be_long and len(os.fsencode(prefix + name)) > _LONG_PATH:
                    reason = "its path is too long"
                else:
                    films.append(name)
                    continue
            elif reason == "not a video" and entry.is_symlink():
                reason = "a symbolic link"
            if reason != UNDECODABLE:
                others.append(name)
            self._skip(prefix + name, reason)
        return subfolders, films, others

    def _films(
        self, handle: int, prefix: str, films: list[str], others: list[str]
    ) -> Iterator[Sighting]:
        held: set[str] = set()
        sidecars: dict[str, list[str]] = {}
        if others:
            held = {held_stem(n) for n in others if may_hold(n) and _is_recent(handle, n)}
            if any(split_ending(name)[1].lower() in SIDECARS for name in others):
                sidecars = match_sidecars((split_ending(name)[0] for name in films), others)
        beside = bool(held or sidecars)
        for name in films:
            try:
                found = os.stat(name, dir_fd=handle, follow_symlinks=False)
            except OSError:
                continue  # gone between the listing and now: the next scan sees what became of it
            size, device, inode = found.st_size, found.st_dev, found.st_ino
            mtime_ns, ctime_ns = found.st_mtime_ns, found.st_ctime_ns
            if not stat.S_ISREG(found.st_mode):
                link = stat.S_ISLNK(found.st_mode)
                self._skip(prefix + name, "a symbolic link" if link else "not a regular file")
            elif size < self.min_size:
                self._skip(prefix + name, "smaller than MIN_FILE_SIZE")
            else:
                stem = split_ending(name)[0] if beside else ""
                yield (
                    prefix + name,
                    device if device < _SIGN else _signed(device),
                    inode if inode < _SIGN else _signed(inode),
                    size,
                    mtime_ns if -_SIGN <= mtime_ns < _SIGN else kept_time(mtime_ns),
                    ctime_ns if -_SIGN <= ctime_ns < _SIGN else kept_time(ctime_ns),
                    found.st_nlink > 1,
                    beside and stem.lower() in held,
                    sidecars.get(stem, ()) if beside else (),
                )

    def _skip(self, path: str, reason: str) -> None:
        self.skipped += 1
        self.on_skip(path, reason)
        if reason in (UNDECODABLE, "its path is too long"):
            self._note(f"{path!r} is left alone: {reason}; rename it")

    def _note(self, problem: str) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(problem)


def _signed(number: int) -> int:
    """PostgreSQL's integers have a sign; some file systems use all 64 bits for an inode."""
    return number - (1 << 64)


def kept_time(nanoseconds: int) -> int:
    """A file's time as the queue keeps it: a film may claim to be from the year 2400."""
    return max(-_SIGN, min(nanoseconds, _SIGN - 1))


def folder_identity(root: str, variable: str) -> tuple[int, int]:
    """Device and inode of a configured folder; raises ConfigError if it cannot be read."""
    try:
        found = os.stat(root)
        os.close(os.open(root, os.O_RDONLY | os.O_DIRECTORY))
    except OSError as error:
        raise ConfigError([f"{variable}: {unreadable(root, error)}"]) from error
    device, inode = (n if n < _SIGN else _signed(n) for n in (found.st_dev, found.st_ino))
    return device, inode


def is_gone(path: str) -> bool:
    """Whether there certainly is no such file (a link that was left in its place is none); a
    folder that cannot be read proves nothing."""
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def is_open_for_writing(path: str) -> bool:
    """Whether somebody on this machine writes to the file; False where the system cannot tell.

    A read lease is refused while there is a writer. It is given back by closing the file.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        # Refused to wait: a writer holds a lease of its own, as Samba does for its clients.
        return error.errno in (errno.EAGAIN, errno.EWOULDBLOCK)
    try:
        fcntl.fcntl(handle, _F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EWOULDBLOCK):
            return False
        device = os.fstat(handle).st_dev
        return (os.major(device), os.minor(device)) not in _remote_devices()
    finally:
        os.close(handle)
    return False


@cache
def _remote_devices() -> frozenset[tuple[int, int]]:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            return remote_devices(mounts)
    except OSError:
        return frozenset()


def remote_devices(mountinfo: Iterable[str]) -> frozenset[tuple[int, int]]:
    """Devices that are somebody else's disk. There a refused lease says nothing of writers: NFS
    and SMB refuse one for every file that their server has not lent to us alone."""
    found = set()
    for line in mountinfo:
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.partition(" ")[0]
        if len(fields) > 2 and kind.startswith(_REMOTE):
            major, _, minor = fields[2].partition(":")
            found.add((int(major), int(minor)))
    return frozenset(found)


def open_for_writing(paths: Sequence[str]) -> list[str]:
    """Those of `paths` that somebody writes to.

    Whoever opens a file while we hold the lease makes the kernel tell us by SIGIO, which would
    end the program: `ignore_leases` first.
    """
    return [path for path in paths if is_open_for_writing(path)]


def ignore_leases() -> None:
    """Ignored, a lease that somebody waits for is simply given back by closing the file."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)


def unreadable(path: str, error: OSError) -> str:
    """One sentence about a folder that could not be read."""
    if isinstance(error, FileNotFoundError):
        return f"{path!r} does not exist; is the volume mounted?"
    if isinstance(error, NotADirectoryError):
        return f"{path!r} is not a folder"
    return f"{path!r} cannot be read: {error.strerror}"


def _identity_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_recent(folder: int, name: str) -> bool:
    try:
        changed = os.stat(name, dir_fd=folder, follow_symlinks=False).st_ctime
    except OSError:
        return False
    return time.time() - changed < LEFTOVER_SECONDS
