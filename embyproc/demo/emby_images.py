"""Pictures of the stand-in Emby's items: uploaded as base64, listed, read and deleted."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

from embyproc.demo.emby_library import Library, MediaItem, StoredImage
from embyproc.demo.messages import Refusal
from embyproc.demo.pictures import picture_size, picture_type

IMAGE_TYPES = (
    "Primary",
    "Art",
    "Backdrop",
    "Banner",
    "Logo",
    "Thumb",
    "Disc",
    "Box",
    "Screenshot",
    "Menu",
    "Chapter",
    "BoxRear",
    "Thumbnail",
    "LogoLight",
    "LogoLightColor",
)
# Every other type holds one picture.
_LISTED_TYPES = ("Backdrop", "Screenshot")
_EXTENSIONS = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/webp": "webp",
    "image/gif": "gif",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A picture that was accepted; `mislabelled` when its bytes are of another type."""

    image: StoredImage
    mislabelled: bool


def check_type(image_type: str) -> str:
    if image_type not in IMAGE_TYPES:
        raise Refusal(400, "Unknown image type.")
    return image_type


def decode_upload(body: bytes, content_type: str) -> Upload:
    """The picture in an upload. Raises Refusal unless it is base64 text of an image type."""
    label = content_type.partition(";")[0].strip().lower()
    if label not in _EXTENSIONS:
        raise Refusal(400, "Content-Type must be an image type.")
    try:
        # Line breaks are no part of the alphabet, but real decoders pass over them.
        picture = base64.b64decode(b"".join(body.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refusal(400, "The body is not base64 text.") from error
    found = picture_type(picture)
    if not found:
        raise Refusal(400, "The body holds no picture.")
    return Upload(image=StoredImage(picture, label), mislabelled=found != label)


def store(item: MediaItem, image_type: str, image: StoredImage, library: Library) -> None:
    """Replaces the picture of a single-valued type, and its file; a backdrop is added behind the
    others.

    An index in the request's path changes nothing, so a repeated upload piles up backdrops.
    """
    if image_type in _LISTED_TYPES:
        item.images.setdefault(image_type, []).append(image)
    else:
        for before in item.images.get(image_type, []):
            _remove_file(before, library)
        item.images[image_type] = [image]


def find(item: MediaItem, image_type: str, index: int) -> StoredImage:
    images = item.images.get(image_type, [])
    if not 0 <= index < len(images):
        raise Refusal(404, "Image not found.")
    return images[index]


def delete(item: MediaItem, image_type: str, index: int, library: Library) -> None:
    """Removes one picture, its file too; those behind it move up. A missing one is 404 on Emby
    only."""
    kind = library.kind
    images = item.images.get(image_type, [])
    if 0 <= index < len(images):
        gone = images.pop(index)
        if not images:
            del item.images[image_type]
        _remove_file(gone, library)
    elif kind == "emby":
        raise Refusal(404, "Image not found.")


def _remove_file(image: StoredImage, library: Library) -> None:
    local = library.local_path(image.path) if image.path else None
    if local is not None:
        local.unlink(missing_ok=True)


def listing(item: MediaItem) -> list[dict[str, Any]]:
    """What `GET /Items/{Id}/Images` answers."""
    entries = []
    for image_type, images in item.images.items():
        for index, image in enumerate(images):
            name = f"{image_type.lower()}{index or ''}.{_EXTENSIONS[image.content_type]}"
            entry: dict[str, Any] = {
                "ImageType": image_type,
                "Path": image.path or f"/config/metadata/library/{item.id}/{name}",
                "Filename": name,
                "Size": len(image.body),
            }
            # Only list types have an index; elsewhere the key is left out.
            if image_type in _LISTED_TYPES:
                entry["ImageIndex"] = index
            size = picture_size(image.body)
            if size:
                entry["Width"], entry["Height"] = size
            entries.append(entry)
    return entries
