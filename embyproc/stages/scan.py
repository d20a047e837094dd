"""scan: every finished download is queued once, and no unfinished one ever is."""

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice, repeat, takewhile
from typing import NamedTuple

from embyproc import policy
from embyproc.config import Config
from embyproc.errors import Stopped
from embyproc.files.walk import (
    Walk,
    folder_identity,
    ignore_leases,
    is_gone,
    open_for_writing,
)
from embyproc.models import Failed, Item, RunSummary
from embyproc.stages.mounts import refuse_unmounted
from embyproc.stages.runner import Options, Run
from embyproc.stages.workers import one_ahead
from embyproc.store import Store
from embyproc.store.sightings import SOURCE_MISSING, Candidate, Page, copy_lines

# Films of the walk that go to the database at a time.
_CHUNK = 10_000

# So many of the queued items are named in the summary; a first scan may find a hundred thousand.
_TOLD = 1000

Progress = Callable[[int], None]


class Judged(NamedTuple):
    """One file and what scan makes of it, for `--dry-run`."""

    path: str
    reason: str


def run(run: Run, *, settle: float | None = None, progress: Progress = lambda count: None) -> None:
    """One look at the watch folder, or with `settle` two looks that many seconds apart."""

    def told(count: int) -> None:
        if run.stopping.is_set() or not run.heartbeat.alive:
            raise Stopped("scan was asked to stop before it was done; the next one goes on")
        progress(count)

    try:
        _look(run, told)
        if settle is not None and not run.stopping.wait(settle):
            _look(run, told)
    except Stopped as stopped:
        run.summary.problems.append(str(stopped))


def _look(run: Run, progress: Progress) -> None:
    sightings, summary = run.store.sightings, run.summary
    root, walk = _walk(run.config)
    identity, films = _load(run.store, root, walk, progress)
    with sightings.alone() as is_alone:
        if not is_alone:
            summary.problems.append("another scan is at work at this moment: left to it")
            return
        _judge(run.store, run.config)
        missing = _vanished(run, root)
        verdicts = sightings.counts()
        if "renamed" in verdicts:
            sightings.follow_renamed()
        if "ready" in verdicts:
            _queue(run, lambda: progress(films))
            verdicts = sightings.counts()
        sightings.remember(root, verdicts)
    sightings.remember_folder(root, identity, films)

    summary.claimed += len(missing)
    summary.failed += len(missing)
    summary.skipped = walk.skipped + _not_yet(verdicts)
    summary.problems += walk.problems


def _queue(run: Run, waiting: Callable[[], None]) -> None:
    """Queue what is ready. The last look, whether somebody still writes to a film, is taken at the
    films of the next page while the database is busy with those of this one."""
    sightings, summary = run.store.sightings, run.summary
    if run.options.item_limit is not None:
        sightings.keep_for_later(run.options.item_limit)

    def count(queued: int) -> None:
        summary.claimed += queued
        summary.succeeded += queued

    for page, writing in _asked(sightings.ready_pages(), waiting):
        sightings.hold_back(writing)
        count(sightings.queue(page))
    count(sightings.queue_again())
    summary.items += [
        {"id": item_id, "file_path": path, "status": "pending"}
        for item_id, path in sightings.queued(_TOLD)
    ]


def plan(
    store: Store, config: Config, options: Options, progress: Progress = lambda count: None
) -> tuple[RunSummary, Iterator[Judged]]:
    """What `run` would do with each file and why; changes nothing."""
    passed_over: list[Judged] = []
    root, walk = _walk(config)
    walk.on_skip = lambda path, reason: passed_over.append(
        Judged(path=path, reason=f"passed over: {reason}")
    )
    _load(store, root, walk, progress)
    _judge(store, config)
    for _, writing in _asked(store.sightings.ready_pages(), lambda: None):
        store.sightings.hold_back(writing)
    counts = store.sightings.counts()
    ready = min(counts.get("ready", 0), options.item_limit or counts.get("ready", 0))
    summary = RunSummary(command="scan", claimed=ready, succeeded=ready)
    summary.skipped = walk.skipped + _not_yet(counts)
    summary.problems += walk.problems

    def judged() -> Iterator[Judged]:
        for candidate in store.sightings.candidates():
            yield Judged(path=candidate.path, reason=explain(candidate, config))
        for path, status in store.sightings.known():
            yield Judged(path=path, reason=f"known: {status}")
        yield from passed_over

    return summary, judged()


