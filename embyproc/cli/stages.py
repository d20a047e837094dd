"""The commands that cron starts."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import click

from embyproc.cli.context import ITEM_ID, App
from embyproc.errors import ConfigError, EmbyprocError, UnknownItem
from embyproc.log import VERBOSE
from embyproc.models import RunSummary, Status
from embyproc.report import Progress, printable
from embyproc.stages.runner import Options, Run, dry_run, running

# Which settings a stage cannot do without.
NEEDED = {
    "scan": ("WATCH_DIR",),
    "process": ("WATCH_DIR", "DESTINATION_DIR", "API_BASE_URL", "API_TOKEN"),
    "emby": ("DESTINATION_DIR", "EMBY_BASE_URL", "EMBY_API_KEY"),
}


# An idle minute pays for no import of requests: first is anything waiting, then the stage.


def process_stage(run: Run) -> None:
    if run.store.looks.is_waiting(Status.PENDING):
        from embyproc.stages import process

        process.run(run)


def emby_stage(run: Run) -> None:
    if run.store.looks.is_waiting(Status.MOVED):
        from embyproc.stages import emby

        emby.run(run)


def stage_options(function: Callable[..., None], *, has_plan: bool = True) -> Callable[..., None]:
    """The options every stage has, handed on as one Options value."""

    @click.option(
        "--limit", type=click.IntRange(min=1, max=2**31 - 1), help="Take at most this many items."
    )
    @click.option("--once", is_flag=True, help="Exactly one item, each step narrated.")
    @click.option(
        "--max-runtime",
        type=click.FloatRange(min=0),
        default=50.0,
        show_default=True,
        metavar="SECONDS",
        help="After this nothing new is begun.",
    )
    @click.option(
        "--dry-run",
        is_flag=True,
        hidden=not has_plan,
        help="Print the plan; change nothing anywhere.",
    )
    @click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
    @click.pass_obj
    @functools.wraps(function)
    def wrapped(
        app: App,
        /,
        *,
        limit: int | None,
        once: bool,
        max_runtime: float,
        dry_run: bool,
        as_json: bool,
        **rest: Any,
    ) -> None:
        options = Options(limit=limit, once=once, max_runtime=max_runtime, dry_run=dry_run)
        function(app, options, as_json, **rest)

    return wrapped


def run_stage(app: App, command: str, options: Options, stage: Callable[[Run], None]) -> RunSummary:
    _ping(app, "start")
    exit_code = 3
    try:
        with running(app.store, app.config, command, options) as run:
            run.log = app.log
            stage(run)
        exit_code = run.summary.exit_code
    except EmbyprocError as error:
        exit_code = error.exit_code
        raise
    finally:
        _ping(app, str(exit_code))
    told = {"command": command, "run": run.id, **run.summary.counts()}
    app.log.event("run", told, level=VERBOSE)
    return run.summary


def _ping(app: App, what: str) -> None:
    if app.config.ping_url is not None:
        from embyproc.clients.ping import ping

        if reason := ping(app.config.ping_url, what):
            app.log.event("ping", {"failed": reason}, level=VERBOSE)


def end_with(app: App, summary: RunSummary, as_json: bool) -> NoReturn:
    """Tell what was done and end with the exit code that it deserves."""
    show_summary(app, summary, as_json)
    raise click.exceptions.Exit(summary.exit_code)


def show_summary(app: App, summary: RunSummary, as_json: bool) -> None:
    if as_json:
        app.print_json(summary.as_json())
        return
    for outage in summary.outages:
        app.report.line(f"outage: {printable(outage)}")
    for problem in summary.problems:
        app.report.line(f"note: {printable(problem)}")
    for item in summary.items:
        if item.get("given_up"):
            app.report.line(
                f"given up: {item['id']} {printable(item['file_path'])}: "
                f"{printable(item['error_message'])} (embyproc retry {item['id']})"
            )
    counted = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in summary.counts().items())
    app.report.line(f"{summary.command}: {counted} in {summary.seconds:.1f} s")


@click.command("scan")
@click.option(
    "--settle",
    type=click.FloatRange(min=0, max=3600),
    metavar="SECONDS",
    help="Look twice, this far apart: for ad-hoc use without cron.",
)
@stage_options
def scan_command(app: App, options: Options, as_json: bool, settle: float | None) -> None:
    """Queue every finished download in WATCH_DIR.

    \b
    embyproc scan                 as cron does it
    embyproc scan --settle 5      once by hand
    embyproc scan --dry-run       what would happen to each file, and why
    """
    from embyproc.stages import scan

    app.config.require(*NEEDED["scan"])
    with app.report.progress("files seen", quiet=as_json) as progress:
        if options.dry_run:
            summary, judged = scan.plan(app.store, app.config, options, progress)
            progress.end()
            show_plan(app, summary, ((j.path, j.reason) for j in judged), as_json)
            return
        summary = run_stage(
            app, "scan", options, lambda run: scan.run(run, settle=settle, progress=progress)
        )
    end_with(app, summary, as_json)


def show_plan(
    app: App, summary: RunSummary, judged: Iterable[tuple[str, str]], as_json: bool
) -> None:
    """What a dry run found: a line per file, or the summary with one item per file."""
    for path, reason in judged:
        if as_json:
            summary.items.append({"file_path": path, "reason": reason})
        else:
            app.report.line(f"{printable(path)}: {printable(reason)}")
    show_summary(app, summary, as_json)


@click.command("process")
@stage_options
def process_command(app: App, options: Options, as_json: bool) -> None:
    """Find out what waiting files are, and file them under the right name.

    \b
    embyproc process              as cron does it
    embyproc process --once       one item, each step narrated
    embyproc process --dry-run    from -> to for the whole queue
    """
    app.config.require(*NEEDED["process"])
    if options.dry_run:
        from embyproc.stages import process

        run = dry_run(app.store, app.config, "process", options)
        plans = ((intention.path, intention.outcome) for intention in process.plan(run))
        show_plan(app, run.summary, plans, as_json)
        return
    with app.report.progress("copied", quiet=as_json) as progress:
        summary = run_stage(
            app, "process", options, watched(app, options, as_json, progress, process_stage)
        )
    end_with(app, summary, as_json)


def watched(
    app: App, options: Options, as_json: bool, progress: Progress, stage: Callable[[Run], None]
) -> Callable[[Run], None]:
    """The stage with somebody looking on: `--once` narrates, a terminal sees progress."""

    def run_watched(run: Run) -> None:
        run.progress = progress.bytes
        if options.once and not as_json:
            run.narrate = lambda text: app.report.line(printable(text))
        stage(run)

    return run_watched


@click.command("emby")
@click.option(
    "--images", metavar="ID...", type=ITEM_ID, multiple=True, help="Do the pictures of these again."
)
@click.argument("more_ids", metavar="[ID]...", type=ITEM_ID, nargs=-1)
@stage_options
def emby_command(
    app: App,
    options: Options,
    as_json: bool,
    images: tuple[int, ...],
    more_ids: tuple[int, ...],
) -> None:
    """Make Emby show what was filed, with the right title, people and pictures.

    \b
    embyproc emby                 as cron does it
    embyproc emby --dry-run       what would change, field by field
    embyproc emby --images 12 15  the pictures of these items again
    """
    app.config.require(*NEEDED["emby"])
    if more_ids and not images:
        raise click.UsageError("IDs are taken with --images only.")
    if images:
        _redo_pictures(app, (*images, *more_ids), options, as_json)
        return
    if options.dry_run:
        from embyproc.stages import emby_by_hand

        run = dry_run(app.store, app.config, "emby", options)
        plans = ((change.path, change.outcome) for change in emby_by_hand.plan(run))
        show_plan(app, run.summary, plans, as_json)
        return
    with app.report.progress("done", quiet=as_json) as progress:
        summary = run_stage(
            app, "emby", options, watched(app, options, as_json, progress, emby_stage)
        )
    end_with(app, summary, as_json)


def _redo_pictures(app: App, ids: tuple[int, ...], options: Options, as_json: bool) -> None:
    from embyproc.stages.emby_by_hand import redo_pictures

    ids = ids[: options.item_limit]
    items = [app.store.looks.get(item_id) for item_id in ids]
    known = [item for item in items if item is not None and item.emby_item_id]
    if len(known) < len(ids):
        without = ", ".join(str(i) for i in ids if i not in {item.id for item in known})
        raise UnknownItem(f"not known to Emby yet: {without}; `embyproc list` shows what is there")
    summary = RunSummary(command="emby", claimed=len(known))
    if options.dry_run:
        plans = ((item.new_path or item.file_path, "pictures, once more") for item in known)
        show_plan(app, summary, plans, as_json)
        return
    for item, warnings in redo_pictures(app.store, app.config, known):
        summary.succeeded += not warnings
        summary.failed += bool(warnings)
        summary.items.append({"id": item.id, "status": item.status, "warnings": warnings})
        summary.problems += [f"item {item.id}: {warning}" for warning in warnings]
    show_summary(app, summary, as_json)


@click.command("run")
@functools.partial(stage_options, has_plan=False)
def run_command(app: App, options: Options, as_json: bool) -> None:
    """scan, process, emby and retry in one process: the one line cron needs.

    \b
    embyproc run
    """
    from embyproc.stages import all as every_stage
    from embyproc.stages import retry, scan

    app.config.require(*dict.fromkeys(name for names in NEEDED.values() for name in names))
    if options.dry_run:
        raise click.UsageError(
            "run has no --dry-run: ask scan, process, emby and retry for theirs."
        )

    stages = {"scan": scan.run, "process": process_stage, "emby": emby_stage, "retry": retry.run}
    broken: list[EmbyprocError] = []

    def work(run: Run) -> None:
        if errors := every_stage.run(run, stages):
            broken.append(_gravest(errors))
            run.summary.broken_exit_code = broken[0].exit_code
            run.summary.problems += [
                str(error) for error in errors if str(error) not in str(broken[0])
            ]

    summary = run_stage(app, "run", options, work)
    if broken:
        show_summary(app, summary, as_json)
        raise broken[0]
    end_with(app, summary, as_json)


def _gravest(errors: Sequence[EmbyprocError]) -> EmbyprocError:
    """What a person has to mend comes first: all of that at once, and each thing once."""
    wrong = [p for error in errors if isinstance(error, ConfigError) for p in error.problems]
    return ConfigError(list(dict.fromkeys(wrong))) if wrong else errors[0]


@click.command("retry")
@click.argument("ids", metavar="[ID]...", type=ITEM_ID, nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every item in error, given up or not.")
@stage_options
def retry_command(
    app: App, options: Options, as_json: bool, ids: tuple[int, ...], every: bool
) -> None:
    """Queue again what failed and is due; with IDs or --all: now, with a fresh count.

    \b
    embyproc retry            due errors, as cron does it
    embyproc retry 12 15      these, now
    """
    if ids and every:
        raise click.UsageError("Give IDs or --all, not both.")
    if ids or every:
        _retry_by_hand(app, None if every else ids, options, as_json)
        return
    from embyproc.stages import retry

    if options.dry_run:
        show_summary(app, retry.plan(app.store, app.config, options), as_json)
        return
    end_with(app, run_stage(app, "retry", options, retry.run), as_json)


@click.command("retry-all")
@stage_options
def retry_all_command(app: App, options: Options, as_json: bool) -> None:
    """The same as `retry --all`."""
    _retry_by_hand(app, None, options, as_json)


def _retry_by_hand(app: App, ids: tuple[int, ...] | None, options: Options, as_json: bool) -> None:
    store = app.store
    if ids and (unknown := store.looks.missing(ids)):
        listed = ", ".join(str(item_id) for item_id in unknown)
        raise UnknownItem(f"not in the queue: {listed}; `embyproc list` shows what is")
    take = store.looks.in_error if options.dry_run else store.upkeep.retry_by_hand
    retried = take(ids, options.item_limit)
    if not options.dry_run:
        store.services.try_now()
    if as_json:
        summary = RunSummary(command="retry", claimed=len(retried), succeeded=len(retried))
        summary.skipped = len(ids or ()) - len(retried) if ids else 0
        summary.items += [{"id": item_id, "status": "pending"} for item_id in retried]
        app.print_json(summary.as_json())
        return
    for item_id in sorted(set(ids or ()) - set(retried)):
        item = store.looks.get(item_id)
        if item is not None and item.status is not Status.ERROR:  # else beyond --limit
            app.report.line(
                f"{item_id} is {item.status}, not in error: left as it is "
                f"(`embyproc reset {item_id}` starts it over)"
            )
    verb = "would be queued again" if options.dry_run else "queued again"
    app.report.line(f"retry: {len(retried)} {verb}")
