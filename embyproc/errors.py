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


class ServiceDown(EmbyprocError):
    """A service cannot be reached or does not work: ask again later, blame no item."""

    exit_code = 3

    def __init__(
        self, message: str, *, retry_after: float | None = None, for_everyone: bool = True
    ) -> None:
        super().__init__(message)
        # Seconds the service itself asked to be left alone.
        self.retry_after = retry_after
        # False where it may be this one question that the service stumbles over.
        self.for_everyone = for_everyone


class TokenRefused(EmbyprocError):
    """The access token was not accepted: get a new one and ask again."""

    exit_code = 3

    def __init__(self, message: str, *, token: str) -> None:
        super().__init__(message)
        self.token = token


class RetryLater(EmbyprocError):
    """This item failed; the message begins as the table of errors says. It is tried again."""


class EmbyRefused(RetryLater):
    """Emby answered, but not as it should: this item, or this request, is the trouble."""

    exit_code = 3

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class FileTrouble(RetryLater):
    """The file system said no: `File error: ...`."""

    exit_code = 2


class SourceMissing(RetryLater):
    """The file is not where it was queued: `Source file missing: ...`."""


class Stopped(EmbyprocError):
    """A signal asked the run to stop in the middle of an item; nothing of it is left behind."""
