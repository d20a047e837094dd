"""Made-up video files: one frame of Motion JPEG in a real mp4 container, about a kilobyte."""

from __future__ import annotations

import random
import struct

from embyproc.demo.pictures import JPEG_SIZE, jpeg

_TIMESCALE = 1000
_DURATION = 1000
_IDENTITY_MATRIX = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
# Object type "JPEG" of MPEG-4 systems: players take the sample for a Motion JPEG frame.
_OBJECT_TYPE_JPEG = 0x6C
_BOX_HEADER_BYTES = 8


def tiny_mp4(seed: int, size: int | None = None) -> bytes:
    """A playable mp4 that differs by seed, padded to exactly `size` bytes when one is given.

    Raises ValueError when `size` is too small for the file itself.
    """
    frame = jpeg(f"frame {seed:012d}")
    head = _box(b"ftyp", b"isom", struct.pack(">I", 0x200), b"isomiso2mp41")
    # The offset of the frame has a fixed width, so a first pass tells where it will be.
    offset = len(head) + len(_movie(len(frame), 0)) + _BOX_HEADER_BYTES
    video = head + _movie(len(frame), offset) + _box(b"mdat", frame)
    if size is None or size == len(video):
        return video
    room = size - len(video) - _BOX_HEADER_BYTES
    if room < 0:
        raise ValueError(f"size must be {len(video)} or at least {len(video) + 8}, not {size}")
    return video + _box(b"free", random.Random(seed).randbytes(room))


def _box(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I", _BOX_HEADER_BYTES + len(body)) + kind + body


def _full_box(kind: bytes, *parts: bytes, flags: int = 0) -> bytes:
    return _box(kind, struct.pack(">I", flags), *parts)


def _movie(frame_bytes: int, frame_offset: int) -> bytes:
    header = _full_box(
        b"mvhd",
        struct.pack(">4I", 0, 0, _TIMESCALE, _DURATION),
        struct.pack(">IH10x", 0x10000, 0x100),
        _IDENTITY_MATRIX,
        bytes(24),
        struct.pack(">I", 2),
    )
    return _box(b"moov", header, _track(frame_bytes, frame_offset))


def _track(frame_bytes: int, frame_offset: int) -> bytes:
    width, height = JPEG_SIZE
    track_header = _full_box(
        b"tkhd",
        struct.pack(">5I", 0, 0, 1, 0, _DURATION),
        bytes(16),
        _IDENTITY_MATRIX,
        struct.pack(">II", width << 16, height << 16),
        flags=7,
    )
    media_header = _full_box(
        b"mdhd", struct.pack(">4I", 0, 0, _TIMESCALE, _DURATION), struct.pack(">HH", 0x55C4, 0)
    )
    handler = _full_box(b"hdlr", bytes(4), b"vide", bytes(12), b"video\x00")
    location = _full_box(b"dref", struct.pack(">I", 1), _full_box(b"url ", flags=1))
    information = _box(
        b"minf",
        _full_box(b"vmhd", bytes(8), flags=1),
        _box(b"dinf", location),
        _sample_table(frame_bytes, frame_offset),
    )
    return _box(b"trak", track_header, _box(b"mdia", media_header, handler, information))


def _sample_table(frame_bytes: int, frame_offset: int) -> bytes:
    width, height = JPEG_SIZE
    entry = _box(
        b"mp4v",
        struct.pack(">6xH16x", 1),
        struct.pack(">HH", width, height),
        struct.pack(">IIIH32xHh", 0x480000, 0x480000, 0, 1, 24, -1),
        _decoder_description(),
    )
    return _box(
        b"stbl",
        _full_box(b"stsd", struct.pack(">I", 1), entry),
        _full_box(b"stts", struct.pack(">III", 1, 1, _DURATION)),
        _full_box(b"stsc", struct.pack(">IIII", 1, 1, 1, 1)),
        _full_box(b"stsz", struct.pack(">III", 0, 1, frame_bytes)),
        _full_box(b"stco", struct.pack(">II", 1, frame_offset)),
    )


def _decoder_description() -> bytes:
    # Descriptors are tag, length, content: a stream (3) holds a decoder (4) and a sync layer (6).
    decoder = struct.pack(">BBBB3xII", 4, 13, _OBJECT_TYPE_JPEG, 0x11, 0, 0)
    sync_layer = struct.pack(">BBB", 6, 1, 2)
    stream = struct.pack(">BBHB", 3, 3 + len(decoder) + len(sync_layer), 1, 0)
    return _full_box(b"esds", stream, decoder, sync_layer)
