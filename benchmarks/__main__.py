"""`make bench`: print one table and write benchmarks/results.json.

With words, only the parts of those names: `python -m benchmarks idle scanning`.
"""

import sys
from pathlib import Path

from benchmarks import idle, moving, pipeline, queueing, scanning
from benchmarks.measure import Figure, show


def main(wanted: list[str]) -> int:
    notes: list[str] = []
    parts = {
        "idle": idle.figures(),
        "scanning": scanning.figures(),
        "queueing": queueing.figures(notes),
        "moving": moving.figures(notes),
        "pipeline": pipeline.figures(),
    }
    figures: list[Figure] = []
    for name, part in parts.items():
        if wanted and name not in wanted:
            continue
        for figure in part:
            print(f"  {figure.what}: {figure.ratio:.2f}", file=sys.stderr, flush=True)
            figures.append(figure)
    return 0 if show(figures, notes, Path(__file__).with_name("results.json")) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
