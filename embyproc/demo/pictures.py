"""Small real pictures without an imaging library, and what can be read from a picture's bytes."""

from __future__ import annotations

import base64
import struct
import zlib

# A 16 x 24 colour gradient, baseline JPEG.
_TINY_JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABQODxIPDRQSEBIXFRQYHjIhHhwcHj0sLiQySUBMS0dARkVQWnNi"
    "UFVtVkVGZIhlbXd7gYKBTmCNl4x9lnN+gXz/2wBDARUXFx4aHjshITt8U0ZTfHx8fHx8fHx8fHx8fHx8fHx8"
    "fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHz/wAARCAAYABADASIAAhEBAxEB/8QAFgABAQEAAAAA"
    "AAAAAAAAAAAABQAD/8QAFxAAAwEAAAAAAAAAAAAAAAAAAAMEYf/EABUBAQEAAAAAAAAAAAAAAAAAAAMF/8QA"
    "GhEAAgMBAQAAAAAAAAAAAAAAAAMBAgQhMf/aAAwDAQACEQMRAD8AATPggmfDRM+CCZ8FY4bE/wANEz4IJnwi"
    "JrLSSMV54f/Z"
)
JPEG_SIZE = (16, 24)
_START_OF_IMAGE = b"\xff\xd8"
_COMMENT = b"\xff\xfe"
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Start-of-frame markers: C0 to CF without the three that mean something else.
_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def jpeg(label: str = "") -> bytes:
    """A JPEG that differs by its label, which sits in a comment segment and can be read back."""
    if not label:
        return _TINY_JPEG
    comment = label.encode()
    segment = _COMMENT + struct.pack(">H", len(comment) + 2) + comment
    return _START_OF_IMAGE + segment + _TINY_JPEG[2:]


def jpeg_label(picture: bytes) -> str:
    """The label given to `jpeg`, or '' when there is none."""
    if picture[2:4] != _COMMENT:
        return ""
    (length,) = struct.unpack(">H", picture[4:6])
    return picture[6 : 4 + length].decode()


def png(label: str = "", width: int = 16, height: int = 24) -> bytes:
    """A one-coloured PNG; the label decides the colour and is kept as a text chunk."""
    colour = struct.pack(">I", zlib.crc32(label.encode()))[:3]
    rows = (b"\x00" + colour * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    text = _chunk(b"tEXt", b"Comment\x00" + label.encode("latin-1", "replace")) if label else b""
    pixels = _chunk(b"IDAT", zlib.compress(rows))
    return _PNG_SIGNATURE + _chunk(b"IHDR", header) + text + pixels + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)


def picture_type(picture: bytes) -> str:
    """The MIME type told by the first bytes, or '' when they are no picture's."""
    if picture.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if picture.startswith(_PNG_SIGNATURE):
        return "image/png"
    if picture[:4] == b"RIFF" and picture[8:12] == b"WEBP":
        return "image/webp"
    return "image/gif" if picture[:6] in (b"GIF87a", b"GIF89a") else ""


def picture_size(picture: bytes) -> tuple[int, int] | None:
    """Width and height of a JPEG or PNG; None when they cannot be read."""
    if picture.startswith(_PNG_SIGNATURE) and len(picture) >= 24:
        width, height = struct.unpack(">II", picture[16:24])
        return width, height
    if not picture.startswith(_START_OF_IMAGE):
        return None
    position = 2
    while position + 9 <= len(picture) and picture[position] == 0xFF:
        if picture[position + 1] in _FRAME_MARKERS:
            height, width = struct.unpack(">HH", picture[position + 5 : position + 9])
            return width, height
        (length,) = struct.unpack(">H", picture[position + 2 : position + 4])
        position += 2 + length
    return None
