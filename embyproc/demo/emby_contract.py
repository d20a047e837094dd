"""Checks a request to the stand-in Emby against the route table, beyond what a server would."""

from __future__ import annotations

from collections.abc import Mapping

from embyproc.demo.emby_items import parse_date, unknown_fields, unknown_sort_keys
from embyproc.demo.emby_routes import Kind, Route, Value
from embyproc.demo.messages import Refusal, Request

REFRESH_MODES = ("ValidationOnly", "Default", "FullRefresh")
# The key in the query is legal, and noted elsewhere because it ends up in access logs.
KEY_PARAMETERS = ("api_key", "apikey")


def violations_of(request: Request, route: Route, kind: Kind) -> list[str]:
    """What is wrong with a request that found its route, one sentence each."""
    where = f"{request.method} {request.path}"
    found = []
    if kind in route.unofficial_on:
        found.append(f"{where}: not in the official operation list")
    known = route.parameters(kind)
    # Jellyfin documents the same names in camel case and compares without case.
    spelling = {(name.lower() if kind == "jellyfin" else name): name for name in known}
    for name, text in request.query.items():
        official = spelling.get(name.lower() if kind == "jellyfin" else name)
        if official is None:
            if name.lower() not in KEY_PARAMETERS:
                found.append(f"{where}: unknown query parameter {name}")
        elif known[official] is Value.BOOLEAN and text not in ("true", "false"):
            found.append(f"{where}: {name} is {text!r} instead of true or false")
        elif official in ("ReplaceAllMetadata", "ReplaceAllImages") and text == "true":
            found.append(f"{where}: {name} would throw data away")
    found += [f"{where}: unknown field {name}" for name in unknown_fields(request.query)]
    found += [f"{where}: cannot sort by {name}" for name in unknown_sort_keys(request.query)]
    return found


def check_values(route: Route, kind: Kind, query: Mapping[str, str]) -> None:
    """Raises Refusal for a value the server cannot read; `query` has lower-case names."""
    for name, value in route.parameters(kind).items():
        text = query.get(name.lower(), "")
        if not text:
            continue
        if value is Value.INTEGER and not text.isdecimal():
            raise Refusal(400, f"{name} is not a number.")
        if value is Value.BOOLEAN and text.lower() not in ("true", "false"):
            raise Refusal(400, f"{name} is not a boolean.")
        if value is Value.DATE:
            parse_date(text)
        if value is Value.REFRESH_MODE:
            modes = REFRESH_MODES + (("None",) if kind == "jellyfin" else ())
            if text not in modes:
                raise Refusal(400, f"{name} is not a refresh mode.")
