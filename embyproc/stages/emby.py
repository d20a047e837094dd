"""emby: filed films appear in Emby with the right title, people and pictures.

One scan for a whole batch, one list request for each look; what is found early is updated while
the rest is still awaited. Never touches media files.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from embyproc import policy
from embyproc.clients.emby import Emby, ListedItem, poll
from embyproc.clients.pictures import Pictures
from embyproc.clients.wordpress import read_metadata
from embyproc.config import Config
from embyproc.errors import EmbyRefused, ServiceDown
from embyproc.models import EMBY, Finished, Item, Metadata, Status
from embyproc.presenting import (
    Locale,
    differences,
    merged_with,
    normal,
    tail,
    translated,
    wanted_fields,
)
from embyproc.stages.presenter import Presenter
from embyproc.stages.runner import Run
from embyproc.stages.workers import Workers
from embyproc.store import Store

_SERVICE = "emby"
_BATCH = 100
_PATIENCE_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What would change of one item, for `--dry-run`."""

    path: str
    outcome: str


def run(run: Run) -> None:
    """Claim a batch, have it scanned, find it, present it; until nothing is left."""
    if run.store.looks.is_waiting(Status.MOVED):
        EmbyStage(run).work()


def make_client(config: Config) -> Emby:
    assert config.emby_base_url is not None
    assert config.emby_api_key is not None
    return Emby(config.emby_base_url, config.emby_api_key, config.emby_user_id)


def make_presenter(client: Emby, store: Store, config: Config) -> Presenter:
    token = None
    if config.api_token:
        token = store.services.token("wordpress", config.api_token).access_token
    locale = Locale(
        country=config.emby_production_location,
        language=config.emby_metadata_language,
        country_code=config.emby_metadata_country,
    )
    return Presenter(client, Pictures(config.api_base_url, token), locale)


def path_in_emby(config: Config, item: Item) -> str:
    """The item's file as Emby calls it."""
    here = str(config.destination_dir)
    return translated(item.new_path or "", here, config.emby_library_path or here)


def metadata_of(item: Item) -> Metadata | None:
    code = item.movie_code or ""
    return read_metadata(item.metadata_json, "stored", (code,)) if item.metadata_json else None


