"""The command line: a group whose commands are imported only when they are called."""

import gc
import importlib
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from embyproc import __version__
from embyproc.cli.context import App
from embyproc.errors import EmbyprocError
from embyproc.log import NORMAL, QUIET, VERBOSE, Log

# Where each command lives: an idle `retry` need not import what `status` needs.
COMMANDS = {
    "scan": "embyproc.cli.stages",
    "process": "embyproc.cli.stages",
    "emby": "embyproc.cli.stages",
    "retry": "embyproc.cli.stages",
    "retry-all": "embyproc.cli.stages",
    "run": "embyproc.cli.stages",
    "status": "embyproc.cli.look",
    "list": "embyproc.cli.look",
    "show": "embyproc.cli.look",
    "explain": "embyproc.cli.explain",
    "reset": "embyproc.cli.manage",
    "forget": "embyproc.cli.manage",
    "cleanup": "embyproc.cli.manage",
    "migrate": "embyproc.cli.manage",
    "doctor": "embyproc.cli.doctor",
    "metrics": "embyproc.cli.doctor",
    "demo": "embyproc.cli.demo",
}


class Commands(click.Group):
    """Imports a command when it is asked for, and says each failure in one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name])
        command = getattr(module, cmd_name.replace("-", "_") + "_command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            close = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise click.UsageError(f"No such command '{args[0]}'.{hint}", ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        app = ctx.ensure_object(App)
        try:
            return super().invoke(ctx)
        except EmbyprocError as error:
            click.echo(app.without_secrets(f"embyproc: {error}"), err=True)
            ctx.exit(error.exit_code)
        except BrokenPipeError:
            # Whoever reads has seen enough (`embyproc list | head`); that is no failure.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)
        except (KeyboardInterrupt, click.Abort):
            click.echo("embyproc: interrupted; nothing is lost, the next run goes on", err=True)
            ctx.exit(130)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception as error:
            if os.environ.get("EMBYPROC_DEBUG"):
                raise
            said = f"embyproc: internal error: {type(error).__name__}: {error}"
            hint = "(EMBYPROC_DEBUG=1 shows where)"
            click.echo(app.without_secrets(f"{said.splitlines()[0]} {hint}"), err=True)
            ctx.exit(3)
        finally:
            app.close()


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="First time? Run: embyproc demo",
)
@click.version_option(__version__, prog_name="embyproc")
@click.option(
    "--env-file",
    type=click.Path(path_type=Path),
    help="Read settings from this file instead of ./.env; the environment wins.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log more on stderr.")
@click.option("-q", "--quiet", is_flag=True, help="Log nothing on stderr but failures.")
@click.option(
    "--log-format",
    type=click.Choice(["plain", "json"]),
    default="plain",
    help="How a line of the log looks.",
)
@click.pass_context
def cli(
    ctx: click.Context, env_file: Path | None, verbose: bool, quiet: bool, log_format: str
) -> None:
    """Files finished downloads under the right name and makes Emby show them right."""
    app = ctx.ensure_object(App)
    app.env_file = env_file
    app.log = Log(
        level=QUIET if quiet else VERBOSE if verbose else NORMAL,
        as_json=log_format == "json",
        clean=app.without_secrets,
    )


def main() -> NoReturn:
    # Cron's locale may not be able to encode every name; better an escape than a crash.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        cli(prog_name="embyproc")
    finally:
        # The last collection of a program that ends finds nothing that matters, in 10 ms.
        gc.freeze()
    raise AssertionError("click ends the process itself")
