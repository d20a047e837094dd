"""Repeats, medians and the table; a figure and its floor are always measured interleaved."""

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

REPEATS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table: how the program does beside its floor."""

    what: str
    figure: float
    floor: float
    unit: str
    target: float
    # Whether a higher ratio is better (a speed) or a lower one (a cost).
    higher_is_better: bool = False

    @property
    def ratio(self) -> float:
        return self.figure / self.floor

    @property
    def is_met(self) -> bool:
        return self.ratio >= self.target if self.higher_is_better else self.ratio <= self.target


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def interleaved(*calls: Callable[[], object], repeats: int = REPEATS) -> tuple[float, ...]:
    """The median time of each call, taken in turns so that a slow minute hits them all."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for taken, call in zip(times, calls, strict=True):
            taken.append(seconds(call))
    return tuple(statistics.median(taken) for taken in times)


def show(figures: list[Figure], notes: list[str], results: Path) -> bool:
    """Print the table, write the JSON, and say whether every target is met."""
    print(f"{'what':58} {'figure':>10} {'floor':>10} {'ratio':>6} {'target':>7}")
    for figure in figures:
        sign = ">=" if figure.higher_is_better else "<="
        print(
            f"{figure.what:58} {figure.figure:8.3f} {figure.unit:1} {figure.floor:8.3f} "
            f"{figure.unit:1} {figure.ratio:6.2f} {sign}{figure.target:5.2f} "
            f"{'met' if figure.is_met else 'NOT MET'}"
        )
    for note in notes:
        print(note)
    rows = [{**asdict(f), "ratio": round(f.ratio, 3), "met": f.is_met} for f in figures]
    results.write_text(json.dumps({"figures": rows, "notes": notes}, indent=2) + "\n")
    return all(figure.is_met for figure in figures)
