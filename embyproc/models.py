"""What the program talks about: statuses and their legal moves, queue items, runs, summaries.

Named tuples where others have frozen dataclasses: making one of those takes half a millisecond, at
each of 1,440 starts a day.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, Self


class Status(StrEnum):
    """Where an item stands, in pipeline order."""

    PENDING = "pending"
    PROCESSING = "processing"
    MOVED = "moved"
    EMBY_PENDING = "emby_pending"
    COMPLETED = "completed"
    ERROR = "error"


# PostgreSQL has the same table (migrations/003_legal_moves.sql); a test compares the two.
LEGAL_MOVES: Mapping[Status, frozenset[Status]] = {
    Status.PENDING: frozenset({Status.PROCESSING, Status.ERROR}),
    Status.PROCESSING: frozenset({Status.MOVED, Status.ERROR, Status.PENDING}),
    Status.MOVED: frozenset({Status.EMBY_PENDING}),
    Status.EMBY_PENDING: frozenset({Status.COMPLETED, Status.ERROR, Status.MOVED}),
    Status.COMPLETED: frozenset({Status.PENDING}),
    Status.ERROR: frozenset({Status.PENDING}),
}


def is_legal_move(source: Status, target: Status) -> bool:
    return target in LEGAL_MOVES[source]


class Stage(NamedTuple):
    """A stage that claims rows: what it takes, what it holds them as, what it makes of them."""

    name: str
    takes: Status
    holds: Status
    makes: Status


PROCESS = Stage(name="process", takes=Status.PENDING, holds=Status.PROCESSING, makes=Status.MOVED)
EMBY = Stage(name="emby", takes=Status.MOVED, holds=Status.EMBY_PENDING, makes=Status.COMPLETED)


class Item(NamedTuple):
    """One row of the queue; the fields are the columns of `processing_queue`."""

    id: int
    file_path: str
    movie_code: str | None
    actress: str | None
    subtitle: str | None
    status: Status
    error_message: str | None
    new_path: str | None
    emby_item_id: str | None
    metadata_json: Any
    retry_count: int
    next_retry_at: datetime | None
    created_at: datetime
    updated_at: datetime
    claimed_by: int | None
    claimed_at: datetime | None
    deaths: int
    note: str | None
    device: int | None
    inode: int | None
    size: int | None
    mtime_ns: int | None
    ctime_ns: int | None
    sidecars: list[str] | None
    planned_path: str | None
    part: int | None
    warnings: list[str] | None

    @classmethod
    def of(cls, values: Sequence[Any]) -> Self:
        """By the values of the columns, in the order of the fields."""
        before, status, after = values[:_STATUS], values[_STATUS], values[_STATUS + 1 :]
        return cls._make((*before, Status(status), *after))

    def as_json(self) -> dict[str, Any]:
        return {name: json_value(getattr(self, name)) for name in _ITEM_FIELDS}


_ITEM_FIELDS = Item._fields
_STATUS = _ITEM_FIELDS.index("status")


class Event(NamedTuple):
    """One change of status of one item."""

    item: int
    at: datetime
    source: str
    target: str
    run: int | None
    message: str | None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        return cls(
            item=row["item"],
            at=row["at"],
            source=row["from"],
            target=row["to"],
            run=row["run"],
            message=row["message"],
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "item": self.item,
            "at": json_value(self.at),
            "from": self.source,
            "to": self.target,
            "run": self.run,
            "message": self.message,
        }


class RunRecord(NamedTuple):
    """What the database remembers of one run."""

    id: int
    command: str
    host: str
    pid: int
    started_at: datetime
    heartbeat_at: datetime
    finished_at: datetime | None
    exit_code: int | None
    counts: Mapping[str, Any]

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        return cls(**{name: row[name] for name in _RUN_FIELDS})

    def as_json(self) -> dict[str, Any]:
        return {name: json_value(getattr(self, name)) for name in _RUN_FIELDS}


_RUN_FIELDS = RunRecord._fields


class Finished(NamedTuple):
    """What a stage found out about an item it has finished; None leaves the column as it is."""

    id: int
    movie_code: str | None = None
    actress: str | None = None
    subtitle: str | None = None
    new_path: str | None = None
    emby_item_id: str | None = None
    metadata_json: Any = None
    note: str | None = None
    # Replaces what was there: [] says that all is well.
    warnings: Sequence[str] | None = None


class Failed(NamedTuple):
    """An item a stage could not finish; `next_retry_at` None means: waits for a person."""

    id: int
    error_message: str
    next_retry_at: datetime | None
    retry_count: int


class Metadata(NamedTuple):
    """What a source knows of one work, in one shape whatever the source."""

    source: str
    code: str
    title: str | None
    original_title: str | None
    overview: str | None
    release_date: str | None
    performers: tuple[str, ...]
    genres: tuple[str, ...]
    labels: tuple[str, ...]
    image_url: str | None
    # The answer as it came, for `metadata_json`.
    raw: Mapping[str, Any]


class Planned(NamedTuple):
    """What is recorded of an item before its file is touched."""

    id: int
    planned_path: str
    movie_code: str
    actress: str
    subtitle: str
    part: int | None
    metadata_json: Any


class ServiceState(NamedTuple):
    """What is remembered of a service that misbehaves."""

    name: str
    failures: int
    open_until: datetime | None
    down_since: datetime | None
    last_error: str
    alerted_at: datetime | None


class Figure(NamedTuple):
    """One figure for Prometheus."""

    name: str
    help: str
    value: float
    kind: str = "gauge"
    labels: Mapping[str, str] = MappingProxyType({})


# A film as one scan saw it: path, device, inode, size, time of content and of change in ns, whether
# it has other links, whether a file beside it says that it is still being made, and its sidecars.
# Device, inode, size and times together tell one state of one file from another. A bare tuple,
# because a scan makes a hundred thousand of them.
Sighting = tuple[str, int, int, int, int, int, bool, bool, Sequence[str]]


@dataclass(slots=True, kw_only=True)
class RunSummary:
    """What one run did; the JSON of every stage command."""

    command: str
    run_id: int | None = None
    claimed: int = 0
    succeeded: int = 0
    failed: int = 0
    given_up: int = 0
    skipped: int = 0
    seconds: float = 0.0
    items: list[dict[str, Any]] = field(default_factory=list)
    # Sentences about what did not stop the run but a person may want to mend.
    problems: list[str] = field(default_factory=list)
    # Services whose outage has lasted long enough to wake somebody.
    outages: list[str] = field(default_factory=list)
    # What `run` ends with where one of its stages could not work at all.
    broken_exit_code: int = 0
    exit_code: int = 0

    def counts(self) -> dict[str, int]:
        """What is worth remembering in the row of the run."""
        return {
            "claimed": self.claimed,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "given_up": self.given_up,
            "skipped": self.skipped,
        }

    def as_json(self) -> dict[str, Any]:
        return {
            "command": self.command,
            "run_id": self.run_id,
            **self.counts(),
            "seconds": round(self.seconds, 3),
            "items": self.items,
        }


def json_value(value: Any) -> Any:
    """`value` as JSON has it: times become ISO 8601 text."""
    return value.isoformat() if isinstance(value, datetime) else value
