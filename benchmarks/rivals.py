"""The workers of two task queues for PostgreSQL, on jobs that do nothing.

Each with its own client library, on a database of its own, told to take as many at a time as we do.
"""

import asyncio
import importlib.util
import logging
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.measure import seconds

Speed = Callable[[Mapping[str, str], int, int], float]
NAMES = {"procrastinate", "pgqueuer"}


def installed() -> dict[str, Speed]:
    known: dict[str, Speed] = {"procrastinate": procrastinate, "pgqueuer": pgqueuer}
    return {name: speed for name, speed in known.items() if importlib.util.find_spec(name)}


def procrastinate(parameters: Mapping[str, str], jobs: int, batch: int) -> float:
    import procrastinate

    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(kwargs=dict(parameters)))

    async def do_nothing() -> None:
        return None

    nothing = app.task(name="nothing")(do_nothing)

    async def work() -> tuple[float, int]:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            await nothing.batch_defer_async(*({} for _ in range(jobs)))
            loop = asyncio.get_running_loop()
            started = loop.time()
            await app.run_worker_async(
                wait=False, concurrency=batch, install_signal_handlers=False, listen_notify=False
            )
            taken = loop.time() - started
            done = await app.connector.execute_query_one_async(
                "SELECT count(*) AS n FROM procrastinate_jobs WHERE status = 'succeeded'"
            )
            return taken, done["n"]

    taken, done = asyncio.run(work())
    assert done == jobs
    return jobs / taken


def pgqueuer(parameters: Mapping[str, str], jobs: int, batch: int) -> float:
    import asyncpg
    from pgqueuer import PgQueuer, Queries
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.types import QueueExecutionMode

    logging.getLogger("pgqueuer").setLevel(logging.ERROR)
    done = 0

    async def connect() -> Any:
        return await asyncpg.connect(
            host=parameters["host"],
            port=int(parameters["port"]),
            user=parameters["user"],
            database=parameters["dbname"],
        )

    async def prepare() -> None:
        queries = Queries(AsyncpgDriver(await connect()))
        await queries.install()
        await queries.enqueue(["nothing"] * jobs, [None] * jobs, [0] * jobs)

    async def work() -> None:
        worker = PgQueuer(AsyncpgDriver(await connect()))

        async def nothing(job: object) -> None:
            nonlocal done
            done += 1

        worker.entrypoint("nothing")(nothing)
        await worker.run(mode=QueueExecutionMode.drain, batch_size=batch)

    asyncio.run(prepare())
    taken = seconds(lambda: asyncio.run(work()))
    assert done == jobs
    return jobs / taken
