"""What every stage shares: its run in the database, its time budget, the wish to stop."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import FrameType
from typing import Any, NamedTuple

from embyproc import policy
from embyproc.config import Config
from embyproc.errors import DatabaseUnusable, EmbyprocError
from embyproc.liveness import is_certainly_gone, own_process
from embyproc.log import Log
from embyproc.models import EMBY, Failed, Finished, Item, RunSummary, Stage
from embyproc.store import Store
from embyproc.store.runs import Heartbeat

# How long to try to reach a database again that went away in the middle of a run.
_RECONNECT_SECONDS = 8.0


class Options(NamedTuple):
    """What a person or cron may ask of a stage."""

    limit: int | None = None
    once: bool = False
    max_runtime: float = 50.0
    dry_run: bool = False

    @property
    def item_limit(self) -> int | None:
        return 1 if self.once else self.limit


@dataclass(slots=True, kw_only=True)
class Run:
    """One run of a command: what a stage is handed."""

    id: int
    store: Store
    config: Config
    options: Options
    heartbeat: Heartbeat
    stopping: threading.Event
    deadline: float
    summary: RunSummary
    # Told each step of an item when a person looks on (`--once`).
    narrate: Callable[[str], None] = lambda text: None
    progress: Callable[[int, int], None] = lambda done, total: None
    log: Log = field(default_factory=Log)

    @property
    def may_claim(self) -> bool:
        """Whether new work may begin: time is left, nobody asked to stop, nobody thinks us dead."""
        return (
            not self.stopping.is_set() and time.monotonic() < self.deadline and self.heartbeat.alive
        )

    def fail(
        self, stage: Stage, failures: Sequence[tuple[Item, str]], *, may_heal: bool = False
    ) -> None:
        """Move claimed items to `error` with these messages; what is given up is announced.

        With `may_heal` it costs them no retry: what they lack may come without anybody's doing.
        """
        failed = self.store.queue.fail(
            stage,
            self.id,
            [self.failure(item, message, may_heal=may_heal) for item, message in failures],
        )
        for item in failed:
            self.log.event(
                "failed",
                {
                    "item": item.id,
                    "file": item.file_path,
                    "from": stage.holds,
                    "to": item.status,
                    "attempt": item.retry_count,
                    "message": item.error_message,
                },
            )
        self.summary.failed += len(failed)
        self.summary.skipped += len(failures) - len(failed)
        for item in failed:
            if policy.is_given_up(item, max_retries=self.config.max_retries):
                self.give_up(item)
            else:
                self.summary.items.append(describe(item))

    def failure(self, item: Item, message: str, *, may_heal: bool = False) -> Failed:
        """What is recorded of an item that failed, and when it is tried again."""
        config, now = self.config, self.store.clock.now()
        delays, count = config.retry_backoff_minutes, item.retry_count
        due: datetime | None
        if may_heal:
            due = policy.patient_retry(now - item.created_at, now, backoff_minutes=delays)
        else:
            count += 1
            due = policy.next_retry(
                count,
                now,
                message=message,
                max_retries=config.max_retries,
                backoff_minutes=delays,
            )
        return Failed(id=item.id, error_message=message, next_retry_at=due, retry_count=count)

    def finish(self, stage: Stage, results: Sequence[tuple[Item, Finished]]) -> set[int]:
        """Move claimed items on; what was lost to another run meanwhile is only counted. Returns
        the ids of the others."""
        done = self.store.queue.finish(stage, self.id, [result for _, result in results])
        self.summary.succeeded += len(done)
        self.summary.skipped += len(results) - len(done)
        for item, result in results:
            if result.id not in done:
                continue
            self.log.event(
                str(stage.makes),
                {
                    "item": item.id,
                    "file": result.new_path or item.new_path or item.file_path,
                    "from": stage.holds,
                    "to": stage.makes,
                    "attempt": item.retry_count + 1,
                },
            )
            told = {
                "new_path": result.new_path,
                "emby_item_id": result.emby_item_id,
                "warnings": None if result.warnings is None else list(result.warnings),
            }
            self.summary.items.append(
                {
                    "id": item.id,
                    "status": str(stage.makes),
                    **{name: value for name, value in told.items() if value is not None},
                }
            )
        return done

    def fail_moved(self, item: Item, message: str) -> None:
        """An item that waits for Emby cannot go on; by legal moves only."""
        if self.store.queue.claim_one(EMBY, self.id, item.id):
            self.fail(EMBY, [(item, message)])

    def give_up(self, item: Item) -> None:
        """Note a dead letter: it is announced once, by this run's exit code."""
        self.summary.given_up += 1
        self.summary.items.append({**describe(item), "given_up": True})


