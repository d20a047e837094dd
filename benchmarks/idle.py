"""Nothing to do: what 1,440 starts a day cost."""

from collections.abc import Iterator
from functools import partial

from benchmarks.measure import REPEATS, Cost, Figure, growth, interleaved
from benchmarks.place import Place, place

ROWS = 10_000
COMMANDS = ("run", "scan", "process", "emby", "retry")
CONNECT = "import sys, psycopg2; psycopg2.connect(sys.argv[1]).cursor().execute('SELECT 1')"


def figures() -> Iterator[Figure]:
    with place() as b:
        b.add_completed(ROWS)
        costs: dict[str, list[Cost]] = {name: [] for name in ("floor", *COMMANDS)}

        def measured(name: str) -> float:
            cost = b.python(CONNECT, b.dsn) if name == "floor" else b.run(name)
            costs[name].append(cost)
            return cost.wall

        floor, *walls = interleaved(*(partial(measured, name) for name in costs), repeats=15)
        cpu = {name: sorted(c.cpu for c in found)[7] for name, found in costs.items()}
        for name, wall in zip(COMMANDS, walls, strict=True):
            target = 3.0 if name == "run" else 2.0
            yield _beside_connecting(f"idle {name}, wall", wall, floor, target)
            yield _beside_connecting(f"idle {name}, CPU", cpu[name], cpu["floor"], target)
        yield growth(f"idle run beside {10 * ROWS:,} rows, beside 10 x", walls[0], _with_more(b))


def _beside_connecting(what: str, figure: float, floor: float, target: float) -> Figure:
    what = f"{what}, beside connect and SELECT 1"
    return Figure(what=what, figure=figure, floor=floor, unit="s", target=target)


def _with_more(b: Place) -> float:
    b.empty()
    b.add_completed(10 * ROWS)
    (taken,) = interleaved(lambda: b.run("run").wall, repeats=REPEATS)
    return taken
