import threading
from collections.abc import Iterator

import pytest

from embyproc.errors import Stopped
from embyproc.stages.workers import one_ahead


def nothing() -> None:
    return None


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_results_come_in_order(count: int) -> None:
    assert list(one_ahead(lambda n: n * n, range(count), nothing)) == [n * n for n in range(count)]


def test_the_next_one_is_made_while_this_one_is_used() -> None:
    made = threading.Semaphore(0)

    def work(number: int) -> int:
        made.release()
        return number

    for number in one_ahead(work, range(5), nothing):
        if number == 0:
            assert made.acquire(timeout=10)
        if number < 4:  # the last one has no next
            assert made.acquire(timeout=10)


def test_no_more_than_one_ahead_is_asked_for() -> None:
    taken = 0

    def things() -> Iterator[int]:
        nonlocal taken
        for number in range(10):
            taken += 1
            yield number

    results = one_ahead(lambda n: n, things(), nothing)
    assert (next(results), taken) == (0, 2)
    assert (next(results), taken) == (1, 3)


def test_a_failure_is_raised_where_its_result_is_wanted() -> None:
    def work(number: int) -> int:
        if number == 1:
            raise ValueError("one")
        return number

    results = one_ahead(work, range(3), nothing)
    assert next(results) == 0
    with pytest.raises(ValueError, match="one"):
        next(results)


def test_waiting_can_be_ended() -> None:
    never = threading.Event()

    def stop() -> None:
        raise Stopped("enough")

    with pytest.raises(Stopped):
        list(one_ahead(lambda _: never.wait(60), [1], stop))
