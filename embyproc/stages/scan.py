"""scan: every finished download is queued once, and no unfinished one ever is."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from embyproc import policy
from embyproc.config import Config
from embyproc.errors import Stopped
from embyproc.files.walk import Walk, folder_identity, is_gone, open_for_writing
from embyproc.models import Failed, Item, RunSummary
from embyproc.stages.mounts import refuse_unmounted
from embyproc.stages.runner import Options, Run
from embyproc.store import Store
from embyproc.store.sightings import SOURCE_MISSING, Candidate

# So many of the queued items are named in the summary; a first scan may find a hundred thousand.
_TOLD = 1000

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One file and what scan makes of it, for `--dry-run`."""

    path: str
    reason: str


def run(run: Run, *, settle: float | None = None, progress: Progress = lambda count: None) -> None:
    """One look at the watch folder, or with `settle` two looks that many seconds apart."""

    def told(count: int) -> None:
        if run.stopping.is_set() or not run.heartbeat.alive:
            raise Stopped("scan was asked to stop; nothing was changed")
        progress(count)

    try:
        _look(run, told)
        if settle is not None and not run.stopping.wait(settle):
            _look(run, told)
    except Stopped as stopped:
        run.summary.problems.append(str(stopped))


def _look(run: Run, progress: Progress) -> None:
    store, config, summary = run.store, run.config, run.summary
    root, walk = _walk(config)
    identity, films = _load(store, root, walk, progress)
    _judge(store, config)
    _hold_back_open_files(store)
    progress(films)
    missing = _vanished(run, root)
    queued = store.sightings.apply(root, run.options.item_limit, told=_TOLD)
    if queued is None:
        summary.problems.append("another scan is at work at this moment: left to it")
        return
    store.sightings.remember_folder(root, identity, films)

    summary.claimed += queued.count + len(missing)
    summary.succeeded += queued.count
    summary.failed += len(missing)
    summary.skipped = walk.skipped + _not_yet(store.sightings.counts())
    summary.items += [
        {"id": item_id, "file_path": path, "status": "pending"} for item_id, path in queued.items
    ]
    summary.problems += walk.problems


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
    _hold_back_open_files(store)
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
    films = store.sightings.load(walk, progress)
    refuse_unmounted(store, "WATCH_DIR", root, identity, films)
    return identity, films


def _judge(store: Store, config: Config) -> None:
    min_age = config.stability_min_age
    store.sightings.judge(
        min_checks=config.stability_min_checks,
        min_age=min_age,
        # The file system's times are those of this machine, not of the database.
        oldest_ctime_ns=time.time_ns() - min_age * 1_000_000_000,
    )


def _hold_back_open_files(store: Store) -> None:
    """The last look, for the films that seem ready: does somebody still write to them?"""
    for page in store.sightings.ready_pages():
        if writing := open_for_writing(page):
            store.sightings.hold_back(writing)


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
