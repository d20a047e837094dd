"""What strangers send, made fit to be kept: no NUL, no half characters, no numbers without end."""

import math
from typing import Any

# Deeper than any answer that means something, and far from what Python can follow.
_DEEPEST = 50


def clean(value: Any, depth: int = 0) -> Any:
    """A decoded JSON value as PostgreSQL takes it; raises ValueError where it is nested beyond
    all sense."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, dict | list | tuple):
        return value
    if depth == _DEEPEST:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {clean(key): clean(entry, depth + 1) for key, entry in value.items()}
    return [clean(entry, depth + 1) for entry in value]


def clean_text(text: str) -> str:
    if "\0" in text:
        text = text.replace("\0", "")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
