"""What a person asks of emby beside its work: what would change, and pictures once more."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from embyproc.config import Config
from embyproc.errors import EmbyRefused
from embyproc.models import Item, Status
from embyproc.presenting import differences, normal
from embyproc.stages.emby_server import make_client, path_in_emby
from embyproc.stages.listing import Listing
from embyproc.stages.presenter import make_presenter
from embyproc.stages.runner import Run
from embyproc.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What would change of one item, for `--dry-run`."""

    path: str
    outcome: str


def redo_pictures(
    store: Store, config: Config, items: Sequence[Item]
) -> Iterator[tuple[Item, list[str]]]:
    """Give completed items their pictures again; yields what went wrong with each."""
    client = make_client(config)
    client.connect()
    presenter = make_presenter(client, store, config)
    for item in items:
        try:
            warnings = presenter.pictures(client.read(item.emby_item_id or ""), item)
        except EmbyRefused as error:
            warnings = [f"{error}; if Emby knows it by another id now: embyproc reset {item.id}"]
        store.queue.record_warnings(item.id, warnings)
        yield item, warnings


def plan(run: Run) -> Iterator[Change]:
    """What would change in Emby, field by field; changes nothing anywhere."""
    client = make_client(run.config)
    client.connect()
    presenter = make_presenter(client, run.store, run.config)
    listing = Listing(client.list_videos(run.config.emby_parent_folder_id))
    waiting = run.store.looks.waiting(Status.MOVED, run.options.item_limit)
    paths = {item.id: normal(path_in_emby(run.config, item)) for item in waiting}
    shown = listing.by_path(paths.values())
    for item in waiting:
        path = paths[item.id]
        found = shown.get(path)
        if found is None:
            yield Change(path=path, outcome="not indexed yet: a scan would be triggered")
            continue
        try:
            current = client.read(found.id)
        except EmbyRefused as error:
            yield Change(path=path, outcome=f"error: {error}")
            continue
        wanted = presenter.wanted(item)
        for name in differences(current, wanted):
            yield Change(path=path, outcome=f"{name}: {current.get(name)!r} -> {wanted[name]!r}")
