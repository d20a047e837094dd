"""Pure decisions: when to try again, when to give up, what the program exits with."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from embyproc.models import Item, RunSummary, ServiceState, Status

# The file name will not change by itself, so trying again cannot help.
NO_MOVIE_CODE = "No movie code"

# A row that took down this many runs waits for a person.
MAX_DEATHS = 3


def next_retry(
    retry_count: int,
    now: datetime,
    *,
    message: str,
    max_retries: int,
    backoff_minutes: Sequence[float],
) -> datetime | None:
    """When to try again after failure number `retry_count`, or None to wait for a person.

    The last delay is reused when there are more retries than delays.
    """
    if message.startswith(NO_MOVIE_CODE) or retry_count > max_retries:
        return None
    delay = backoff_minutes[min(retry_count, len(backoff_minutes)) - 1]
    return now + timedelta(minutes=delay)


_LONGEST_PATIENCE = timedelta(minutes=15)


def patient_retry(
    waiting: timedelta, now: datetime, *, backoff_minutes: Sequence[float]
) -> datetime:
    """When to try again what may heal by itself and has been `waiting`: as often as it takes, a
    tenth of that time apart, so that what never heals costs next to nothing."""
    delay = max(waiting / 10, timedelta(minutes=backoff_minutes[0]))
    return now + min(delay, _LONGEST_PATIENCE)


# So many failures in a row, each perhaps its item's own fault, make a service suspect.
_SUSPICIOUS_FAILURES = 3
_LONGEST_PAUSE_MINUTES = 15


def outage_until(
    failures: int, now: datetime, *, for_everyone: bool, retry_after: float | None
) -> datetime | None:
    """Until when to leave a service alone after failure number `failures`; None: not at all.

    1, 2, 4 ... 15 minutes, or what the service itself asked for.
    """
    if retry_after is not None:
        return now + timedelta(seconds=retry_after)
    beyond = failures if for_everyone else failures - _SUSPICIOUS_FAILURES + 1
    if beyond < 1:
        return None
    return now + timedelta(minutes=min(_LONGEST_PAUSE_MINUTES, 2 ** min(beyond - 1, 10)))


def left_alone(state: ServiceState) -> str:
    """Why nothing is asked of a service at this moment, and how to ask all the same."""
    until = f"{state.open_until:%H:%M:%S} UTC" if state.open_until else "the next run"
    return (
        f"{state.name} is left alone until {until} ({state.last_error}); `embyproc retry --all` "
        "has it asked now"
    )


def is_given_up(item: Item, *, max_retries: int) -> bool:
    """Whether nothing will happen to this item until a person does something."""
    if item.status is not Status.ERROR:
        return False
    return (
        item.next_retry_at is None
        or item.retry_count > max_retries
        or (item.error_message or "").startswith(NO_MOVIE_CODE)
    )


def what_happens_next(item: Item, *, max_retries: int, now: datetime) -> str:
    """The item's future in one sentence, for `show`."""
    match item.status:
        case Status.PENDING:
            return "the next `process` takes it"
        case Status.MOVED:
            return "the next `emby` takes it"
        case Status.PROCESSING | Status.EMBY_PENDING:
            stage = "process" if item.status is Status.PROCESSING else "emby"
            return f"run {item.claimed_by} ({stage}) works on it; if that run dies it is released"
        case Status.COMPLETED:
            return "nothing, it is done"
        case Status.ERROR:
            if is_given_up(item, max_retries=max_retries):
                return f"nothing until a person acts: embyproc retry {item.id}"
            assert item.next_retry_at is not None
            if item.next_retry_at <= now:
                return "the next `retry` queues it again"
            return f"`retry` queues it again after {item.next_retry_at:%Y-%m-%d %H:%M:%S} UTC"


def exit_code(summary: RunSummary) -> int:
    """That of a stage that could not work, 3 for an outage that has lasted, 1 for an item given up
    in this run: the last two once each."""
    if summary.broken_exit_code:
        return summary.broken_exit_code
    if summary.outages:
        return 3
    return 1 if summary.given_up else 0
