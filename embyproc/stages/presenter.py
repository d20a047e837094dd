"""One item in Emby: write it, read it back, and give it its pictures. Runs in worker threads."""

import os
import time
from collections.abc import Sequence

from embyproc.clients.emby import Emby
from embyproc.clients.pictures import NoPicture, Picture, Pictures
from embyproc.errors import EmbyRefused, ServiceDown
from embyproc.models import Item, Metadata
from embyproc.presenting import Locale, changed_item, differences, wanted_fields, wide_url

# The first refresh of a new item may save after our write; then it is written once more.
_TRIES = 2
_SECOND_TRY_SECONDS = 1.5


class Presenter:
    def __init__(self, client: Emby, pictures: Pictures, locale: Locale) -> None:
        self._client = client
        self._pictures = pictures
        self.locale = locale

    def present(self, item: Item, emby_id: str, metadata: Metadata | None) -> list[str]:
        """Write and verify the fields, then the pictures; returns warnings about those.

        Raises EmbyRefused naming the fields that did not take, or ServiceDown.
        """
        stem = os.path.splitext(os.path.basename(item.new_path or ""))[0]
        wanted = wanted_fields(metadata, stem, self.locale)
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
        return self.pictures(emby_id, metadata)

    def pictures(self, emby_id: str, metadata: Metadata | None) -> list[str]:
        """Replace the item's pictures, best effort; the new ones are in hand before an old one
        goes. Returns what went wrong."""
        url = metadata.image_url if metadata else None
        if not url:
            return []
        warnings: list[str] = []
        original = self._fetch(url, "picture", warnings)
        if original is None:
            return warnings
        wide = self._fetch(wide_url(url), "wide picture", warnings)
        uploads: list[tuple[str, Picture]] = [("Primary", original)]
        if wide is not None:
            uploads += [("Backdrop", wide), ("Banner", wide)]
        try:
            self._clear(emby_id, [kind for kind, _ in uploads] + ["Logo"])
            for kind, picture in uploads:
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

    def _clear(self, emby_id: str, kinds: Sequence[str]) -> None:
        """Delete what is there, and only that; from the highest index down, because the others
        move up."""
        present = [(kind, index) for kind, index in self._client.images(emby_id) if kind in kinds]
        for kind, index in sorted(present, key=lambda entry: (entry[0], -entry[1])):
            self._client.delete_image(emby_id, kind, index)
