"""The fault plan of a stand-in server: which requests go wrong, how, and how often."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from embyproc.demo.messages import JSON_TYPE, Reply, Request, html_page

FaultKind = int | str | Reply
Matcher = Callable[[Request], bool]
Responder = Callable[[Request], Reply]

NAMED_KINDS = (
    "html200",
    "truncated",
    "reset",
    "slow",
    "redirect",
    "empty",
    "wrong_types",
    "big",
)
# These need the true answer first, so the request takes effect although its answer is spoilt.
_ANSWERED_KINDS = ("truncated", "wrong_types", "slow")
_RETRY_AFTER_SECONDS = {503: 600, 429: 30}
_BIG_PAGE_BYTES = 40_000


@dataclass(slots=True, kw_only=True)
class Fault:
    """One planned failure; `remaining` None means until healed."""

    kind: FaultKind
    matches: Matcher
    remaining: int | None
    probability: float | None
    seconds: float
    retry_after: str | None
    status: int
    location: str
    after: bool

    def apply(self, request: Request, respond: Responder) -> Reply | None:
        """The spoilt reply; None means that the connection is to be reset."""
        kind = self.kind
        true_reply = respond(request) if self.after or kind in _ANSWERED_KINDS else Reply()
        if isinstance(kind, Reply):
            return kind
        if isinstance(kind, int):
            seconds = self.retry_after or _RETRY_AFTER_SECONDS.get(kind)
            headers = {"Retry-After": str(seconds)} if seconds is not None else {}
            return html_page(request, kind, headers=headers)
        match kind:
            case "reset":
                return None
            case "slow":
                return true_reply
            case "truncated":
                half = true_reply.body[: len(true_reply.body) // 2]
                return replace(true_reply, body=half) if true_reply.is_json else true_reply
            case "wrong_types":
                return _mistyped(true_reply)
            case "html200":
                return html_page(request, 200)
            case "redirect":
                return html_page(request, 302, headers={"Location": self.location})
            case "empty":
                return Reply(status=200, content_type=JSON_TYPE)
            case _:
                return html_page(request, self.status, size=_BIG_PAGE_BYTES)

    def delay_seconds(self) -> float:
        return self.seconds if self.kind == "slow" else 0.0


class FaultPlan:
    """Faults in the order they were planned; the first that applies to a request wins."""

    def __init__(self, seed: int) -> None:
        self._lock = threading.Lock()
        self._random = random.Random(seed)
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Raises ValueError for a kind or probability that cannot happen."""
        kind = fault.kind
        if isinstance(kind, str) and kind not in NAMED_KINDS:
            raise ValueError(f"unknown fault kind {kind!r}; known: {', '.join(NAMED_KINDS)}")
        if isinstance(kind, int) and not 400 <= kind <= 599:
            raise ValueError(f"not an error status: {kind}")
        if fault.probability is not None and not 0.0 <= fault.probability <= 1.0:
            raise ValueError(f"not a probability: {fault.probability}")
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def choose(self, request: Request) -> Fault | None:
        """The fault for this request, counted as used."""
        with self._lock:
            return next((fault for fault in self._faults if self._strikes(fault, request)), None)

    def _strikes(self, fault: Fault, request: Request) -> bool:
        if fault.remaining == 0 or not fault.matches(request):
            return False
        if fault.probability is not None and self._random.random() >= fault.probability:
            return False
        if fault.remaining is not None:
            fault.remaining -= 1
        return True


def _mistyped(reply: Reply) -> Reply:
    if not reply.is_json:
        return reply
    return replace(reply, body=json.dumps(_other_type(json.loads(reply.body))).encode("ascii"))


def _other_type(value: Any) -> Any:
    """The same value in another type. Objects stay: the damage is to reach the leaves."""
    if isinstance(value, dict):
        return {key: _other_type(inner) for key, inner in value.items()}
    if isinstance(value, list):
        # What PHP makes of a list with a gap in its keys.
        return {str(index): _other_type(inner) for index, inner in enumerate(value)}
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, str):
        return [value]
    return 0 if value is None else str(value)
