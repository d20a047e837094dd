"""scan: every finished download is queued once, and no unfinished one ever is."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice, repeat, takewhile
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
from embyproc.models import Item, RunSummary
from embyproc.stages.mounts import refuse_one_folder, refuse_unmounted
from embyproc.stages.runner import Options, Run
from embyproc.stages.workers import one_ahead
from embyproc.store import Store
from embyproc.store.sightings import SOURCE_MISSING, Candidate, Verdicts, copy_lines

# A page of the walk: so many films go to the database at a time, and are queued at a time.
_PAGE = 5000

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
        counts = _look(run, told)
        if settle is not None and not run.stopping.wait(settle):
            counts = _look(run, told)
        if settle is not None and counts["young"]:
            age = run.config.stability_min_age
            run.summary.problems.append(
                f"{counts['young']} files were changed in the last {age} s (STABILITY_MIN_AGE): "
                "a later scan queues them"
            )
    except Stopped as stopped:
        run.summary.problems.append(str(stopped))


def _look(run: Run, progress: Progress) -> Counter[str]:
    arrivals, summary = run.store.arrivals, run.summary
    root, walk = _walk(run.config)
    identity, films = _load(run.store, root, walk, progress)
    with arrivals.alone() as is_alone:
        if not is_alone:
            summary.problems.append("another scan is at work at this moment: left to it")
            return Counter()
        verdicts = _judge(run.store, root, run.config)
        missing = _vanished(run) if "unseen" in verdicts.counts else []
        if "renamed" in verdicts.counts:
            arrivals.follow_renamed()
        if verdicts.ready:
            verdicts = _queue(run, verdicts, lambda: progress(films))
        arrivals.remember(root, verdicts)
    run.store.folders.remember(root, identity, films)

    summary.claimed += len(missing)
    summary.failed += len(missing)
    summary.skipped = walk.skipped + _not_yet(verdicts)
    summary.problems += [told for told in walk.problems if told not in summary.problems]
    return verdicts.counts


def _queue(run: Run, verdicts: Verdicts, waiting: Callable[[], None]) -> Verdicts:
    """Queue what is ready; returns what became of the verdicts."""
    arrivals, summary = run.store.arrivals, run.summary
    if run.options.item_limit is not None:
        left = max(0, run.options.item_limit - summary.succeeded)
        verdicts = run.store.sightings.keep_for_later(left)

    def count(queued: int) -> None:
        summary.claimed += queued
        summary.succeeded += queued

    for page in _asked(run.store, verdicts, waiting):
        count(arrivals.queue(page))
    if verdicts.known:
        count(arrivals.queue_again())
    summary.items += [
        {"id": item_id, "file_path": path, "status": "pending"}
        for item_id, path in arrivals.queued(_TOLD)
    ]
    return verdicts


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
    verdicts = _judge(store, root, config)
    for _ in _asked(store, verdicts, lambda: None):
        pass
    ready = min(verdicts.counts["ready"], options.item_limit or verdicts.counts["ready"])
    summary = RunSummary(command="scan", claimed=ready, succeeded=ready)
    summary.skipped = walk.skipped + _not_yet(verdicts)
    summary.problems += walk.problems

    def judged() -> Iterator[Judged]:
        for candidate in store.sightings.candidates():
            yield Judged(path=candidate.path, reason=explain(candidate, config))
        for path, status in store.sightings.known():
            yield Judged(path=path, reason=f"known: {status}")
        yield from passed_over

    return summary, judged()


def _not_yet(verdicts: Verdicts) -> int:
    """How many films were neither queued nor in the queue already."""
    done = ("ready", "renamed", "waiting", "unseen")
    return sum(films for verdict, films in verdicts.counts.items() if verdict not in done)


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
    refuse_one_folder(config)
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
    for films, lines in _pages(copy_lines(walk), lambda: progress(seen)):  # noqa: B023
        store.sightings.load(lines)
        seen = films
        progress(seen)
    refuse_unmounted(store, "WATCH_DIR", root, identity, seen)
    return identity, seen


def _pages(lines: Iterator[str], waiting: Callable[[], None]) -> Iterator[tuple[int, list[str]]]:
    """How many films so far, and the lines of the last of them.

    A large tree is walked on while the database takes a page; for a small one no thread is
    worth its while.
    """
    films = 0

    def take(_: object) -> tuple[int, list[str]]:
        nonlocal films
        page = list(islice(lines, _PAGE))
        films += len(page)
        return films, page

    first = take(None)
    yield first
    if films == _PAGE:
        yield from takewhile(lambda taken: taken[1], one_ahead(take, repeat(None), waiting))


def _asked(store: Store, verdicts: Verdicts, waiting: Callable[[], None]) -> Iterator[int]:
    """Each page with films that are ready, after the last look: what somebody still writes to is
    held back.

    Of several pages, that look is taken at the next one while the caller is busy with this one.
    """

    def ask(page: tuple[int, list[str]]) -> tuple[int, list[str]]:
        number, paths = page
        return number, open_for_writing(paths)

    ignore_leases()
    pages = ((number, store.sightings.ready(number)) for number in verdicts.ready)
    is_one = len(verdicts.ready) == 1
    for number, writing in map(ask, pages) if is_one else one_ahead(ask, pages, waiting):
        store.sightings.hold_back(number, writing)
        verdicts.counts["ready"] -= len(writing)
        verdicts.counts["writing"] += len(writing)
        yield number


def _judge(store: Store, root: str, config: Config) -> Verdicts:
    min_age = config.stability_min_age
    return store.sightings.judge(
        root,
        min_checks=config.stability_min_checks,
        min_age=min_age,
        # The file system's times are those of this machine, not of the database.
        oldest_ctime_ns=time.time_ns() - min_age * 1_000_000_000,
    )


def _vanished(run: Run) -> list[Item]:
    """Waiting items whose file is certainly gone become errors; scan brings them back with it."""
    failures = []
    for item in run.store.sightings.unseen():
        if not is_gone(item.file_path):
            continue
        message = f"{SOURCE_MISSING}: {item.file_path}; it is queued again when it is back"
        failures.append(run.failure(item, message))
    failed = run.store.queue.fail_waiting(failures)
    for item in failed:
        if policy.is_given_up(item, max_retries=run.config.max_retries):
            run.give_up(item)
    return failed
