"""Exceptions, named by what the caller does about them. One sentence each, never a secret."""

from collections.abc import Sequence


class EmbyprocError(Exception):
    """A failure that a person is told in one sentence; the program ends with `exit_code`."""

    exit_code = 1


class ConfigError(EmbyprocError):
    """Wrong usage or configuration: every problem at once, a line each."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class UnknownItem(EmbyprocError):
    """An id that is not in the queue."""

    exit_code = 2


class DatabaseUnusable(EmbyprocError):
    """The database cannot be reached, refuses us, or has a schema we cannot work with."""

    exit_code = 3


class StaleClaim(EmbyprocError):
    """The row is no longer ours: stop working on this item and change nothing more."""