class EmbyStage:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._config = run.config
        self._client = make_client(run.config)
        self._presenter = make_presenter(self._client, run.store, run.config)
        self._workers: Workers[tuple[Item, str, list[str]], list[str]] = Workers(
            run.config.emby_concurrency
        )
        self._left = run.options.item_limit
        self._is_down = False
        # Whether an earlier run has noted an outage.
        self._is_remembered = False
        # Of the batch: what is not found yet, by the path that Emby should show.
        self._awaited: dict[str, Item] = {}
        self._listed: list[ListedItem] = []
        self._was_triggered = False

    def work(self) -> None:
        if not self._is_reachable():
            return
        while self._run.may_claim and not self._is_down and self._left != 0:
            limit = _BATCH if self._left is None else min(_BATCH, self._left)
            items = self._run.store.queue.claim(EMBY, self._run.id, limit)
            if not items:
                return
            self._run.summary.claimed += len(items)
            if self._left is not None:
                self._left -= len(items)
            self._batch(items)
            if not self._is_down:
                self._works()

    # -- is somebody there? ----------------------------------------------------------------

    def _is_reachable(self) -> bool:
        """Asked before anything is claimed: an outage burns nobody's retries."""
        services, now = self._run.store.services, self._run.store.clock.now()
        state = services.states().get(_SERVICE)
        self._is_remembered = state is not None
        if state is not None and state.open_until is not None and state.open_until > now:
            return False
        try:
            self._client.connect()
            self._client.user_id()
        except (ServiceDown, EmbyRefused) as error:
            self._went_down(error if isinstance(error, ServiceDown) else ServiceDown(str(error)))
            return False
        return True

    def _works(self) -> None:
        """Said after a batch and not after a greeting: a server that can be read but not written
        to is down, and stays so in the books until somebody is told."""
        if self._is_remembered:
            self._run.store.services.record_success(_SERVICE)
            self._is_remembered = False

    def _answers(self) -> bool:
        try:
            self._client.check_key()  # and not `connect`: the workers use what that finds out
        except (ServiceDown, EmbyRefused):
            return False
        return True

    def _went_down(self, error: ServiceDown) -> None:
        if self._is_down:
            return
        self._is_down = True
        services = self._run.store.services
        state = services.states().get(_SERVICE)
        until = policy.outage_until(
            (state.failures if state else 0) + 1,
            self._run.store.clock.now(),
            for_everyone=True,
            retry_after=error.retry_after,
        )
        services.record_failure(_SERVICE, str(error), until)
        self._run.summary.problems.append(f"Emby is unavailable: {error}")

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
                self._find_by_name()
                self._fail_awaited()
            while self._workers.in_flight and not self._run.stopping.is_set():
                self._settle(_PATIENCE_SECONDS)
        except ServiceDown as error:
            self._went_down(error)
            while self._workers.in_flight and not self._run.stopping.is_set():
                self._settle(_PATIENCE_SECONDS)
            self._give_back(list(self._awaited.values()), str(error))
        self._follow_twins([item for item in filed if item.id in twins])

    def _trigger(self) -> None:
        """One scan for the batch, unless one is known to be running."""
        if self._is_scanning():
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

    def _is_scanning(self) -> bool:
        try:
            return any(library.is_scanning for library in self._client.libraries())
        except EmbyRefused as error:
            self._run.narrate(str(error))
            return False

    def _look(self) -> bool:
        """One list request for all that is awaited; True when nothing is awaited any more."""
        if not self._awaited or self._run.stopping.is_set():
            return True
        try:
            self._listed = self._client.list_videos(self._config.emby_parent_folder_id)
        except EmbyRefused as error:
            self._run.narrate(str(error))
            return False
        by_path = {normal(path): item for item in self._listed for path in item.paths}
        found = {path: by_path[path] for path in self._awaited if path in by_path}
        self._begin(found)
        if self._awaited and not self._was_triggered:
            self._trigger()
        return not self._awaited

    def _find_by_name(self) -> None:
        """Where the roots do not agree: the same file name in a folder of the same name."""
        by_tail: dict[tuple[str, str], list[ListedItem]] = {}
        for item in self._listed:
            for path in item.paths:
                by_tail.setdefault(tail(path), []).append(item)
        found = {path: by_tail.get(tail(path), []) for path in self._awaited}
        self._begin({path: items[0] for path, items in found.items() if len(items) == 1})

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
                partial(self._presenter.present, item, listed.id, metadata_of(item)),
            )

    def _fail_awaited(self) -> None:
        total = sum(self._config.emby_scan_retry_delays)
        self._run.fail(
            EMBY,
            [
                (item, f"Emby item not indexed: {path} did not appear within {total:g} s; is it "
                       "where Emby looks? (`embyproc doctor`)")
                for path, item in self._awaited.items()
            ],
        )  # fmt: skip
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
            if isinstance(result, ServiceDown) and not self._is_this_item(result):
                self._went_down(result)
                self._give_back([item], str(result))
            elif isinstance(result, Exception):
                refused = isinstance(result, EmbyRefused | ServiceDown)
                reason = str(result) if refused else type(result).__name__
                self._run.fail(EMBY, [(item, f"Emby update failed: {reason}")])
            else:
                for warning in result:
                    self._run.narrate(f"warning: {warning}")
                told = [*warnings, *result]
                done.append((item, Finished(id=item.id, emby_item_id=emby_id, warnings=told)))
        self._run.finish(EMBY, done)

    def _is_this_item(self, error: ServiceDown) -> bool:
        """Whether Emby stumbles over one item and is well otherwise: that item fails, or it would
        hold up all others run after run."""
        return not self._is_down and error.retry_after is None and self._answers()

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


def redo_pictures(
    store: Store, config: Config, items: Sequence[Item]
) -> Iterator[tuple[Item, list[str]]]:
    """Give completed items their pictures again; yields what went wrong with each."""
    client = make_client(config)
    client.connect()
    presenter = make_presenter(client, store, config)
    for item in items:
        warnings = presenter.pictures(item.emby_item_id or "", metadata_of(item))
        store.queue.record_warnings(item.id, warnings)
        yield item, warnings


def plan(run: Run) -> Iterator[Change]:
    """What would change in Emby, field by field; changes nothing anywhere."""
    client = make_client(run.config)
    client.connect()
    locale = make_presenter(client, run.store, run.config).locale
    listed = client.list_videos(run.config.emby_parent_folder_id)
    by_path = {normal(path): item for item in listed for path in item.paths}
    for item in run.store.looks.waiting(Status.MOVED, run.options.item_limit):
        path = path_in_emby(run.config, item)
        found = by_path.get(normal(path))
        if found is None:
            yield Change(path=path, outcome="not indexed yet: a scan would be triggered")
            continue
        try:
            current = client.read(found.id)
        except EmbyRefused as error:
            yield Change(path=path, outcome=f"error: {error}")
            continue
        stem = os.path.splitext(os.path.basename(item.new_path or ""))[0]
        wanted = wanted_fields(metadata_of(item), stem, locale)
        for name in differences(current, wanted):
            yield Change(path=path, outcome=f"{name}: {current.get(name)!r} -> {wanted[name]!r}")
