"""The commands with which a person looks at the queue; they change nothing."""

import time
from datetime import datetime, timedelta
from math import inf
from typing import Any

import click

from embyproc import policy
from embyproc.cli.context import ITEM_ID, App
from embyproc.errors import UnknownItem
from embyproc.models import Item, Status, json_value
from embyproc.report import age, printable, sparkline

_SILENCE_SECONDS = 600
_WATCH_SECONDS = 2

STAGES = ("scan", "process", "emby", "retry")


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("--watch", is_flag=True, help="Refresh every two seconds until Ctrl-C.")
@click.option(
    "--max-age",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Exit 1 unless a stage ended well within this time (for health checks).",
)
@click.pass_obj
def status_command(app: App, as_json: bool, watch: bool, max_age: float | None) -> None:
    """How many items are where, what waits longest, when each stage last ran.

    \b
    embyproc status
    embyproc status --json
    """
    while watch and app.report.terminal and not as_json:
        facts = status_facts(app)
        click.clear()
        show_status(app, facts)
        time.sleep(_WATCH_SECONDS)
    facts = status_facts(app)
    if as_json:
        app.print_json(facts)
    else:
        show_status(app, facts)
    if max_age is not None:
        ended = app.store.runs.last_good_end()
        if ended is None or (app.store.clock.now() - ended).total_seconds() > max_age:
            raise click.exceptions.Exit(1)


def status_facts(app: App) -> dict[str, Any]:
    looks, now = app.store.looks, app.store.clock.now()
    counts = looks.counts()
    given_up = looks.given_up(app.config.max_retries)
    return {
        "counts": {str(status): n for status, n in counts.items()},
        "total": sum(counts.values()),
        "completed_per_hour": looks.completed_per_hour(),
        "given_up": len(given_up),
        "given_up_items": [_short(item) for item in given_up[:10]],
        "oldest_waiting": [
            {
                "status": waiting.status,
                "id": waiting.id,
                "file_path": waiting.file_path,
                "since": json_value(waiting.since),
                "seconds": round((now - waiting.since).total_seconds(), 1),
            }
            for waiting in looks.oldest_waiting()
        ],
        "services": [
            {
                "name": state.name,
                "down_since": json_value(state.down_since),
                "open_until": json_value(state.open_until),
                "failures": state.failures,
                "last_error": state.last_error,
            }
            for state in looks.services_down()
        ],
        "runs": [
            {**record.as_json(), "seconds_ago": round((now - record.started_at).total_seconds(), 1)}
            for record in app.store.runs.last_of([*STAGES, "run"])
        ],
    }


def show_status(app: App, facts: dict[str, Any]) -> None:
    report, now = app.report, app.store.clock.now()
    rows = [*facts["counts"].items(), ("total", facts["total"])]
    report.table(("status", "items"), rows, right=("items",))
    if done := sum(facts["completed_per_hour"]):
        report.line(f"last 24 hours: {sparkline(facts['completed_per_hour'])} {done} completed")
    for waiting in facts["oldest_waiting"]:
        since = age(datetime.fromisoformat(waiting["since"]), now)
        name = printable(waiting["file_path"])
        report.line(f"oldest {waiting['status']}: {since}, {waiting['id']} {name}")
    for record in facts["runs"]:
        started = age(datetime.fromisoformat(record["started_at"]), now)
        report.line(f"last {record['command']}: {started} ago, {_outcome(record)}")
    for stage in silent_stages(facts["runs"]):
        report.line(f"warning: {stage} has not run for a while; is cron running?")
    if not facts["runs"]:
        report.line("no stage has run yet; crontab.example shows how cron starts them")
    for service in facts["services"]:
        since = age(datetime.fromisoformat(service["down_since"]), now)
        until = datetime.fromisoformat(service["open_until"] or json_value(now))
        then = f"asked again at {until:%H:%M:%S} UTC" if until > now else "asked by the next run"
        error = printable(service["last_error"])
        report.line(f"down: {service['name']} for {since}: {error}; {then}")
    for item in facts["given_up_items"]:
        report.line(
            f"given up: {item['id']} {printable(item['file_path'])}: "
            f"{printable(item['error_message'])} (embyproc retry {item['id']})"
        )
    if (hidden := facts["given_up"] - len(facts["given_up_items"])) > 0:
        report.line(f"given up: {hidden} more (embyproc list --given-up)")