def _not_yet(counts: Mapping[str, int]) -> int:
    """How many films were neither queued nor in the queue already."""
    return sum(n for verdict, n in counts.items() if verdict not in ("ready", "renamed", "waiting"))


def explain(candidate: Candidate, config: Config) -> str:
    """The verdict on a film in words."""
    match candidate.verdict:
        case "ready":
            return "would be queued"
        case "renamed":
            return f"the item of {candidate.other}, renamed"
        case "waiting":
            return "known: pending, its file or what is beside it changed"
        case "linked":
            return f"passed over: another link to {candidate.other}"
        case "held":
            return "waits: a file beside it says it is still being made"
        case "writing":
            return "waits: somebody has it open for writing"
        case "young":
            return f"waits: changed less than {config.stability_min_age} s ago"
        case _:
            return f"waits: seen {candidate.checks} of {config.stability_min_checks} times"


def _walk(config: Config) -> tuple[str, Walk]:
    assert config.watch_dir is not None
    root = str(config.watch_dir)
    destination = str(config.destination_dir) if config.destination_dir else None
    return root, Walk(
        root=root,
        extensions=config.video_extensions,
        min_size=config.min_file_size,
        excluded=destination,
    )


def _load(store: Store, root: str, walk: Walk, progress: Progress) -> tuple[tuple[int, int], int]:
    """Walk and hand what is seen to the store; refuse a folder that looks unmounted."""
    identity = folder_identity(root, "WATCH_DIR")
    store.sightings.open()
    seen = 0
    for films, lines in _chunks(copy_lines(walk), lambda: progress(seen)):  # noqa: B023
        store.sightings.load(lines)
        seen = films
        progress(seen)
    refuse_unmounted(store, "WATCH_DIR", root, identity, seen)
    return identity, seen


def _chunks(lines: Iterator[str], waiting: Callable[[], None]) -> Iterator[tuple[int, str]]:
    """How many films so far, and the lines of the last of them.

    A large tree is walked on while the database takes a chunk; for a small one no thread is
    worth its while.
    """
    films = 0

    def take(_: object) -> tuple[int, str]:
        nonlocal films
        chunk = list(islice(lines, _CHUNK))
        films += len(chunk)
        return films, "".join(chunk)

    first = take(None)
    yield first
    if films == _CHUNK:
        yield from takewhile(lambda chunk: chunk[1], one_ahead(take, repeat(None), waiting))


def _asked(pages: Iterator[Page], waiting: Callable[[], None]) -> Iterator[tuple[Page, list[str]]]:
    """Each page, and those of its films that somebody writes to."""

    def ask(page: Page) -> tuple[Page, list[str]]:
        return page, open_for_writing(page.paths)

    ignore_leases()
    first = next(pages, None)
    if first is not None:
        second = next(pages, None)
        if second is None:
            yield ask(first)
        else:
            yield from one_ahead(ask, chain((first, second), pages), waiting)


def _judge(store: Store, config: Config) -> None:
    min_age = config.stability_min_age
    store.sightings.judge(
        min_checks=config.stability_min_checks,
        min_age=min_age,
        # The file system's times are those of this machine, not of the database.
        oldest_ctime_ns=time.time_ns() - min_age * 1_000_000_000,
    )


def _vanished(run: Run, root: str) -> list[Item]:
    """Waiting items whose file is certainly gone become errors; scan brings them back with it."""
    config, now = run.config, run.store.clock.now()
    failures = []
    for item in run.store.sightings.unseen_waiting(root):
        if not is_gone(item.file_path):
            continue
        message = f"{SOURCE_MISSING}: {item.file_path}; it is queued again when it is back"
        due = policy.next_retry(
            item.retry_count + 1,
            now,
            message=message,
            max_retries=config.max_retries,
            backoff_minutes=config.retry_backoff_minutes,
        )
        failures.append(Failed(id=item.id, error_message=message, next_retry_at=due))
    failed = run.store.queue.fail_waiting(failures)
    for item in failed:
        if policy.is_given_up(item, max_retries=config.max_retries):
            run.give_up(item)
    return failed
