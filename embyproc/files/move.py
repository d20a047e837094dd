"""Moving one file so that a kill at any instruction loses nothing.

The caller has recorded the plan. On one file system the move is one atomic rename. Otherwise the
file is copied under a hidden name, read back, compared, published without overwriting, and only
then is the source removed. No final name ever shows a partial file.
"""

import ctypes
import errno
import fcntl
import os
import zlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache

from embyproc.errors import FileTrouble, SourceMissing, StaleClaim, Stopped

_CHUNK = 1024 * 1024
# So much is copied before it is flushed, read back and dropped from memory.
_WINDOW = 64 * _CHUNK
# While one of them waits for the disk, the other compares.
_CHECKERS = 2
_SPARE_BYTES = 16 * _CHUNK
_FICLONE = 0x40049409
_RENAME_NOREPLACE = 1
_AT_FDCWD = -100

# What a kernel or file system answers that does not know the call at all.
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ENOTTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mover:
    """How a run moves files: when it stops, and whom it tells of progress."""

    should_stop: Callable[[], bool] = lambda: False
    progress: Callable[[int, int], None] = lambda done, total: None
    # Folders in which a rename is not yet safe from a power cut.
    _unsynced: set[str] = field(default_factory=set)

    def move(
        self, source: str, target: str, temporary: str, may_publish: Callable[[], bool]
    ) -> int:
        """Bring `source` to `target`; returns how many bytes were copied (0 for a rename).

        `may_publish` is the fence: asked right before the step that cannot be taken back. Raises
        FileExistsError if the name is taken, SourceMissing, FileTrouble, Stopped or StaleClaim; in
        each case source and target are as they were and `temporary` is gone.
        """
        try:
            _publish(source, target, may_publish)
        except OSError as error:
            if error.errno == errno.EXDEV:
                return self._copy_over(source, target, temporary, may_publish)
            if isinstance(error, FileExistsError):
                raise
            raise trouble(error, source) from error
        # The old name need not be gone for good: should it come back, both are one file.
        self._unsynced.add(os.path.dirname(target))
        return 0

    def sync(self) -> None:
        """Make every rename so far survive a power cut; to be called before it is recorded."""
        while self._unsynced:
            with suppress(FileNotFoundError, NotADirectoryError):
                sync_folder(self._unsynced.pop())

    def _copy_over(
        self, source: str, target: str, temporary: str, may_publish: Callable[[], bool]
    ) -> int:
        try:
            before = os.stat(source)
            self._copy(source, before, temporary)
            after = os.stat(source)
            if _state(before) != _state(after):
                raise FileTrouble(f"File error: {source} changed while it was copied")
            _publish(temporary, target, may_publish)
            sync_folder(os.path.dirname(target))
            # A verified copy is published under the name in the plan: the source may go.
            if _remove_unchanged(source, after):
                sync_folder(os.path.dirname(source))
        except FileExistsError:
            raise
        except OSError as error:
            raise trouble(error, source) from error
        finally:
            # Where that is refused too (a disk that became read-only), a later run sweeps it away.
            with suppress(OSError):
                os.unlink(temporary)
        return before.st_size

    def _copy(self, source: str, found: os.stat_result, temporary: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        # Created under the umask: chmod on a share with ACLs would destroy them.
        reader = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            writer = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            try:
                if not _reflink(reader, writer):
                    _check_space(writer, found.st_size)
                    self._copy_windows(reader, writer, found.st_size)
                if os.fstat(writer).st_size != found.st_size:
                    raise FileTrouble(f"File error: {source} changed while it was copied")
                os.utime(writer, ns=(found.st_atime_ns, found.st_mtime_ns))
                os.fsync(writer)
            finally:
                os.close(writer)
        finally:
            os.close(reader)

    def _copy_windows(self, reader: int, writer: int, size: int) -> None:
        """Copy window by window; other threads flush and read back those before."""
        buffer = memoryview(bytearray(_CHUNK))
        checks: deque[Future[None]] = deque()
        with ThreadPoolExecutor(_CHECKERS) as pool:
            done = 0
            while done < size:
                checksum, length = self._copy_window(reader, writer, size, done, buffer)
                if length == 0:
                    break
                if len(checks) == _CHECKERS:
                    checks.popleft().result()
                checks.append(pool.submit(_verify, writer, done, length, checksum))
                done += length
                os.posix_fadvise(reader, 0, done, os.POSIX_FADV_DONTNEED)
            for check in checks:
                check.result()

    def _copy_window(
        self, reader: int, writer: int, size: int, start: int, buffer: memoryview
    ) -> tuple[int, int]:
        checksum = length = 0
        while length < _WINDOW:
            if self.should_stop():
                raise Stopped("asked to stop in the middle of a copy")
            chunk = buffer[: os.readv(reader, [buffer[: _WINDOW - length]])]
            if not chunk:
                break
            checksum = zlib.crc32(chunk, checksum)
            length += len(chunk)
            while chunk:
                chunk = chunk[os.write(writer, chunk) :]
            self.progress(start + length, size)
        return checksum, length


def _publish(name: str, target: str, may_publish: Callable[[], bool]) -> None:
    if not may_publish():
        raise StaleClaim(f"{target} is not published: the item belongs to another run now")
    rename_without_overwriting(name, target)


def _verify(writer: int, start: int, length: int, expected: int) -> None:
    """Flush a window to the disk, read it back and compare; then memory need not hold it."""
    os.fdatasync(writer)
    buffer = memoryview(bytearray(_CHUNK))
    checksum, left = 0, length
    while left:
        chunk = buffer[: os.preadv(writer, [buffer[:left]], start + length - left)]
        if not chunk:
            break
        checksum = zlib.crc32(chunk, checksum)
        left -= len(chunk)
    if checksum != expected or left:
        raise FileTrouble("File error: the copy differs from the original; the disk may be failing")
    os.posix_fadvise(writer, start, length, os.POSIX_FADV_DONTNEED)


def _reflink(reader: int, writer: int) -> bool:
    """Share the blocks where the file system can: instant, and the same bytes by construction."""
    try:
        fcntl.ioctl(writer, _FICLONE, reader)
    except OSError:
        return False
    return True


def _check_space(writer: int, size: int) -> None:
    space = os.fstatvfs(writer)
    free = space.f_bavail * space.f_frsize
    if free < size + _SPARE_BYTES:
        raise FileTrouble(
            f"File error: not enough space at the destination ({free:,} bytes free, "
            f"{size:,} needed)"
        )


def rename_without_overwriting(source: str, target: str) -> None:
    """Give `source` the name `target` in one step; FileExistsError where that name is taken."""
    try:
        _renameat2(source, target)
        return
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        _take_name(source, target)
        return
    os.unlink(source)


def _take_name(source: str, target: str) -> None:
    """Where neither call exists (FAT, some network shares): reserve the name, then take it."""
    reserved = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
    try:
        os.rename(source, target)
    except OSError:
        with suppress(OSError):
            if _state(os.lstat(target)) == _state(os.fstat(reserved)):
                os.unlink(target)
        raise
    finally:
        os.close(reserved)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _renameat2(source: str, target: str) -> None:
    call = getattr(_libc(), "renameat2", None)
    if call is None:
        raise OSError(errno.ENOSYS, "renameat2 is not available")
    names = os.fsencode(source), os.fsencode(target)
    if call(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_NOREPLACE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), source, None, target)


