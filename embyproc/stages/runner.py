"""What every stage shares: its run in the database, its time budget, the wish to stop."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from embyproc import policy
from embyproc.config import Config
from embyproc.models import Item, RunSummary
from embyproc.store import Store
from embyproc.store.runs import Heartbeat


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
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

    @property
    def may_claim(self) -> bool:
        """Whether new work may begin: time is left, nobody asked to stop, nobody thinks us dead."""
        return (
            not self.stopping.is_set() and time.monotonic() < self.deadline and self.heartbeat.alive
        )

    def give_up(self, item: Item) -> None:
        """Note a dead letter: it is announced once, by this run's exit code."""
        self.summary.given_up += 1
        self.summary.items.append(describe(item))


@contextmanager
def running(store: Store, config: Config, command: str, options: Options) -> Iterator[Run]:
    """Record the run, keep its heart beating, and at the end release what it still holds.

    Rows of dead runs are released first: every start of every stage heals.
    """
    started = time.monotonic()
    run_id = store.runs.start(command)
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
    code = 3
    try:
        with _stop_on_signals(run.stopping):
            for item in store.queue.release_dead():
                run.give_up(item)
            yield run
        code = policy.exit_code(run.summary)
    finally:
        run.heartbeat.stop()
        run.summary.seconds = time.monotonic() - started
        store.queue.release(run_id, "the run ended before it came to this item")
        store.runs.finish(run_id, code, run.summary.counts())


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
