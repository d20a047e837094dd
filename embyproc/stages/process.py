"""process: from a raw file name to a filed, well-named file. Never talks to Emby."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from embyproc import policy
from embyproc.clients.wordpress import Lookup, WordPress
from embyproc.errors import (
    EmbyprocError,
    RetryLater,
    ServiceDown,
    StaleClaim,
    Stopped,
    TokenRefused,
)
from embyproc.extract import Extraction, extract
from embyproc.files.place import has_changed, names_in
from embyproc.files.walk import ignore_leases, is_open_for_writing
from embyproc.models import PROCESS, Finished, Item, Metadata, Status
from embyproc.stages.filing import Cabinet, Filing
from embyproc.stages.metadata import Sources
from embyproc.stages.mounts import refuse_unmounted_watch
from embyproc.stages.runner import Run
from embyproc.stages.workers import Workers

# How often the loop looks whether it was asked to stop while it waits for answers.
_PATIENCE_SECONDS = 0.2

Question = tuple[Item, Extraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intention:
    """What would happen to one item, for `--dry-run`."""

    path: str
    outcome: str


def run(run: Run) -> None:
    """Claim, look up a few at a time, and file what was found, until nothing is left or the
    time is over. Look-ups run in threads; database and disk belong to this one."""
    if run.store.looks.is_waiting(Status.PENDING):
        Process(run).work()


def plan(run: Run) -> Iterator[Intention]:
    """From -> to for everything that waits; asks the sources, changes nothing anywhere."""
    assert run.config.api_base_url is not None
    client = WordPress(run.config.api_base_url, run.config.api_refresh_url)
    cabinet, sources = Cabinet(run), Sources(run, client)
    workers: Workers[Question, Lookup] = Workers(run.config.process_concurrency)
    items = run.store.looks.waiting(Status.PENDING, run.options.item_limit)
    for item, extraction in read_names(run, items):
        if extraction.code is None:
            yield Intention(path=item.file_path, outcome=f"error: {policy.NO_MOVIE_CODE}")
        else:
            ask = partial(client.lookup, extraction.lookup_keys, sources.usable, sources.token)
            workers.submit((item, extraction), ask)
    while workers.in_flight and not run.stopping.is_set():
        for (item, extraction), result in workers.results(_PATIENCE_SECONDS):
            yield Intention(
                path=item.file_path, outcome=_intended(run, cabinet, item, extraction, result)
            )


def _intended(
    run: Run, cabinet: Cabinet, item: Item, extraction: Extraction, result: Lookup | Exception
) -> str:
    if isinstance(result, Exception):
        return f"waits: {result}"
    if result.metadata is None:
        if not result.answered:
            return "waits: Metadata service unavailable"
        return f"error: No metadata found for {extraction.code}"
    try:
        known = run.store.looks.of_codes([extraction.code or ""])
        filing = cabinet.plan(item, extraction, result.metadata, known)
    except RetryLater as error:
        return f"error: {error}"
    target = filing.planned.planned_path
    return f"is already at {target}" if filing.is_duplicate else f"-> {target}"


class Process:
    def __init__(self, run: Run) -> None:
        config = run.config
        assert config.api_base_url is not None
        refuse_unmounted_watch(run.store, config)
        self._run = run
        self._client = WordPress(config.api_base_url, config.api_refresh_url)
        self._cabinet = Cabinet(run)
        self._sources = Sources(run, self._client)
        self._workers: Workers[Question, Lookup] = Workers(config.process_concurrency)
        self._left = run.options.item_limit
        # Items whose token was refused once; a second time is not the token's fault.
        self._asked_again: set[int] = set()
        self._put_offs: list[tuple[Item, str]] = []

    def work(self) -> None:
        ignore_leases()
        self._sources.prepare()
        self._serve()
        for item, reason in self._put_offs:
            self._give_back(item, reason)
        if self._put_offs:
            self._run.store.upkeep.trim_timelines([item.id for item, _ in self._put_offs])

    def _serve(self) -> None:
        while True:
            claimed = self._claim()
            if not claimed and not self._workers.in_flight:
                self._cabinet.remember()
                return
            results = self._workers.results(_PATIENCE_SECONDS) if self._workers.in_flight else []
            if self._run.stopping.is_set():
                return  # what is claimed is given back when the run ends
            self._settle(results)

    # -- asking ----------------------------------------------------------------------------

    def _claim(self) -> bool:
        """Fill the workers up; False when nothing was claimed."""
        run, busy = self._run, self._workers.in_flight
        room = 2 * run.config.process_concurrency - busy
        if self._sources.on_trial:
            room = min(room, 1 - busy)
        if self._left is not None:
            room = min(room, self._left)
        if room < 1 or not self._sources.usable or not run.may_claim:
            return False
        items = run.store.queue.claim(PROCESS, run.id, room, idle=not busy)
        run.summary.claimed += len(items)
        if self._left is not None:
            self._left -= len(items)
        filed: list[tuple[Item, Finished]] = []
        for item, extraction in read_names(run, items):
            with self._alone(item):
                self._begin(item, extraction, filed)
        self._record(filed)
        return bool(items)

    @contextmanager
    def _alone(self, item: Item) -> Iterator[None]:
        """Whatever nobody has thought of fails this item and no other: raised, it would end every
        run that meets the item, and all that waits behind it would wait for ever."""
        try:
            yield
        except EmbyprocError:
            raise
        except Exception as error:
            message = f"File error: {type(error).__name__}: {error}"
            self._run.narrate(message)
            self._run.fail(PROCESS, [(item, message)])

    def _begin(
        self, item: Item, extraction: Extraction, filed: list[tuple[Item, Finished]]
    ) -> None:
        """Send an item's question on its way, unless it needs none."""
        self._run.narrate(f"item {item.id}: {item.file_path}")
        try:
            if path := self._cabinet.already_filed(item):
                self._run.narrate(f"an earlier run filed it at {path}")
                note = "filed by an earlier run"
                filed.append((item, Finished(id=item.id, new_path=path, note=note)))
                return
        except RetryLater as error:
            self._run.fail(PROCESS, [(item, str(error))])
            return
        if item.new_path is not None:
            # What was filed is gone from there, and the name has a file again.
            self._run.store.queue.forget_filed(self._run.id, item.id)
        if _is_changing(item):
            self._put_off(item, "the file has changed since it was queued; scan waits for it")
            return
        if extraction.code is None:
            name = os.path.basename(item.file_path)
            message = f"{policy.NO_MOVIE_CODE} in {name!r}; rename the file, scan follows it"
            self._run.narrate(message)
            self._run.fail(PROCESS, [(item, message)])
            return
        self._run.narrate(f"code {extraction.code} (rule: {extraction.rule})")
        self._ask(item, extraction)

    def _ask(self, item: Item, extraction: Extraction) -> None:
        keys, sources, token = extraction.lookup_keys, self._sources.usable, self._sources.token
        suspects = self._sources.take_suspects()
        self._workers.submit(
            (item, extraction), lambda: self._client.lookup(keys, sources, token, suspects)
        )

    # -- settling --------------------------------------------------------------------------

    def _settle(self, results: Sequence[tuple[Question, Lookup | Exception]]) -> None:
        found: list[tuple[Item, Extraction, Metadata]] = []
        for (item, extraction), result in results:
            if isinstance(result, Lookup):
                self._sources.note(result)
                if result.metadata is not None:
                    self._run.narrate(f"{result.metadata.source} knows it: {result.metadata.title}")
                    found.append((item, extraction, result.metadata))
                else:
                    self._not_found(item, extraction, result)
            elif isinstance(result, TokenRefused):
                self._token_refused(item, extraction, result)
            else:
                kind = type(result).__name__
                self._run.fail(PROCESS, [(item, f"Metadata service unavailable: {kind}")])
        if found:
            self._file(found)

    def _not_found(self, item: Item, extraction: Extraction, lookup: Lookup) -> None:
        troubles = lookup.unreachable | lookup.stumbled
        down = "; ".join([*map(str, troubles.values()), *self._not_asked(lookup)])
        if lookup.answered:
            asked = " and ".join(sorted(lookup.answered))
            message = f"No metadata found for {extraction.code} by {asked}"
            message += f" ({down})" if down else ""
        elif not self._sources.usable:
            self._give_back(item, "Metadata service unavailable")
            return
        else:
            message = f"Metadata service unavailable: {down or 'no source is configured'}"
        self._run.narrate(message)
        # A source that is down may know the work: nobody is given up before it was asked.
        may_heal = bool(lookup.unreachable) or any(self._not_asked(lookup))
        self._run.fail(PROCESS, [(item, message)], may_heal=may_heal)

    def _not_asked(self, lookup: Lookup) -> Iterator[str]:
        """Why sources that are known to be down were left out of this question."""
        asked = lookup.answered | lookup.stumbled.keys() | lookup.unreachable.keys()
        for name in self._run.config.api_search_order:
            if name not in asked:
                yield f"{name} is down and was not asked"

    def _token_refused(self, item: Item, extraction: Extraction, refused: TokenRefused) -> None:
        """Ask again with a new token; nobody's retries pay for an old one."""
        try:
            if item.id in self._asked_again:
                raise ServiceDown(f"{refused}, a fresh one too; check API_TOKEN")
            self._asked_again.add(item.id)
            if self._sources.token == refused.token:
                self._sources.renew(refused.token)
        except ServiceDown as error:
            self._sources.all_down(error)
            self._give_back(item, str(error))
            return
        self._ask(item, extraction)

    def _put_off(self, item: Item, reason: str) -> None:
        """Not in this run: given back when it ends, or it would be claimed again at once."""
        self._put_offs.append((item, reason))
        self._run.narrate(f"put off: {reason}")

    def _give_back(self, item: Item, reason: str) -> None:
        self._run.store.queue.release_items(self._run.id, [item.id], reason)
        self._run.summary.skipped += 1
        self._run.narrate(f"given back: {reason}")

    # -- filing ----------------------------------------------------------------------------

    def _file(self, found: Sequence[tuple[Item, Extraction, Metadata]]) -> None:
        """Plan all, record all, then move one after the other: a disk likes it so."""
        run, filings = self._run, []
        known = run.store.looks.of_codes([e.code for _, e, _ in found if e.code])
        for item, extraction, metadata in found:
            same_work = [other for other in known if other.movie_code == extraction.code]
            try:
                with self._alone(item):
                    filings.append(self._cabinet.plan(item, extraction, metadata, same_work))
            except RetryLater as error:
                run.fail(PROCESS, [(item, str(error))])
        mine = run.store.queue.record_plans(run.id, [filing.planned for filing in filings])
        filed: list[tuple[Item, Finished]] = []
        for filing in filings:
            if filing.item.id not in mine:
                run.summary.skipped += 1  # another run has it now
            elif not run.stopping.is_set():
                with self._alone(filing.item):
                    self._carry_out(filing, filed)
        self._record(filed)

    def _carry_out(self, filing: Filing, filed: list[tuple[Item, Finished]]) -> None:
        item, target = filing.item, filing.planned.planned_path
        # Those before it in the batch may have taken an hour to copy.
        if _is_changing(item):
            self._put_off(item, "the file has changed meanwhile; scan waits for it")
            return
        self._run.narrate(f"to {target}")
        try:
            note = self._cabinet.file(filing)
        except FileExistsError:
            self._put_off(item, f"{target} was taken meanwhile")
        except RetryLater as error:
            self._run.narrate(str(error))
            self._run.fail(PROCESS, [(item, str(error))])
        except (Stopped, StaleClaim) as error:
            self._run.summary.skipped += 1
            self._run.narrate(str(error))
        else:
            self._run.narrate(note)
            filed.append((item, Finished(id=item.id, new_path=target, note=note)))

    def _record(self, filed: Sequence[tuple[Item, Finished]]) -> None:
        self._cabinet.mover.sync()
        self._run.finish(PROCESS, filed)


