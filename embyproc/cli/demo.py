"""The demo command: the whole pipeline in a few seconds, leaving nothing behind."""

import click

from embyproc.cli.context import App
from embyproc.report import printable


@click.command("demo")
@click.option("--keep", is_flag=True, help="Keep the folders and print where they are.")
@click.pass_obj
def demo_command(app: App, keep: bool) -> None:
    """Show everything on made-up files, with stand-in services and a throw-away database.

    \b
    embyproc demo
    embyproc demo --keep
    """
    from embyproc.demo.tour import tour

    tour(lambda text: app.report.line(printable(text)), keep=keep)
