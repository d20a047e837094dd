"""Where the queue and the disk disagree: put right what can be, say so where it cannot."""

import os
from collections.abc import Sequence

from embyproc.errors import ConfigError, RetryLater
from embyproc.files.move import is_one_file, remove_if_published
from embyproc.files.place import find_below, is_missing, sweep_leftovers
from embyproc.models import PROCESS, Finished, Item, Status
from embyproc.stages.filing import Cabinet
from embyproc.stages.runner import Run


def reconcile(run: Run) -> None:
    """Finish what dead runs published, remove what they left, follow files moved by hand."""
    if run.config.destination_dir is None:
        return
    dead = run.store.runs.close_dead()
    planned = [
        item
        for item in run.store.looks.planned()
        if any(path and os.path.lexists(path) for path in (item.new_path, item.planned_path))
    ]
    moved = run.store.looks.waiting(Status.MOVED)
    if not (dead or planned or moved):
        return
    try:
        cabinet = Cabinet(run)  # refuses a destination that is not mounted
    except (ConfigError, RetryLater) as error:
        run.summary.problems.append(str(error))
        return
    if dead:
        sweep_leftovers(str(run.config.destination_dir), run.store.runs.are_over)
    _finish_published(run, cabinet, planned)
    _follow_moved(run, moved)


def _finish_published(run: Run, cabinet: Cabinet, planned: Sequence[Item]) -> None:
    """A file that is where its plan says needs no metadata any more: it is filed."""
    filed: list[Finished] = []
    mine = [item for item in planned if run.store.queue.claim_one(PROCESS, run.id, item.id)]
    for item in mine:
        try:
            path = cabinet.already_filed(item)
        except RetryLater:
            path = None  # process meets the same and says so
        if path is not None:
            filed.append(Finished(id=item.id, new_path=path, note="found where it was planned"))
    cabinet.mover.sync()
    done = run.store.queue.finish(PROCESS, run.id, filed)
    left = [item.id for item in mine if item.id not in done]
    run.store.queue.release_items(run.id, left, "not published yet: process does it")


def _follow_moved(run: Run, items: Sequence[Item]) -> None:
    """For what waits for Emby: is the file where it was filed, and only there?"""
    missing: list[Item] = []
    for item in items:
        path = item.new_path or ""
        try:
            if is_missing(path):
                missing.append(item)
            elif os.path.lexists(item.file_path) and item.file_path != path:
                _remove_second_copy(run, item, path)
        except OSError as error:
            run.summary.problems.append(f"item {item.id}: {error.strerror} ({item.file_path})")
    if not missing:
        return
    names = {os.path.basename(item.new_path or "") for item in missing}
    found = find_below(str(run.config.destination_dir), names)
    for item in missing:
        places = found.get(os.path.basename(item.new_path or ""), [])
        if len(places) == 1:
            note = f"moved by hand from {item.new_path}"
            run.store.queue.follow_file(item.id, item.new_path or "", places[0], note)
        else:
            count = "nowhere" if not places else f"{len(places)} times"
            message = f"File error: {item.new_path} is gone, and its name is {count} below it"
            run.fail_moved(item, message)


def _remove_second_copy(run: Run, item: Item, path: str) -> None:
    """The source is still there although a verified copy is published; compared once more."""
    if not os.path.isfile(path) or is_one_file(item.file_path, path):
        return
    if remove_if_published(item.file_path, path):
        run.store.queue.add_event(item.id, item.status, "the source of the published copy removed")