def _is_changing(item: Item) -> bool:
    """Whether it is not the file that was queued any more, or is about to become another."""
    return has_changed(item) or is_open_for_writing(item.file_path)


def read_names(run: Run, items: Sequence[Item]) -> Iterator[tuple[Item, Extraction]]:
    """Read the file names; the files beside them are witnesses, and so are those of the same
    work that were filed before."""
    beside: dict[str, list[str]] = {}
    first: list[tuple[Item, str, str, Extraction]] = []
    for item in items:
        folder, name = os.path.split(item.file_path)
        if folder not in beside:
            try:
                beside[folder] = names_in(folder)
            except RetryLater:
                beside[folder] = []
        parent = os.path.basename(folder)
        first.append((item, name, parent, extract(name, parent=parent, siblings=beside[folder])))
    codes = [extraction.code for *_, extraction in first if extraction.code]
    earlier = run.store.looks.of_codes(codes) if codes else []
    for item, name, parent, extraction in first:
        folder = os.path.dirname(item.file_path)
        moved = [
            os.path.basename(other.file_path)
            for other in earlier
            if other.movie_code == extraction.code and os.path.dirname(other.file_path) == folder
        ]
        if moved and extraction.part is None:
            extraction = extract(name, parent=parent, siblings=[*beside[folder], *moved])
        yield item, extraction
