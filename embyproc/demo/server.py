"""Base of the stand-in servers: real HTTP/1.1 on loopback, a request log and a fault plan.

`with StandIn...(...) as server:` or `start()` / `stop()`. A stopped server refuses connections
and can be started again on the same port, which is how an outage is played.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self

from embyproc.demo.faults import Fault, FaultKind, FaultPlan, Matcher
from embyproc.demo.messages import Reply, Request, RequestRecord, text_reply
from embyproc.demo.transport import Listener

_STOP_SECONDS = 0.4


class StandInServer(ABC):
    """Subclasses implement `respond`; it runs in many threads at once."""

    def __init__(self, *, seed: int = 0, latency_seconds: float = 0.0) -> None:
        self.latency_seconds = latency_seconds
        self.clock_skew_seconds = 0.0
        self.send_content_length = True
        self.errors: list[str] = []
        self.max_in_flight = 0
        self._faults = FaultPlan(seed)
        self._log_lock = threading.Lock()
        self._log: list[RequestRecord] = []
        self._in_flight = 0
        self._stopping = threading.Event()
        self._listener: Listener | None = None
        self._port = 0

    # Life

    def start(self) -> Self:
        """Listens on a free port of 127.0.0.1, or on the former one when started again."""
        if self._listener is None:
            self._stopping.clear()
            self._listener = Listener(self, self._port)
            self._port = self._listener.port
            self._listener.start()
        return self

    def stop(self) -> None:
        """Refuses connections, cuts the open ones and ends the threads, within a second."""
        listener, self._listener = self._listener, None
        if listener is not None:
            self._stopping.set()
            listener.stop(_STOP_SECONDS)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def base_url(self) -> str:
        """Without a trailing slash; known from the first start on, also while stopped."""
        if not self._port:
            raise RuntimeError("the stand-in was never started")
        return f"http://127.0.0.1:{self._port}"

    def now(self) -> float:
        """Seconds since the epoch by the server's own clock, which may be told to be wrong."""
        return time.time() + self.clock_skew_seconds

    # Request log

    @property
    def requests(self) -> list[RequestRecord]:
        """Everything received so far, in the order of the answers."""
        with self._log_lock:
            return list(self._log)

    def forget_requests(self) -> None:
        with self._log_lock:
            self._log.clear()
            self.max_in_flight = 0

    # Faults

    def fail(
        self,
        kind: FaultKind,
        *,
        times: int | None = None,
        match: Matcher | str | None = None,
        probability: float | None = None,
        seconds: float = 1.0,
        retry_after: str | None = None,
        status: int = 404,
        location: str = "/redirected",
        after: bool = False,
    ) -> None:
        """Plans a failure until `heal`, for `times` matching requests or with `probability` each.

        `kind`: an error status, a name from `faults.NAMED_KINDS`, or a ready `Reply`. `match`: a
        path prefix or a test of the request. `seconds` belongs to 'slow', `status` to 'big',
        `location` to 'redirect'. With `after` the request takes effect and only its answer is lost.
        """
        fault = Fault(
            kind=kind,
            matches=self._matcher(match, location if kind == "redirect" else None),
            remaining=times,
            probability=probability,
            seconds=seconds,
            retry_after=retry_after,
            status=status,
            location=location,
            after=after,
        )
        self._faults.add(fault)

    def heal(self) -> None:
        """Forgets every planned failure."""
        self._faults.clear()

    def _matcher(self, match: Matcher | str | None, location: str | None) -> Matcher:
        def matches(request: Request) -> bool:
            if location is not None and request.path == location:
                # A client that follows arrives somewhere instead of running in circles.
                return False
            if match is None:
                return True
            if isinstance(match, str):
                return any(path.startswith(match) for path in self.path_forms(request.path))
            return match(request)

        return matches

    # What subclasses add

    @abstractmethod
    def respond(self, request: Request) -> Reply:
        """The true answer."""

    def observe(self, request: Request) -> None:  # noqa: B027 - a hook, not a duty
        """Sees every request before any fault, so that a fault never hides a forbidden call."""

    def path_forms(self, path: str) -> tuple[str, ...]:
        """The spellings of a path that a fault's prefix is compared with."""
        return (path,)

    # Called by the transport

    def answer(self, request: Request) -> tuple[Reply | None, float]:
        """The reply (None: reset the connection) and the seconds to wait before sending it.

        The request takes effect and is logged before the wait: a client that gives up meanwhile
        meets the worst case, and a test finds the request in the log.
        """
        with self._log_lock:
            self._in_flight += 1
            self.max_in_flight = max(self.max_in_flight, self._in_flight)
        reply, delay_seconds = self._guarded(lambda: self._decide(request))
        record = RequestRecord(
            method=request.method,
            path=request.path,
            query=request.query,
            headers=dict(request.headers),
            body=request.body,
            status=reply.status if reply else 0,
            target=request.target,
        )
        with self._log_lock:
            self._log.append(record)
        return reply, delay_seconds + self.latency_seconds

    def answered(self) -> None:
        with self._log_lock:
            self._in_flight -= 1

    def pause(self, seconds: float) -> bool:
        """Waits, but never past `stop`; True when the server was stopped meanwhile."""
        return seconds > 0 and self._stopping.wait(seconds)

    def _decide(self, request: Request) -> tuple[Reply | None, float]:
        self.observe(request)
        fault = self._faults.choose(request)
        if fault is None:
            return self.respond(request), 0.0
        return fault.apply(request, self.respond), fault.delay_seconds()

    def _guarded(
        self, decide: Callable[[], tuple[Reply | None, float]]
    ) -> tuple[Reply | None, float]:
        # A mistake in a stand-in must reach the test that met it, not a thread's stderr.
        try:
            return decide()
        except Exception as error:
            with self._log_lock:
                self.errors.append(f"{type(error).__name__}: {error}")
            return text_reply("the stand-in itself failed", 500), 0.0
