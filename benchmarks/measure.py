"""Repeats, medians and the table; a figure and its floor are always measured interleaved."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

REPEATS = 5
# Ten times the work may take so much more than ten times as long.
LINEAR = 1.1


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one process took."""

    wall: float
    cpu: float


def growth(what: str, small: float, large: float) -> Figure:
    """Ten times the work beside ten times the time."""
    return Figure(what=what, figure=large, floor=10 * small, unit="s", target=LINEAR)


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def process(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> Cost:
    """Run a program to its end; raises if it fails."""
    started = time.perf_counter()
    child = subprocess.Popen(words, env=environment, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    wall = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise subprocess.CalledProcessError(child.returncode, words)
    return Cost(wall=wall, cpu=used.ru_utime + used.ru_stime)


def peak_mb(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> float:
    """The most memory a program takes. Started by a small process: a child begins with the
    memory of its parent, and this one holds a hundred thousand paths."""
    starter = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=-3); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", starter, *words],
        env=environment,
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout) / 1024


def interleaved(*calls: Callable[[], float], repeats: int = REPEATS) -> Iterator[float]:
    """The median of what each call measures, taken in turns so that a slow minute hits them all."""
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for results, call in zip(found, calls, strict=True):
            results.append(call())
    return (statistics.median(results) for results in found)


def show(figures: list[Figure], notes: list[str], results: Path) -> bool:
    """Print the table, write the JSON, and say whether every target is met."""
    print(f"{'what':84} {'figure':>11} {'floor':>11} {'ratio':>6} {'target':>7}")
    for figure in figures:
        sign = ">=" if figure.higher_is_better else "<="
        print(
            f"{figure.what:84} {figure.figure:9,.3f} {figure.unit:1} {figure.floor:9,.3f} "
            f"{figure.unit:1} {figure.ratio:6.2f} {sign}{figure.target:5.2f} "
            f"{'met' if figure.is_met else 'NOT MET'}"
        )
    for note in notes:
        print(note)
    rows = [{**asdict(f), "ratio": round(f.ratio, 3), "met": f.is_met} for f in figures]
    results.write_text(json.dumps({"figures": rows, "notes": notes}, indent=2) + "\n")
    return all(figure.is_met for figure in figures)
