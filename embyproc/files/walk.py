"""Walking the watch folder: every film in it with what identifies it, and what was passed over."""

import errno
import fcntl
import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

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

_SIGN = 1 << 63

# Bytes of a path, and characters of a folder's below which no file in it can have so many (a name
# has 255 bytes at the most).
_LONG_PATH = 2600
_SHORT_PATH = (_LONG_PATH - 256) // 4

# From here on a second thread pays: opening a file waits for the disk, not for Python.
_MANY = 500

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
    entries: int = 0
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
            try:
                found = os.stat(folder)
                if (found.st_dev, found.st_ino) in entered:
                    continue
                entered.add((found.st_dev, found.st_ino))
                if excluded == (found.st_dev, found.st_ino) and folder != self.root:
                    self._skip(folder, "the destination folder")
                    continue
                with os.scandir(folder) as listing:
                    subfolders, films, others = self._sort(listing, len(folder))
            except OSError as error:
                if folder == self.root:
                    raise ConfigError([f"WATCH_DIR: {unreadable(folder, error)}"]) from error
                self._note(unreadable(folder, error))
                self._skip(folder, "cannot be read")
                continue
            pending += subfolders
            if films:
                yield from self._films(folder, films, others)

    def _sort(
        self, listing: Iterator["os.DirEntry[str]"], length: int
    ) -> tuple[list[str], list[str], list[str]]:
        """Split one folder into subfolders to enter, films, and the names beside them.

        Names only: half a million entries in one folder are met in the field, and an entry weighs
        ten times its name.
        """
        subfolders, films, others = [], [], []
        for entry in listing:
            self.entries += 1
            if entry.is_dir(follow_symlinks=False):
                if reason := folder_reason(entry.name):
                    self._skip(entry.path, reason)
                else:
                    subfolders.append(entry.path)
            elif reason := self._file_reason(entry, length):
                if reason != UNDECODABLE:
                    others.append(entry.name)
                self._skip(entry.path, reason)
            else:
                films.append(entry.name)
        return subfolders, films, others

    def _file_reason(self, entry: "os.DirEntry[str]", length: int) -> str | None:
        reason = file_reason(entry.name, self.extensions)
        if reason is None:
            # PostgreSQL's indexes take no key that is much longer.
            if length < _SHORT_PATH or len(os.fsencode(entry.path)) <= _LONG_PATH:
                return None
            return "its path is too long"
        if reason == "not a video" and entry.is_symlink():
            return "a symbolic link"
        return reason

    def _films(self, folder: str, films: list[str], others: list[str]) -> Iterator[Sighting]:
        held: set[str] = set()
        sidecars: dict[str, list[str]] = {}
        if others:
            held = {held_stem(n) for n in others if may_hold(n) and _is_recent(folder, n)}
            if any(split_ending(name)[1].lower() in SIDECARS for name in others):
                sidecars = match_sidecars((split_ending(name)[0] for name in films), others)
        beside = bool(held or sidecars)
        prefix = folder if folder.endswith("/") else folder + "/"
        for name in films:
            path = prefix + name
            try:
                found = os.lstat(path)
            except OSError:
                continue  # gone between the listing and now: the next scan sees what became of it
            if not stat.S_ISREG(found.st_mode):
                link = stat.S_ISLNK(found.st_mode)
                self._skip(path, "a symbolic link" if link else "not a regular file")
            elif found.st_size < self.min_size:
                self._skip(path, "smaller than MIN_FILE_SIZE")
            else:
                stem = split_ending(name)[0] if beside else ""
                yield Sighting(
                    path,
                    found.st_dev if found.st_dev < _SIGN else _signed(found.st_dev),
                    found.st_ino if found.st_ino < _SIGN else _signed(found.st_ino),
                    found.st_size,
                    found.st_mtime_ns,
                    found.st_ctime_ns,
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
    """Whether there certainly is no such file; a folder that cannot be read proves nothing."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
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
        return error.errno in (errno.EAGAIN, errno.EWOULDBLOCK)
    finally:
        os.close(handle)
    return False


def open_for_writing(paths: Sequence[str]) -> list[str]:
    """Those of `paths` that somebody writes to; many are asked for by two threads.

    Whoever opens a file while we hold the lease makes the kernel tell us by SIGIO, which would
    end the program; ignored, the lease is simply given back by closing the file.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGIO, signal.SIG_IGN)
    if len(paths) < _MANY:
        return [path for path in paths if is_open_for_writing(path)]
    from concurrent.futures import ThreadPoolExecutor

    def asked(share: Sequence[str]) -> list[str]:
        return [path for path in share if is_open_for_writing(path)]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(asked, (paths[::2], paths[1::2]))
    return first + second


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


def _is_recent(folder: str, name: str) -> bool:
    try:
        changed = os.lstat(os.path.join(folder, name)).st_ctime
    except OSError:
        return False
    return time.time() - changed < LEFTOVER_SECONDS
