"""The commands with which a person changes the queue."""

import click

from embyproc.cli.context import ITEM_ID, App
from embyproc.errors import UnknownItem


@click.command("reset")
@click.argument("item_id", metavar="ID", type=ITEM_ID)
@click.option("--json", "as_json", is_flag=True, help="The row as JSON on stdout.")
@click.pass_obj
def reset_command(app: App, item_id: int, as_json: bool) -> None:
    """Start an item over: back to `pending` with counters 0, whatever its status.

    \b
    embyproc reset 12
    """
    if not app.store.upkeep.reset(item_id):
        raise UnknownItem(f"there is no item {item_id}; `embyproc list` shows what is there")
    if as_json:
        item = app.store.looks.get(item_id)
        assert item is not None
        app.print_json(item.as_json())
    else:
        app.report.line(f"{item_id} is pending; the next `process` takes it")


@click.command("forget")
@click.argument("ids", metavar="ID...", type=ITEM_ID, nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.pass_obj
def forget_command(app: App, ids: tuple[int, ...], as_json: bool) -> None:
    """Take items out of the queue, with their timelines; files are never touched.

    For what is given up and not wanted any more. A file that is still in WATCH_DIR is queued again
    by the next scan.

    \b
    embyproc forget 12 15
    """
    forgotten = [item_id for item_id in dict.fromkeys(ids) if app.store.upkeep.delete(item_id)]
    left = [item_id for item_id in dict.fromkeys(ids) if item_id not in forgotten]
    if as_json:
        app.print_json({"command": "forget", "forgotten": forgotten, "left": left})
    else:
        app.report.line(f"forget: {len(forgotten)} taken out of the queue")
    if left:
        listed = ", ".join(map(str, left))
        raise UnknownItem(f"not in the queue, or a run works on it: {listed}")


@click.command("cleanup")
@click.option(
    "--days",
    type=click.IntRange(min=0, max=36500),
    default=7,
    show_default=True,
    help="Keep rows that were completed within this many days.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.pass_obj
def cleanup_command(app: App, days: int, as_json: bool) -> None:
    """Delete old `completed` rows and their timelines; files are never touched.

    \b
    embyproc cleanup --days 30
    """
    removed = app.store.upkeep.cleanup(days)
    if as_json:
        app.print_json({"command": "cleanup", "days": days, "deleted": removed})
    else:
        app.report.line(f"cleanup: {removed} completed rows older than {days} days deleted")


@click.command("migrate")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.pass_obj
def migrate_command(app: App, as_json: bool) -> None:
    """Bring the schema up to date; adopts the database of an earlier emby-processor.

    \b
    embyproc migrate
    """
    from embyproc.migrate import migrate, schema_state

    database = app.open_database()
    try:
        applied = migrate(database)
        version = schema_state(database).current
    finally:
        database.close()
    if as_json:
        names = [f"{m.version:03}_{m.name}" for m in applied]
        app.print_json({"command": "migrate", "version": version, "applied": names})
        return
    for migration in applied:
        app.report.line(f"applied {migration.version:03} {migration.name.replace('_', ' ')}")
    app.report.line(f"the schema is at version {version}")
