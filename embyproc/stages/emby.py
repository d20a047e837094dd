"""emby: filed films appear in Emby with the right title, people and pictures.

One scan for a whole batch, one list request for each look; what is found early is updated while
the rest is still awaited. Never touches media files.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from embyproc.clients.emby import ListedItem, poll
from embyproc.errors import EmbyRefused, ServiceDown
from embyproc.models import EMBY, Finished, Item, Status
from embyproc.presenting import differences, is_part, merged_with, normal, tail
from embyproc.stages.emby_server import EmbyServer, path_in_emby
from embyproc.stages.listing import Listing
from embyproc.stages.presenter import make_presenter
from embyproc.stages.runner import Run
from embyproc.stages.workers import Workers

_BATCH = 100
_PATIENCE_SECONDS = 0.2
_PATIENCE_WITH_SCANS = timedelta(days=1)
# So many in a row that Emby stumbles over, and it is not the items.
_SUSPICIOUS = 3
# Ids in one address: with those of Jellyfin some 1,500 characters, which every server takes.
_IDS = 45


def run(run: Run) -> None:
    """Claim a batch, have it scanned, find it, present it; until nothing is left."""
    if run.store.looks.is_waiting(Status.MOVED):
        EmbyStage(run).work()


class EmbyStage:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._config = run.config
        self._server = EmbyServer(run)
        self._client = self._server.client
        self._presenter = make_presenter(self._client, run.store, run.config)
        self._workers: Workers[tuple[Item, str, list[str]], list[str]] = Workers(
            run.config.emby_concurrency
        )
        self._left = run.options.item_limit
        # Of the batch: what is not found yet, by the path that Emby should show.
        self._awaited: dict[str, Item] = {}
        self._listing = Listing()
        self._was_triggered = False
        # Of the batch: what Emby stumbled over although it answers, and what was presented.
        self._stumbled: list[tuple[Item, ServiceDown]] = []
        self._presented: dict[str, Item] = {}

    def work(self) -> None:
        if not self._server.is_reachable():
            return
        while self._run.may_claim and not self._server.is_down and self._left != 0:
            limit = _BATCH if self._left is None else min(_BATCH, self._left)
            items = self._run.store.queue.claim(EMBY, self._run.id, limit)
            if not items:
                return
            self._run.summary.claimed += len(items)
            if self._left is not None:
                self._left -= len(items)
            self._batch(items)
            self._server.worked()

    # -- a batch ---------------------------------------------------------------------------

    def _batch(self, items: Sequence[Item]) -> None:
        filed = [item for item in items if item.new_path]
        lost = [(i, "Emby item not indexed: where the file is was never recorded") for i in items
                if not i.new_path]  # fmt: skip
        self._run.fail(EMBY, lost)
        self._awaited = {}
        for item in filed:
            self._awaited.setdefault(normal(path_in_emby(self._config, item)), item)
        twins = {item.id for item in filed} - {item.id for item in self._awaited.values()}
        self._was_triggered = False
        try:
            self._trigger()
            poll(self._look, self._config.emby_scan_retry_delays, self._work_for)
            if not self._run.stopping.is_set():
                self._refuse_if_down()
                self._find_parts(is_told=False)
                self._begin(self._listing.by_name(self._awaited))
                self._fail_awaited()
        except ServiceDown as error:
            self._server.went_down(error)
            self._give_back(list(self._awaited.values()), str(error))
        while self._workers.in_flight and not self._run.stopping.is_set():
            self._settle(_PATIENCE_SECONDS)
        self._fail_stumbled()
        self._look_again()
        self._follow_twins([item for item in filed if item.id in twins])

    def _trigger(self) -> None:
        """One scan for the batch, unless one is known to be running."""
        if self._server.is_scanning():
            self._run.narrate("Emby is scanning already")
            return
        try:
            self._client.refresh(self._config.emby_parent_folder_id)
            self._was_triggered = True
            self._run.narrate(f"scan of folder {self._config.emby_parent_folder_id} triggered")
        except EmbyRefused as error:
            hint = " (is EMBY_PARENT_FOLDER_ID right?)" if error.status == 404 else ""
            message = f"Emby scan failed: {error}{hint}"
            self._run.fail(EMBY, [(item, message) for item in self._awaited.values()])
            self._awaited = {}

    def _look(self) -> bool:
        """One list request for all that is awaited; True when nothing is awaited any more."""
        if not self._awaited or self._run.stopping.is_set():
            return True
        self._refuse_if_down()
        try:
            self._listing = Listing(self._client.list_videos(self._config.emby_parent_folder_id))
        except EmbyRefused as error:
            self._run.narrate(str(error))
            return False
        self._begin(self._listing.by_path(self._awaited))
        self._find_parts(is_told=True)
        if self._awaited and not self._was_triggered:
            self._trigger()
        return not self._awaited

    def _find_parts(self, *, is_told: bool) -> None:
        """No list shows cd2 where Emby plays it behind cd1: its own question finds it."""
        awaited = [path for path in self._awaited if is_part(path)]
        if not awaited:
            return
        found: dict[str, ListedItem] = {}
        for main in self._listing.other_parts(awaited, is_told=is_told):
            try:
                parts = Listing(self._client.additional_parts(main.id))
                found |= parts.by_name(awaited) | parts.by_path(awaited)
            except EmbyRefused as error:
                self._run.narrate(str(error))
            except ServiceDown as error:
                if not self._server.is_well_but_for(error):
                    raise
                self._run.narrate(str(error))
        self._begin(found)

    def _begin(self, found: Mapping[str, ListedItem]) -> None:
        """Keep the ids at once, then present the items a few at a time."""
        if not found:
            return
        ids = {self._awaited[path].id: listed.id for path, listed in found.items()}
        self._run.store.queue.record_emby_ids(self._run.id, ids)
        for path, listed in found.items():
            item = self._awaited.pop(path)
            self._run.narrate(f"item {item.id} is {listed.id} in Emby")
            others = merged_with(listed.paths, path)
            if others and tail(listed.paths[0]) != tail(path):
                self._run.fail(EMBY, [(item, _merged_message(listed))])
                continue
            warnings = [f"Emby shows {len(others) + 1} files as versions of one item"] * bool(
                others
            )
            self._workers.submit(
                (item, listed.id, warnings),
                partial(self._present, item, listed.id),
            )

    def _present(self, item: Item, emby_id: str) -> list[str]:
        """In a worker."""
        self._refuse_if_down()
        return self._presenter.present(item, emby_id)

    def _refuse_if_down(self) -> None:
        """What was found before Emby went down need not ask it any more, nor fail for it."""
        if self._server.is_down:
            raise ServiceDown("Emby went down meanwhile")

    def _fail_awaited(self) -> None:
        if not self._awaited:
            return
        total = sum(self._config.emby_scan_retry_delays)
        why = "is it where Emby looks? (`embyproc doctor`)"
        patient: set[int] = set()
        if self._server.is_scanning():
            # The first scan of a large library takes hours: nobody is given up before it is over.
            # One that never ends, or begins anew for each try, must not hide a film for good.
            why = f"Emby is still scanning; if that is over, {why}"
            since = self._run.store.clock.now() - _PATIENCE_WITH_SCANS
            ids = [item.id for item in self._awaited.values()]
            patient = self._run.store.looks.moved_since(ids, since)
        for may_heal in (True, False):
            failures = [
                (item, f"Emby item not indexed: {path} did not appear within {total:g} s; {why}")
                for path, item in self._awaited.items()
                if (item.id in patient) is may_heal
            ]
            self._run.fail(EMBY, failures, may_heal=may_heal)
        self._awaited = {}

    def _follow_twins(self, twins: Sequence[Item]) -> None:
        """Two rows filed as one identical file: the second is what the first has become."""
        self._give_back(twins, "another item with the same file is presented first")

    # -- results ---------------------------------------------------------------------------

    def _work_for(self, seconds: float) -> None:
        """Wait for the next look, settling what the workers bring meanwhile."""
        deadline = time.monotonic() + seconds
        while not self._run.stopping.is_set():
            left = deadline - time.monotonic()
            if left <= 0:
                return
            if self._workers.in_flight:
                self._settle(min(_PATIENCE_SECONDS, left))
            else:
                self._run.stopping.wait(min(_PATIENCE_SECONDS, left))

    def _settle(self, patience_seconds: float) -> None:
        done: list[tuple[Item, Finished]] = []
        for (item, emby_id, warnings), result in self._workers.results(patience_seconds):
            if isinstance(result, ServiceDown):
                if self._server.is_well_but_for(result):
                    self._stumbled.append((item, result))
                else:
                    self._server.went_down(result)
                    self._give_back([item], str(result))
            elif isinstance(result, Exception):
                reason = str(result) if isinstance(result, EmbyRefused) else type(result).__name__
                self._run.fail(EMBY, [(item, f"Emby update failed: {reason}")])
            else:
                for warning in result:
                    self._run.narrate(f"warning: {warning}")
                told = [*warnings, *result]
                done.append((item, Finished(id=item.id, emby_item_id=emby_id, warnings=told)))
        finished = self._run.finish(EMBY, done)
        self._presented |= {r.emby_item_id or "": i for i, r in done if i.id in finished}
        if len(self._stumbled) >= _SUSPICIOUS and not self._presented:
            # So busy that it answers short questions only: nobody's fault.
            self._server.went_down(self._stumbled[-1][1])
            self._fail_stumbled()

    def _fail_stumbled(self) -> None:
        """They wait their time and do not come first in the next run, where others would wait
        behind them; those that Emby may just be too busy for at no cost."""
        stumbled, self._stumbled = self._stumbled, []
        if stumbled:
            may_heal = self._server.is_down or self._server.may_be_busy()
            failures = [(item, f"Emby update failed: {error}") for item, error in stumbled]
            self._run.fail(EMBY, failures, may_heal=may_heal)

    def _look_again(self) -> None:
        """The first refresh of a new item may save what it began with after we have looked."""
        presented, self._presented = self._presented, {}
        ids = list(presented)
        for start in range(0, len(ids), _IDS):
            if self._run.stopping.is_set() or not self._run.heartbeat.alive:
                return
            try:
                shown = self._client.read_many(ids[start : start + _IDS])
            except (EmbyRefused, ServiceDown) as error:
                self._run.narrate(f"not looked at again: {error}")
                return
            for found in shown:
                if item := presented.get(str(found.get("Id"))):
                    self._write_again(item, found)

    def _write_again(self, item: Item, shown: Mapping[str, Any]) -> None:
        wanted = self._presenter.wanted(item)
        if not differences(shown, {name: wanted[name] for name in wanted if name in shown}):
            return
        self._run.narrate(f"item {item.id}: Emby has written over it; written once more")
        try:
            self._presenter.fields(str(shown.get("Id")), wanted)
        except (EmbyRefused, ServiceDown) as error:
            told = f"Emby has written over it, and does not take it again: {error}"
            self._run.summary.problems.append(f"item {item.id}: {told}")

    def _give_back(self, items: Sequence[Item], reason: str) -> None:
        if items:
            ids = [item.id for item in items]
            self._run.store.queue.release_items(self._run.id, ids, reason)
            self._run.summary.skipped += len(items)


def _merged_message(listed: ListedItem) -> str:
    return (
        f"Emby update failed: Emby shows this file as a version of {listed.paths[0]} (item "
        f"{listed.id}), as movie libraries do with names that begin with the folder's; a library "
        "of home videos keeps them apart"
    )
