"""The dead man's switch: told of every start and end, so that silence is noticed elsewhere."""

from embyproc.clients.base import Http
from embyproc.errors import ServiceDown

_SECONDS = 5.0


def ping(url: str, what: str) -> str | None:
    """Tell `url` of a start or an exit status; returns why it could not be told."""
    try:
        Http("PING_URL").request(
            "GET", f"{url}/{what}", headers={}, read_seconds=_SECONDS, whole_seconds=2 * _SECONDS
        )
    except ServiceDown as error:
        return str(error)
    return None
