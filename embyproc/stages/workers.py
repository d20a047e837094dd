"""A few daemon threads for work that waits for others: HTTP, the disk, the database."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Generic, TypeVar

Given = TypeVar("Given")
Key = TypeVar("Key")
Result = TypeVar("Result")


class Workers(Generic[Key, Result]):
    """Runs calls in threads and hands the results to whoever asks, in the order they come.

    Daemons, unlike those of concurrent.futures: a slow server must not hold up the end of the
    program when it is asked to stop.
    """

    def __init__(self, count: int) -> None:
        self._calls: queue.SimpleQueue[tuple[Key, Callable[[], Result]]] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[Key, Result | Exception]] = queue.SimpleQueue()
        self.in_flight = 0
        for number in range(count):
            threading.Thread(target=self._work, name=f"worker-{number}", daemon=True).start()

    def submit(self, key: Key, call: Callable[[], Result]) -> None:
        self.in_flight += 1
        self._calls.put((key, call))

    def results(self, patience_seconds: float) -> list[tuple[Key, Result | Exception]]:
        """All results there are; waits for the first one, but not longer than this."""
        found: list[tuple[Key, Result | Exception]] = []
        try:
            found.append(self._results.get(timeout=patience_seconds))
            while True:
                found.append(self._results.get_nowait())
        except queue.Empty:
            self.in_flight -= len(found)
            return found

    def _work(self) -> None:
        while True:
            key, call = self._calls.get()
            try:
                self._results.put((key, call()))
            except Exception as error:  # handed to the main thread, which knows what it means
                self._results.put((key, error))


def one_ahead(
    work: Callable[[Given], Result], things: Iterable[Given], waiting: Callable[[], None]
) -> Iterator[Result]:
    """`work` done on each thing, in order: the next one in a thread while the caller uses this one.

    `things` are taken in the caller's thread. `waiting` is called now and then while the caller
    has to wait, and may raise to end it.
    """
    workers: Workers[None, Result] = Workers(1)
    made: deque[Result | Exception] = deque()

    def wait() -> Result:
        while not made:
            waiting()
            made.extend(result for _, result in workers.results(0.5))
        result = made.popleft()
        if isinstance(result, Exception):
            raise result
        return result

    asked = 0
    for thing in things:
        workers.submit(None, partial(work, thing))
        asked += 1
        if asked > 1:
            yield wait()
    if asked:
        yield wait()
