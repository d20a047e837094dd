"""`make bench`: print one table and write benchmarks/results.json."""

import sys
from pathlib import Path

from benchmarks import bench
from benchmarks.measure import Figure, show


def main() -> int:
    notes: list[str] = []
    figures: list[Figure] = []
    for part in (
        bench.idle(),
        bench.scanning(),
        bench.claiming(),
        bench.claiming_beside_history(),
        bench.moving(notes),
        bench.pipeline(),
    ):
        for figure in part:
            print(f"  {figure.what}: {figure.ratio:.2f}", file=sys.stderr)
            figures.append(figure)
    return 0 if show(figures, notes, Path(__file__).with_name("results.json")) else 1


if __name__ == "__main__":
    sys.exit(main())
