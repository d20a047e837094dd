"""What the stand-in Emby shows of an installation."""

from typing import Any

from installation import Installation

from embyproc.demo.emby import StandInEmby

NAME = "Jane Doe - [No Sub] ABC-123 The Quiet Garden"
PATH = f"/mnt/library/Jane Doe/{NAME}.mp4"


def server(installation: Installation) -> StandInEmby:
    assert installation.emby is not None
    return installation.emby


def shown(installation: Installation, path: str = PATH) -> dict[str, Any]:
    return dict(server(installation).items_by_path()[path])


def kinds(installation: Installation, item_id: str) -> list[str]:
    """The type of each picture, once for each."""
    stored = server(installation).images(item_id)
    return sorted(kind for kind, bodies in stored.items() for _ in bodies)
