"""Telling an empty folder from one whose volume is not mounted."""

from embyproc.errors import ConfigError
from embyproc.store import Store


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
