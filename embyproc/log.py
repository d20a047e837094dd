"""One line for each event on stderr: `key=value`, or JSON for machines. Never a secret."""

import json
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

QUIET, NORMAL, VERBOSE = 0, 1, 2


class Log:
    """Writes events; `clean` blots out secrets as the last step before the stream."""

    def __init__(
        self,
        *,
        level: int = QUIET,
        as_json: bool = False,
        clean: Callable[[str], str] = lambda text: text,
        stream: TextIO | None = None,
    ) -> None:
        self._level = level
        self._as_json = as_json
        self._clean = clean
        self._stream = stream

    def event(self, name: str, fields: Mapping[str, Any], *, level: int = NORMAL) -> None:
        """`name` and what belongs to it; fields that are None are left out."""
        if level > self._level:
            return
        told = {key: value for key, value in fields.items() if value is not None}
        at = datetime.now(UTC).isoformat(timespec="seconds")
        if self._as_json:
            line = json.dumps({"at": at, "event": name, **told}, default=str)
        else:
            pairs = " ".join(f"{key}={_quoted(value)}" for key, value in told.items())
            line = f"{at} {name} {pairs}".rstrip()
        print(self._clean(line), file=self._stream or sys.stderr)


def _quoted(value: Any) -> str:
    """Values with spaces, quotes or anything unprintable are written as a JSON string."""
    text = str(value)
    plain = text.isprintable() and text and not any(c in ' "=\\' for c in text)
    return text if plain else json.dumps(text, ensure_ascii=not text.isprintable())
