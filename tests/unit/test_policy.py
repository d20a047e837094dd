from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from embyproc.models import LEGAL_MOVES, Item, RunSummary, Status, is_legal_move
from embyproc.policy import exit_code, is_given_up, next_retry, patient_retry, what_happens_next

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def item(**fields: Any) -> Item:
    row: dict[str, Any] = dict.fromkeys(Item._fields)
    row |= {"id": 7, "file_path": "/w/a.mp4", "status": "pending", "retry_count": 0, "deaths": 0}
    row |= {"created_at": NOW, "updated_at": NOW} | fields
    return Item.of(tuple(row.values()))


@pytest.mark.parametrize(
    ("retry_count", "minutes"), [(1, 1), (2, 5), (3, 15), (4, None), (5, None)]
)
def test_backoff(retry_count: int, minutes: int | None) -> None:
    expected = None if minutes is None else NOW + timedelta(minutes=minutes)
    found = next_retry(
        retry_count, NOW, message="File error", max_retries=3, backoff_minutes=(1, 5, 15)
    )
    assert found == expected


def test_last_delay_is_reused_beyond_the_schedule() -> None:
    found = next_retry(9, NOW, message="x", max_retries=10, backoff_minutes=(1, 5))
    assert found == NOW + timedelta(minutes=5)


def test_a_name_without_code_is_not_retried() -> None:
    message = "No movie code in 'holiday.mp4'"
    assert next_retry(1, NOW, message=message, max_retries=3, backoff_minutes=(1,)) is None


def test_given_up() -> None:
    due = NOW + timedelta(minutes=1)
    error = {"status": "error", "next_retry_at": due, "retry_count": 3}
    assert not is_given_up(item(**error), max_retries=3)
    assert is_given_up(item(**error | {"retry_count": 4}), max_retries=3)
    assert is_given_up(item(**error | {"next_retry_at": None}), max_retries=3)
    assert is_given_up(item(**error | {"error_message": "No movie code found"}), max_retries=3)
    assert not is_given_up(item(status="completed"), max_retries=3)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"status": "pending"}, "the next `process` takes it"),
        ({"status": "moved"}, "the next `emby` takes it"),
        ({"status": "processing", "claimed_by": 3}, "run 3 (process) works on it"),
        ({"status": "emby_pending", "claimed_by": 4}, "run 4 (emby) works on it"),
        ({"status": "completed"}, "nothing, it is done"),
        ({"status": "error"}, "embyproc retry 7"),
        ({"status": "error", "next_retry_at": NOW}, "the next `retry` queues it again"),
        (
            {"status": "error", "next_retry_at": NOW + timedelta(hours=1)},
            "after 2026-01-01 01:00:00 UTC",
        ),
    ],
)
def test_what_happens_next(fields: dict[str, Any], said: str) -> None:
    assert said in what_happens_next(item(**fields), max_retries=3, now=NOW)


def test_exit_code_is_one_for_a_dead_letter_only() -> None:
    assert exit_code(RunSummary(command="process", failed=5)) == 0
    assert exit_code(RunSummary(command="process", given_up=1)) == 1


def test_every_status_has_its_moves() -> None:
    assert set(LEGAL_MOVES) == set(Status)
    assert is_legal_move(Status.PENDING, Status.PROCESSING)
    assert not is_legal_move(Status.PENDING, Status.MOVED)


def test_summary_json_has_the_contract_keys() -> None:
    assert list(RunSummary(command="scan").as_json()) == [
        "command",
        "run_id",
        "claimed",
        "succeeded",
        "failed",
        "given_up",
        "skipped",
        "seconds",
        "items",
    ]


@pytest.mark.parametrize(
    ("waiting_minutes", "pause_minutes"), [(-5, 1), (0, 1), (10, 1), (60, 6), (150, 15), (9999, 15)]
)
def test_what_may_heal_is_tried_again_ever_more_rarely(
    waiting_minutes: float, pause_minutes: float
) -> None:
    due = patient_retry(timedelta(minutes=waiting_minutes), NOW, backoff_minutes=[1, 5, 15])
    assert due == NOW + timedelta(minutes=pause_minutes)
