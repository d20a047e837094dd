"""Telling whether a process of this machine is gone, without being fooled by a reused number."""

import os
from pathlib import Path


def own_process() -> str | None:
    """What identifies this process on this boot and in this container; None where nothing does."""
    place = _place()
    started = _start_time(os.getpid())
    return f"{place}/{os.getpid()}/{started}" if place and started else None


def is_certainly_gone(process: str) -> bool:
    """Whether `process` ran here and is no more. Of other machines nothing is certain."""
    place, _, rest = process.rpartition("/")
    place, _, number = place.rpartition("/")
    return place == _place() and number.isdigit() and _start_time(int(number)) != rest


def _place() -> str | None:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def _start_time(number: int) -> str | None:
    try:
        text = Path(f"/proc/{number}/stat").read_bytes()
    except OSError:
        return None
    # The name of the program, in brackets, may itself hold brackets and spaces.
    fields = text.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()