def sync_folder(folder: str) -> None:
    """Make a new or removed name in `folder` survive a power cut, where the file system can."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network shares cannot sync a folder; a real failure of the disk is another errno.
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EBADF, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(handle)


def same_content(first: str, second: str) -> bool:
    """Whether two files hold the same bytes; read to the end only where the sizes agree."""
    with open(first, "rb", buffering=0) as left, open(second, "rb", buffering=0) as right:
        one, other = os.fstat(left.fileno()), os.fstat(right.fileno())
        if (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino):
            return True
        if one.st_size != other.st_size:
            return False
        while True:
            chunk = left.read(_CHUNK)
            if chunk != right.read(_CHUNK):
                return False
            if not chunk:
                return True


def is_one_file(first: str, second: str) -> bool:
    """Whether both paths lead to one name of one file, so that removing one removes the other:
    a symbolic link, a folder mounted in two places, a share mounted twice."""
    one, other = os.stat(first), os.stat(second)
    if one.st_dev != other.st_dev:
        # Two mounts of one share show two devices but one time of change; a copy has its own.
        # A network share may tell times in steps of 100 ns.
        times = [(s.st_size, s.st_mtime_ns // 100, s.st_ctime_ns // 100) for s in (one, other)]
        return times[0] == times[1]
    if one.st_ino != other.st_ino:
        return False
    if one.st_nlink == 1:
        return True
    folders = [os.stat(os.path.dirname(path) or ".") for path in (first, second)]
    is_one_folder = os.path.samestat(*folders)
    is_one_name = is_one_folder and os.path.basename(first) == os.path.basename(second)
    return is_one_name or os.path.realpath(first) == os.path.realpath(second)


def remove_if_published(source: str, published: str) -> bool:
    """Remove `source` where `published` is another file of the same bytes; whether it is the same.

    Whoever published it may have died before its name was safe from a power cut.
    """
    if is_one_file(source, published):
        return True
    before = os.lstat(source)
    if not same_content(source, published):
        return False
    sync_folder(os.path.dirname(published))
    return _remove_unchanged(source, before)


def _remove_unchanged(path: str, before: os.stat_result) -> bool:
    """Remove what was compared, and not what a downloader has put there meanwhile."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return True
    if (*_state(found), found.st_ctime_ns) != (*_state(before), before.st_ctime_ns):
        return False
    os.unlink(path)
    return True


def trouble(error: OSError, path: str) -> FileTrouble | SourceMissing:
    """One sentence about what the file system refused."""
    if isinstance(error, FileNotFoundError) and not os.path.lexists(path):
        return SourceMissing(f"Source file missing: {path}; it is queued again when it is back")
    where = error.filename2 or error.filename or path
    return FileTrouble(f"File error: {error.strerror or error} ({os.fsdecode(where)})")


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