def silent_stages(runs: list[dict[str, Any]]) -> list[str]:
    """Stages that ran once, by themselves or in `run`, but not lately."""
    ages = {record["command"]: record["seconds_ago"] for record in runs}
    last = {s: min(ages.get(s, inf), ages.get("run", inf)) for s in STAGES}
    return [stage for stage, seconds in last.items() if _SILENCE_SECONDS < seconds < inf]


def _outcome(record: dict[str, Any]) -> str:
    if record["finished_at"] is None:
        return f"still running as process {record['pid']} on {printable(record['host'])}, or killed"
    return "ended well" if record["exit_code"] == 0 else f"exit code {record['exit_code']}"


def _short(item: Item) -> dict[str, Any]:
    return {"id": item.id, "file_path": item.file_path, "error_message": item.error_message}


def _age(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:
    """A length of time as people write it: 30m, 12h, 7d."""
    if value is None:
        return None
    units = {"m": "minutes", "h": "hours", "d": "days"}
    number, unit = value[:-1], value[-1:]
    if not (number.isascii() and number.isdigit() and len(number) < 6 and unit in units):
        raise click.BadParameter(f"{value!r} is not an age such as 30m, 12h or 7d", ctx, param)
    return timedelta(**{units[unit]: int(number)})


@click.command("list")
@click.option(
    "--status",
    type=click.Choice([str(status) for status in Status]),
    help="Only items with this status.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=2**31 - 1),
    default=50,
    show_default=True,
    help="At most this many.",
)
@click.option("--code", metavar="TEXT", help="Only items whose code contains this.")
@click.option("--performer", metavar="TEXT", help="Only items whose performer contains this.")
@click.option("--since", callback=_age, metavar="AGE", help="Changed within: 30m, 12h, 7d.")
@click.option("--given-up", is_flag=True, help="Only items that wait for a person.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list of rows on stdout.")
@click.pass_obj
def list_command(
    app: App,
    status: str | None,
    limit: int,
    code: str | None,
    performer: str | None,
    since: timedelta | None,
    given_up: bool,
    as_json: bool,
) -> None:
    """Items, newest first.

    \b
    embyproc list --status error
    embyproc list --given-up
    """
    items = app.store.looks.find(
        status=Status(status) if status else None,
        code=code,
        performer=performer,
        since=since,
        given_up_after=app.config.max_retries if given_up else None,
        limit=limit,
    )
    if as_json:
        app.print_json([item.as_json() for item in items])
        return
    if not items:
        app.report.line("nothing there")
        return
    now = app.store.clock.now()
    app.report.table(
        ("id", "status", "code", "retries", "updated", "file", "error"),
        [
            (
                item.id,
                item.status,
                item.movie_code,
                f"{item.retry_count}/{app.config.max_retries}",
                f"{age(item.updated_at, now)} ago",
                item.file_path,
                item.error_message,
            )
            for item in items
        ],
        right=("id", "retries"),
    )


@click.command("show")
@click.argument("item_id", metavar="ID", type=ITEM_ID)
@click.option("--json", "as_json", is_flag=True, help="The row and its events as JSON on stdout.")
@click.pass_obj
def show_command(app: App, item_id: int, as_json: bool) -> None:
    """One item: every field, its timeline, and what happens next.

    \b
    embyproc show 12
    """
    item = app.store.looks.get(item_id)
    if item is None:
        raise UnknownItem(f"there is no item {item_id}; `embyproc list` shows what is there")
    events = app.store.looks.events(item_id)
    if as_json:
        app.print_json({**item.as_json(), "events": [event.as_json() for event in events]})
        return
    now = app.store.clock.now()
    known = [(name, value) for name, value in item.as_json().items() if value is not None]
    app.report.table(("field", "value"), known)
    timeline: list[tuple[Any, ...]] = [(item.created_at, None, Status.PENDING, None, "queued")]
    timeline += [(e.at, e.source, e.target, e.run, e.message) for e in events]
    app.report.table(
        ("at (UTC)", "from", "to", "run", "message"),
        [(f"{at:%Y-%m-%d %H:%M:%S}", *rest) for at, *rest in timeline],
        right=("run",),
    )
    coming = policy.what_happens_next(item, max_retries=app.config.max_retries, now=now)
    app.report.line(f"next: {coming}")
