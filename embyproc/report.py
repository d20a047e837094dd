"""What a person sees: rich tables on a terminal, plain untruncated lines everywhere else.

The only module that knows rich, and it imports it only for a terminal: cron's runs never pay.
"""

import sys
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from rich.status import Status

Cell = object


def printable(value: Cell) -> str:
    """`value` as text that cannot move the cursor, break a line or fail to encode.

    File names are bytes: newlines, escape sequences, bidi marks and undecodable bytes are shown
    as backslash escapes.
    """
    text = "" if value is None else str(value)
    return text if text.isprintable() else "".join(_escape(character) for character in text)


def _escape(character: str) -> str:
    from unicodedata import category

    # An ideographic space is a space, though Python does not call it printable.
    if character.isprintable() or category(character) == "Zs":
        return character
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


def age(then: datetime | None, now: datetime) -> str:
    """How long ago, in the largest unit that says enough: `3 min`, `2 h`, `5 d`."""
    if then is None:
        return "never"
    seconds = max(0, int((now - then) / timedelta(seconds=1)))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def sparkline(values: Sequence[int]) -> str:
    """A small bar for each value, as high as it is beside the others."""
    top = max(values, default=0) or 1
    return "".join("▁▂▃▄▅▆▇█"[min(7, 7 * value // top)] for value in values)


def cut_in_the_middle(text: str, width: int) -> str:
    """The beginning and the end of a long name say more than its beginning alone."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return text[:head] + "…" + text[len(text) - (width - 1 - head) :]


class Report:
    """Writes to one stream; `terminal` decides between rich and plain."""

    def __init__(self, stream: TextIO | None = None, *, terminal: bool | None = None) -> None:
        self._stream = stream or sys.stdout
        self.terminal = self._stream.isatty() if terminal is None else terminal

    def progress(self, label: str, *, quiet: bool = False) -> "Progress":
        """A counter for a long piece of work; shows nothing without a terminal."""
        return Progress(label, shown=not quiet and sys.stderr.isatty())

    def line(self, text: str = "") -> None:
        """One line of our own making; names inside it must have gone through `printable`."""
        print(text, file=self._stream)

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Cell]],
        *,
        title: str | None = None,
        right: Sequence[str] = (),
    ) -> None:
        """A table; the columns named in `right` hold numbers."""
        texts = [[printable(cell) for cell in row] for row in rows]
        if self.terminal:
            self._rich_table(columns, texts, title, right)
        else:
            self._plain_table(columns, texts, title, right)

    def _plain_table(
        self, columns: Sequence[str], rows: list[list[str]], title: str | None, right: Sequence[str]
    ) -> None:
        if title:
            self.line(title)
        lines = [list(columns), *rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
        for line in lines:
            cells = [
                cell.rjust(width) if name in right else cell.ljust(width)
                for name, cell, width in zip(columns, line, widths, strict=True)
            ]
            self.line("  ".join(cells).rstrip())

    def _rich_table(
        self, columns: Sequence[str], rows: list[list[str]], title: str | None, right: Sequence[str]
    ) -> None:
        from rich import box
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        console = Console(file=self._stream, force_terminal=True)
        rows = _fitted(columns, rows, console.width)
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        for name in columns:
            table.add_column(name, justify="right" if name in right else "left", overflow="fold")
        for row in rows:
            # Names contain [brackets], which rich would take for markup and swallow.
            table.add_row(*(escape(cell) for cell in row))
        console.print(table)


def _fitted(columns: Sequence[str], rows: list[list[str]], width: int) -> list[list[str]]:
    """Cut long cells so that the table fits: short columns keep theirs, long ones share."""
    widest = [max([len(name), *(len(row[i]) for row in rows)]) for i, name in enumerate(columns)]
    room = width - 1 - 3 * len(columns)
    long = [i for i, size in enumerate(widest) if size > max(12, room // len(columns))]
    if not long or sum(widest) <= room:
        return rows
    share = max(
        8, (room - sum(size for i, size in enumerate(widest) if i not in long)) // len(long)
    )
    return [
        [cut_in_the_middle(cell, share) if i in long else cell for i, cell in enumerate(row)]
        for row in rows
    ]


class Progress:
    """Counts on a terminal's stderr, once the work has taken long enough to wonder."""

    _PATIENCE_SECONDS = 1.0

    def __init__(self, label: str, *, shown: bool) -> None:
        self._label = label
        self._shown = shown
        self._started = time.monotonic()
        self._status: Status | None = None

    def __call__(self, count: int, label: str | None = None) -> None:
        if not self._shown or time.monotonic() - self._started < self._PATIENCE_SECONDS:
            return
        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True).status(self._label)
            self._status.start()
        self._status.update(f"{count:,} {label or self._label}")

    def bytes(self, done: int, total: int) -> None:
        """The same for one large file."""
        if self._shown:
            self(done // 1_000_000, f"of {total // 1_000_000:,} MB {self._label}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
