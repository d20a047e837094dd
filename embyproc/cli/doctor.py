"""The doctor and metrics commands."""

from pathlib import Path

import click

from embyproc.cli.context import App
from embyproc.errors import ConfigError
from embyproc.report import printable


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="A JSON list of findings on stdout.")
@click.pass_obj
def doctor_command(app: App, as_json: bool) -> None:
    """Prove that everything is in place, and say how to mend what is not.

    \b
    embyproc doctor
    """
    from embyproc.migrate import SchemaState, ensure_usable, schema_state
    from embyproc.stages import doctor
    from embyproc.store import Store

    def open_store() -> tuple[Store, SchemaState]:
        database = app.open_database()
        state = schema_state(database)
        if state.is_empty:
            ensure_usable(database)
            state = schema_state(database)
        return Store(database, app.open_database), state

    try:
        findings = list(doctor.examine(app.config, open_store))
    except ConfigError as error:
        remedy = "mend the value in .env or the environment"
        findings = [doctor.fail("settings", problem, remedy) for problem in error.problems]
    findings = [
        doctor.Finding(
            check=f.check,
            result=f.result,
            detail=app.without_secrets(f.detail),
            remedy=f.remedy,
        )
        for f in findings
    ]
    bad = [finding for finding in findings if finding.result == doctor.FAIL]
    if as_json:
        app.print_json([finding.as_json() for finding in findings])
    else:
        for finding in findings:
            line = f"{finding.result:4}  {finding.check}: {printable(finding.detail)}"
            app.report.line(line + (f"\n      -> {finding.remedy}" if finding.remedy else ""))
        app.report.line(f"{len(bad)} to mend" if bad else "all well")
    raise click.exceptions.Exit(2 if bad else 0)


@click.command("metrics")
@click.option(
    "--textfile",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the file atomically, for node_exporter's textfile collector.",
)
@click.pass_obj
def metrics_command(app: App, textfile: Path | None) -> None:
    """The queue in Prometheus' text format.

    \b
    embyproc metrics --textfile /var/lib/node_exporter/embyproc.prom
    """
    from embyproc.metrics import exposition

    text = exposition(app.store.looks.figures(app.config.max_retries))
    if textfile is None:
        app.report.line(text.rstrip("\n"))
        return
    from embyproc.files.place import replace_file

    replace_file(textfile, text)