def dry_run(store: Store, config: Config, command: str, options: Options) -> Run:
    """A run that is recorded nowhere and may claim nothing: for a plan."""
    return Run(
        id=0,
        store=store,
        config=config,
        options=options,
        heartbeat=Heartbeat(0, store.reopen),
        stopping=threading.Event(),
        deadline=0.0,
        summary=RunSummary(command=command),
    )


@contextmanager
def running(store: Store, config: Config, command: str, options: Options) -> Iterator[Run]:
    """Record the run, keep its heart beating, and at the end release what it still holds.

    Rows of dead runs are released first: every start of every stage heals.
    """
    started = time.monotonic()
    run_id = store.runs.start(command, own_process())
    run = Run(
        id=run_id,
        store=store,
        config=config,
        options=options,
        heartbeat=Heartbeat(run_id, store.reopen),
        stopping=threading.Event(),
        deadline=started + options.max_runtime,
        summary=RunSummary(command=command, run_id=run_id),
    )
    run.heartbeat.start()
    run.summary.exit_code = 3
    try:
        with _stop_on_signals(run.stopping):
            for item in release_dead(store):
                run.give_up(item)
            yield run
        _alert_outages(run)
        run.summary.exit_code = policy.exit_code(run.summary)
    except EmbyprocError as error:
        run.summary.exit_code = error.exit_code
        raise
    finally:
        run.heartbeat.stop()
        run.summary.seconds = time.monotonic() - started
        _end(store, run)


def _end(store: Store, run: Run) -> None:
    """Give back what is left and record the end; a server that restarts is waited for, so that
    nobody takes the run for dead and its items for deadly."""
    deadline = time.monotonic() + _RECONNECT_SECONDS
    while True:
        try:
            store.queue.release(run.id, "the run ended before it came to this item")
            store.runs.finish(run.id, run.summary.exit_code, run.summary.counts())
            return
        except DatabaseUnusable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
            with suppress(DatabaseUnusable):
                store.reconnect()


def _alert_outages(run: Run) -> None:
    """A service that has been down for long is announced, once for each outage."""
    config = run.config
    for state in run.store.services.alert(timedelta(minutes=config.outage_alert_minutes)):
        since = f"{state.down_since:%Y-%m-%d %H:%M}" if state.down_since else "long ago"
        run.summary.outages.append(f"{state.name} is down since {since} UTC: {state.last_error}")


def release_dead(store: Store) -> list[Item]:
    """Give back what dead runs hold; returns what had to be set aside."""
    if not store.looks.is_anything_claimed():
        return []
    gone = [
        run_id for run_id, process in store.runs.unfinished_owners() if is_certainly_gone(process)
    ]
    return store.queue.release_dead(gone)


@contextmanager
def _stop_on_signals(stopping: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT ask the stage to stop; it gives back what it has not begun."""

    def ask(_signal: int, _frame: FrameType | None) -> None:
        stopping.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def describe(item: Item) -> dict[str, Any]:
    """An item as the summary's JSON has it."""
    return {
        "id": item.id,
        "file_path": item.file_path,
        "status": item.status,
        "movie_code": item.movie_code,
        "new_path": item.new_path,
        "error_message": item.error_message,
    }
