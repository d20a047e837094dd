"""One item in Emby: write it, read it back, and give it its pictures. Runs in worker threads."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from embyproc.clients.emby import Emby
from embyproc.clients.pictures import NoPicture, Picture, Pictures
from embyproc.clients.wordpress import accepted_metadata
from embyproc.config import Config
from embyproc.errors import EmbyRefused, ServiceDown
from embyproc.models import Item, Metadata
from embyproc.presenting import (
    Locale,
    belongs_to_somebody,
    changed_item,
    differences,
    wanted_fields,
    wide_url,
)
from embyproc.store import Store

# The first refresh of a new item may save after our write; then it is written once more.
_TRIES = 2
_SECOND_TRY_SECONDS = 1.5


def metadata_of(item: Item) -> Metadata | None:
    return accepted_metadata(item.metadata_json, "stored", item.movie_code or "")


def make_presenter(client: Emby, store: Store, config: Config) -> "Presenter":
    token = None
    if config.api_token:
        token = store.services.token("wordpress", config.api_token).access_token
    locale = Locale(
        country=config.emby_production_location,
        language=config.emby_metadata_language,
        country_code=config.emby_metadata_country,
    )
    return Presenter(client, Pictures(config.api_base_url, token), locale)


class Presenter:
    def __init__(self, client: Emby, pictures: Pictures, locale: Locale) -> None:
        self._client = client
        self._pictures = pictures
        self._locale = locale

    def present(self, item: Item, emby_id: str) -> list[str]:
        """Write and verify the fields, then the pictures; returns warnings about those.

        Raises EmbyRefused naming the fields that did not take, or ServiceDown.
        """
        current = self.fields(emby_id, self.wanted(item))
        return self.pictures(current, item)

    def wanted(self, item: Item) -> dict[str, Any]:
        """The fields as the item should show them."""
        stem = os.path.splitext(os.path.basename(item.new_path or ""))[0]
        return wanted_fields(metadata_of(item), stem, self._locale)

    def fields(self, emby_id: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Write the fields that are not as wanted, and verify them; raises as `present` does.
        Returns the item as it is then."""
        current = self._client.read(emby_id)
        wrong = differences(current, wanted)
        for attempt in range(_TRIES):
            if not wrong:
                break
            if attempt:
                time.sleep(_SECOND_TRY_SECONDS)
            self._client.update(changed_item(current, wanted))
            current = self._client.read(emby_id)
            wrong = differences(current, wanted)
        if wrong:
            raise EmbyRefused(", ".join(wrong))
        return current

    def pictures(self, current: Mapping[str, Any], item: Item) -> list[str]:
        """Replace the item's pictures, best effort; the new ones are in hand before an old one
        goes. Returns what went wrong."""
        emby_id, film = str(current.get("Id")), str(current.get("Path") or "")
        metadata = metadata_of(item)
        url = metadata.image_url if metadata else None
        if not url:
            return []
        warnings: list[str] = []
        original = self._fetch(url, "picture", warnings)
        if original is None:
            return warnings
        wide = self._fetch(wide_url(url), "wide picture", warnings)
        uploads = {"Primary": original}
        if wide is not None:
            uploads |= {"Backdrop": wide, "Banner": wide}
        try:
            staying = self._clear(emby_id, film, item, [*uploads, "Logo"])
            for kind in sorted(staying & uploads.keys()):
                warnings.append(f"{kind}: the picture that lies beside the film stays")
            for kind, picture in uploads.items():
                if kind not in staying:
                    self._client.upload_image(emby_id, kind, picture.body, picture.content_type)
        except (EmbyRefused, ServiceDown) as error:
            warnings.append(f"pictures: {error}")
        return warnings

    def _fetch(self, url: str, what: str, warnings: list[str]) -> Picture | None:
        try:
            return self._pictures.fetch(url)
        except NoPicture as error:
            warnings.append(f"{what}: {error}")
            return None

    def _clear(self, emby_id: str, film: str, item: Item, kinds: Sequence[str]) -> set[str]:
        """Delete what is there, and only that; from the highest index down, because the others
        move up. Returns the kinds of which something stays: with a picture, deleted or replaced,
        Emby deletes its file, and some of those are somebody's own."""
        stem = os.path.splitext(os.path.basename(item.file_path))[0]
        sidecars = {name.removeprefix(stem) for name in item.sidecars or ()}
        staying: set[str] = set()
        present = [picture for picture in self._client.images(emby_id) if picture.kind in kinds]
        for picture in sorted(present, key=lambda picture: (picture.kind, -picture.index)):
            if belongs_to_somebody(picture.path, film, sidecars):
                staying.add(picture.kind)
            else:
                self._client.delete_image(emby_id, picture.kind, picture.index)
        return staying
