"""Scans of the stand-in Emby: queued by a request, done later by walking the real directory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from embyproc.demo.emby_library import Library, MediaItem


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    top_id: str
    recursive: bool
    due: float
    # The full scan shows up as a scheduled task, a targeted refresh does not.
    is_task: bool


class ScanQueue:
    """Runs each scan `delay_seconds` after it was asked for, one after the other.

    Without any delay the scan is done inside the request, so that tests need not wait.
    """

    def __init__(
        self,
        library: Library,
        lock: threading.RLock,
        *,
        delay_seconds: float,
        item_delay_seconds: float,
        now: Callable[[], datetime],
        on_new_item: Callable[[MediaItem], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self.delay_seconds = delay_seconds
        self.item_delay_seconds = item_delay_seconds
        self.finished = 0
        self._library = library
        self._changed = threading.Condition(lock)
        self._now = now
        self._on_new_item = on_new_item
        self._on_error = on_error
        self._waiting: list[Scan] = []
        self._running: Scan | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._work, name="stand-in scan", daemon=True)
            self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        """Ends the thread; waiting scans are forgotten, as by a server that restarts."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            with self._changed:
                self._waiting.clear()
                self._changed.notify_all()
            thread.join(timeout_seconds)

    def ask(self, top_id: str, *, recursive: bool, is_task: bool = False) -> None:
        due = time.monotonic() + self.delay_seconds
        scan = Scan(top_id=top_id, recursive=recursive, due=due, is_task=is_task)
        if self.delay_seconds <= 0 and self.item_delay_seconds <= 0:
            self.run(scan, 0.0)
            return
        with self._changed:
            self._waiting.append(scan)
            self._changed.notify_all()

    def status(self) -> str:
        """`Active`, `Queued` or `Idle`."""
        with self._changed:
            return "Active" if self._running else "Queued" if self._waiting else "Idle"

    def task_is_running(self) -> bool:
        with self._changed:
            return any(scan.is_task for scan in (*self._waiting, self._running) if scan)

    def scan_all(self) -> None:
        """Scans the whole library here and now."""
        top = self._library.library_id
        self.run(Scan(top_id=top, recursive=True, due=0.0, is_task=False), item_delay_seconds=0.0)

    def run(self, scan: Scan, item_delay_seconds: float) -> None:
        """Walks the folder, adds what is new, drops what is gone."""
        library = self._library
        top_id = library.root_id if scan.top_id == library.library_id else scan.top_id
        with self._changed:
            top = library.items.get(top_id)
            known = set(library.items)
        if top is None:
            return
        seen = set()
        for found in library.walk(top.path, recursive=scan.recursive):
            seen.add(found.path)
            with self._changed:
                item, is_new = library.put(found, self._now())
                if is_new:
                    self._on_new_item(item)
            pause_seconds = item_delay_seconds if is_new and not item.is_folder else 0.0
            if pause_seconds > 0 and self._stopping.wait(pause_seconds):
                return
        with self._changed:
            # Only what was there before the walk: another scan may have added items meanwhile.
            library.forget_missing(top, known, seen, recursive=scan.recursive)
            if not seen and top_id != library.root_id:
                library.remove(top_id)
            self.finished += 1

    def _work(self) -> None:
        while not self._stopping.is_set():
            with self._changed:
                if not self._waiting:
                    self._changed.wait()
                    continue
                remaining = self._waiting[0].due - time.monotonic()
                if remaining > 0:
                    self._changed.wait(remaining)
                    continue
                self._running = self._waiting.pop(0)
            try:
                self.run(self._running, self.item_delay_seconds)
            except Exception as error:
                self._on_error(error)
            finally:
                with self._changed:
                    self._running = None
