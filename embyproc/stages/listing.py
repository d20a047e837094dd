"""What Emby shows of the library, as something to find films in. Pure."""

from collections.abc import Collection, Iterator, Sequence

from embyproc.clients.emby import ListedItem
from embyproc.presenting import normal, tail, work


class Listing:
    """One answer to a list request."""

    def __init__(self, items: Sequence[ListedItem] = ()) -> None:
        self._items = items

    def by_path(self, paths: Collection[str]) -> dict[str, ListedItem]:
        """Which of these files it shows, each with its item."""
        known = {normal(path): item for item in self._items for path in item.paths}
        return {path: known[path] for path in paths if path in known}

    def by_name(self, paths: Collection[str]) -> dict[str, ListedItem]:
        """Where the roots do not agree: the same file name in a folder of the same name, if there
        is just one."""
        wanted = {tail(path): path for path in paths}
        found: dict[str, list[ListedItem]] = {}
        for item in self._items:
            for name in {tail(path) for path in item.paths} & wanted.keys():
                found.setdefault(wanted[name], []).append(item)
        return {path: items[0] for path, items in found.items() if len(items) == 1}

    def other_parts(self, paths: Collection[str], *, is_told: bool) -> Iterator[ListedItem]:
        """The items that may have one of these files behind them: other parts of the same work,
        with `is_told` only those of which Emby says that there is something behind them."""
        wanted = {work(path) for path in paths}
        for item in self._items:
            if (item.part_count > 1 or not is_told) and wanted & {work(p) for p in item.paths}:
                yield item
