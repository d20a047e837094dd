"""The explain command: what a name says, and by which rule. Needs nothing but the name."""

import os
from typing import Any

import click

from embyproc.cli.context import App
from embyproc.config import VARIABLES
from embyproc.extract import extract
from embyproc.watching import path_reason


@click.command("explain")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="A JSON list on stdout.")
@click.pass_obj
def explain_command(app: App, names: tuple[str, ...], as_json: bool) -> None:
    """What would be extracted from file names or paths, and by which rule.

    Names given together in one folder are siblings: they confirm each other's parts.

    \b
    embyproc explain 'ABC-123-C.mp4' 'set/ABC-124-A.mp4' 'set/ABC-124-B.mp4'
    """
    found = [_explained(name, names) for name in names]
    if as_json:
        app.print_json(found)
        return
    app.report.table(
        ("name", "code", "lookup keys", "part", "subtitle", "rule", "passed over"),
        [
            (
                entry["name"],
                entry["code"],
                ", ".join(entry["lookup_keys"]),
                entry["part"],
                entry["subtitle"],
                entry["rule"],
                entry["skip"],
            )
            for entry in found
        ],
    )


def _explained(path: str, paths: tuple[str, ...]) -> dict[str, Any]:
    folder, name = os.path.split(path)
    siblings = [os.path.basename(p) for p in paths if p != path and os.path.dirname(p) == folder]
    found = extract(name, parent=os.path.basename(folder), siblings=siblings)
    return {
        "name": path,
        "code": found.code,
        "lookup_keys": list(found.lookup_keys),
        "part": found.part,
        "subtitle": found.subtitle,
        "skip": path_reason(path, _default_extensions()),
        "rule": found.rule,
    }


def _default_extensions() -> frozenset[str]:
    """No configuration is read here: the defaults, and what such libraries also hold."""
    (variable,) = (v for v in VARIABLES if v.name == "VIDEO_EXTENSIONS")
    assert variable.default is not None
    more = {".m4v", ".mov", ".ts", ".iso"}
    return frozenset(variable.parse(variable.default)) | more
