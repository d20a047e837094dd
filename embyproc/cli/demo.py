"""The demo command: a look at the program that leaves nothing behind."""

import click

from embyproc.cli.context import App
from embyproc.cli.look import show_status, status_facts


@click.command("demo")
@click.pass_obj
def demo_command(caller: App) -> None:
    """Show an empty queue on a throw-away embedded database.

    \b
    embyproc demo
    """
    import tempfile
    from pathlib import Path

    from embyproc.embedded import Embedded

    with tempfile.TemporaryDirectory(prefix="embyproc-demo-") as folder:
        home = Path(folder)
        home.chmod(0o755)  # as root the server runs as another account
        app = App(environ={"EMBYPROC_HOME": folder})
        try:
            show_status(app, status_facts(app))
        finally:
            app.close()
            Embedded(home=home).stop()
    caller.report.line("That was an empty queue; nothing of it is left.")
