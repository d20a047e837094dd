"""The folders that files are moved into: their names, limits and leftovers."""

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from embyproc.errors import FileTrouble
from embyproc.files.move import sync_folder, trouble
from embyproc.files.walk import kept_time
from embyproc.models import Item
from embyproc.watching import folder_reason

_LEFTOVER = re.compile(r"\.embyproc-(\d+)-(\d+)\.part")


def temporary_name(item_id: int, run_id: int) -> str:
    """Hidden, so that Emby does not index it; whose it is can be read from the name."""
    return f".embyproc-{item_id}-{run_id}.part"


def remove_leftovers(folder: str, item_id: int) -> None:
    """Remove what runs that lost this item left behind; the caller owns it now."""
    with suppress(FileTrouble):
        for name in names_in(folder):
            match = _LEFTOVER.fullmatch(name)
            if match and int(match[1]) == item_id:
                with suppress(OSError):
                    os.unlink(os.path.join(folder, name))


def remove_reservation(planned: str, source: str) -> None:
    """Where a name can only be taken by an empty file first, a kill may leave that one behind."""
    with suppress(OSError):
        if os.lstat(planned).st_size == 0 and os.lstat(source).st_size > 0:
            os.unlink(planned)


def replace_file(path: Path, text: str) -> None:
    """Write a small file so that a reader sees the old one or the new one, never half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise FileTrouble(f"File error: {error.strerror} ({path})") from error


def names_in(folder: str) -> list[str]:
    """The names in a folder; raises FileTrouble if it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError as error:
        raise FileTrouble(f"File error: {error.strerror} ({folder})") from error


def has_changed(item: Item) -> bool:
    """Whether the file is not the one, or not in the state, that was queued."""
    if item.inode is None:
        return False  # an adopted row: nothing is known of its file
    try:
        found = os.lstat(item.file_path)
    except OSError:
        return False  # what is wrong there is told by whoever tries to move it
    return (found.st_size, kept_time(found.st_mtime_ns)) != (item.size, item.mtime_ns)


def make_folder(folder: str) -> None:
    """Make the folder if need be, so that it survives a power cut; raises FileTrouble."""
    try:
        os.mkdir(folder)
        sync_folder(os.path.dirname(folder))
    except FileExistsError:
        if not os.path.isdir(folder):
            raise FileTrouble(f"File error: a file is in the way of the folder {folder}") from None
    except OSError as error:
        raise trouble(error, folder) from error


def name_limit(folder: str) -> int:
    """How many bytes a name may have there: 255, or 143 on an encrypted share."""
    try:
        return os.pathconf(folder, "PC_NAME_MAX")
    except (OSError, ValueError):
        return 255


def sweep_leftovers(root: str, are_over: Callable[[Sequence[int]], set[int]]) -> None:
    """Remove temporary files whose runs are over; those of living runs are never touched."""
    found: list[tuple[int, str]] = []
    for folder, names in _folders(root):
        for name in names:
            if match := _LEFTOVER.fullmatch(name):
                found.append((int(match[2]), os.path.join(folder, name)))
    over = are_over([run_id for run_id, _ in found])
    for run_id, path in found:
        if run_id in over:
            with suppress(OSError):
                os.unlink(path)


def find_below(root: str, names: Collection[str]) -> dict[str, list[str]]:
    """Where files of these names are below `root`."""
    found: dict[str, list[str]] = {}
    for folder, present in _folders(root):
        for name in present:
            if name in names:
                found.setdefault(name, []).append(os.path.join(folder, name))
    return found


def _folders(root: str) -> Iterator[tuple[str, list[str]]]:
    """Every folder of a library with the names in it; recycle bins and snapshots are none."""
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if folder_reason(name) is None]
        yield folder, names


def is_missing(path: str) -> bool:
    """Whether there certainly is nothing of that name: a folder that cannot be read, or a disk
    that fails, proves nothing."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
