"""Folders that are not what they seem: not mounted, or mounted twice."""

import os

from embyproc.config import Config
from embyproc.errors import ConfigError
from embyproc.files.walk import folder_identity, unreadable
from embyproc.store import Store
from embyproc.watching import folder_reason


def refuse_unmounted(
    store: Store, variable: str, folder: str, identity: tuple[int, int], films: int
) -> None:
    """Raise ConfigError where a folder that held something is empty and not the same folder."""
    before = store.folders.last(folder)
    if (
        films == 0
        and before is not None
        and before.files > 0
        and (before.device, before.inode) != identity
    ):
        raise ConfigError(
            [
                f"{variable}: {folder!r} is empty and not the folder of the last run, which held "
                f"{before.files} entries: the volume seems not to be mounted; nothing was changed "
                "(a folder that was really made anew is taken as soon as something is in it)"
            ]
        )


def refuse_unmounted_watch(store: Store, config: Config) -> None:
    """The same of WATCH_DIR, for whoever would miss the films that are queued from it."""
    if config.watch_dir is not None:
        refuse_unmounted_folder(store, "WATCH_DIR", str(config.watch_dir))


def refuse_unmounted_folder(store: Store, variable: str, root: str) -> None:
    """The same of a folder that nobody has looked into yet."""
    identity = folder_identity(root, variable)
    try:
        names = os.listdir(root)
    except OSError as error:
        raise ConfigError([f"{variable}: {unreadable(root, error)}"]) from error
    # A NAS puts folders of its own into an empty mount point too.
    told = sum(folder_reason(name) is None for name in names)
    refuse_unmounted(store, variable, root, identity, told)


def refuse_one_folder(config: Config) -> None:
    """Raise ConfigError where the two folders are one by a link or a mount: every film of the
    library would be taken for a new one."""
    watch, destination = config.watch_dir, config.destination_dir
    if watch is None or destination is None:
        return
    try:
        is_one = os.path.samefile(watch, destination)
    except OSError:
        return  # what is wrong with either is told by whoever reads it
    if is_one:
        raise ConfigError(
            [
                f"DESTINATION_DIR: {str(destination)!r} is WATCH_DIR itself by another name; "
                "expected another folder"
            ]
        )
