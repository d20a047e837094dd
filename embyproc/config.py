"""Environment and `.env` file -> a frozen Config; every problem is reported at once."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from embyproc.errors import ConfigError


class _Wrong(ValueError):
    """Says what a value was expected to be."""


def _text(value: str) -> str:
    return value


def _folder(value: str) -> Path:
    path = Path(value)
    if not path.is_absolute() or "\0" in value or not _is_text(value):
        raise _Wrong("an absolute path such as /volume1/downloads")
    return path


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises on a port that is no number
    except ValueError:
        usable = False
    if not usable:
        raise _Wrong("a URL such as http://host:8096")
    return value.rstrip("/")


def _database_url(value: str) -> str:
    if not value.startswith(("postgresql://", "postgres://")) and "=" not in value:
        raise _Wrong("postgresql://user:password@host:5432/name")
    return value


def _whole(minimum: int, maximum: int | None = None) -> Callable[[str], int]:
    expected = f"a whole number, at least {minimum}"
    if maximum is not None:
        expected = f"a whole number from {minimum} to {maximum}"

    def parse(value: str) -> int:
        # int() also takes '1_000' and ' 7 ': fine for Python, a typing mistake in a .env file.
        if not value.isascii() or not value.isdigit() or len(value) > 15:
            raise _Wrong(expected)
        number = int(value)
        if number < minimum or (maximum is not None and number > maximum):
            raise _Wrong(expected)
        return number

    return parse


def _numbers(value: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in value.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(0 <= number < 1e6 for number in numbers):
        raise _Wrong("numbers separated by commas such as 1,5,15")
    return numbers


def _extensions(value: str) -> frozenset[str]:
    parts = value.replace(",", " ").lower().split()
    if not parts or any("/" in part or "." in part.lstrip(".") for part in parts):
        raise _Wrong("file endings separated by commas such as .mp4,.mkv")
    return frozenset("." + part.lstrip(".") for part in parts)


def _words(value: str) -> tuple[str, ...]:
    words = tuple(part.strip() for part in value.split(",") if part.strip())
    if not words or not all(word.replace("-", "").replace("_", "").isalnum() for word in words):
        raise _Wrong("names separated by commas such as missav,javguru")
    return words


class Variable(NamedTuple):
    """One variable: its default as it would be written, and how its text is read."""

    name: str
    default: str | None
    parse: Callable[[str], Any]
    secret: bool = False


VARIABLES: tuple[Variable, ...] = (
    Variable("WATCH_DIR", None, _folder),
    Variable("DESTINATION_DIR", None, _folder),
    Variable("VIDEO_EXTENSIONS", ".mp4,.mkv,.avi,.wmv", _extensions),
    Variable("STABILITY_MIN_CHECKS", "2", _whole(1, 1000)),
    Variable("STABILITY_MIN_AGE", "60", _whole(0, 31_536_000)),
    Variable("MIN_FILE_SIZE", "0", _whole(0)),
    Variable("API_BASE_URL", None, _url),
    Variable("API_TOKEN", None, _text, secret=True),
    Variable("API_REFRESH_TOKEN", None, _text, secret=True),
    Variable("API_REFRESH_URL", None, _url),
    Variable("API_SEARCH_ORDER", "missav,javguru", _words),
    Variable("ALIASES_FILE", None, _folder),
    Variable("PROCESS_CONCURRENCY", "4", _whole(1, 64)),
    Variable("EMBY_BASE_URL", None, _url),
    Variable("EMBY_API_KEY", None, _text, secret=True),
    Variable("EMBY_USER_ID", None, _text),
    Variable("EMBY_LIBRARY_PATH", None, _text),
    Variable("EMBY_PARENT_FOLDER_ID", "4", _text),
    Variable("EMBY_SCAN_RETRY_DELAYS", "2,4,8,16,32,64", _numbers),
    Variable("EMBY_CONCURRENCY", "4", _whole(1, 64)),
    Variable("EMBY_PRODUCTION_LOCATION", "Japan", _text),
    Variable("EMBY_METADATA_LANGUAGE", "en", _text),
    Variable("EMBY_METADATA_COUNTRY", "JP", _text),
    Variable("MAX_RETRIES", "3", _whole(0, 1000)),
    Variable("RETRY_BACKOFF_MINUTES", "1,5,15", _numbers),
    Variable("OUTAGE_ALERT_MINUTES", "30", _whole(1, 525_600)),
    Variable("PING_URL", None, _url, secret=True),
    Variable("DATABASE_URL", None, _database_url, secret=True),
    Variable("DB_HOST", None, _text),
    Variable("DB_PORT", "5432", _whole(1, 65535)),
    Variable("DB_NAME", None, _text),
    Variable("DB_USER", None, _text),
    Variable("DB_PASSWORD", None, _text, secret=True),
    Variable("EMBYPROC_HOME", None, _folder),
)


# Nobody compares or prints it, and generating the methods for it costs start-up time.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Config:
    """The settings, read and checked; each field is the variable of the same name."""

    watch_dir: Path | None
    destination_dir: Path | None
    video_extensions: frozenset[str]
    stability_min_checks: int
    stability_min_age: int
    min_file_size: int
    api_base_url: str | None
    api_token: str | None
    api_refresh_token: str | None
    api_refresh_url: str | None
    api_search_order: tuple[str, ...]
    aliases_file: Path | None
    process_concurrency: int
    emby_base_url: str | None
    emby_api_key: str | None
    emby_user_id: str | None
    emby_library_path: str | None
    emby_parent_folder_id: str
    emby_scan_retry_delays: tuple[float, ...]
    emby_concurrency: int
    emby_production_location: str
    emby_metadata_language: str
    emby_metadata_country: str
    max_retries: int
    retry_backoff_minutes: tuple[float, ...]
    outage_alert_minutes: int
    ping_url: str | None
    database_url: str | None
    db_host: str | None
    db_port: int
    db_name: str | None
    db_user: str | None
    db_password: str | None
    embyproc_home: Path

    @property
    def uses_embedded_database(self) -> bool:
        return self.database_url is None and self.db_host is None

    def database_parameters(self) -> dict[str, Any]:
        """How to reach the configured server: a URL under `dsn`, or libpq's own names."""
        if self.database_url is not None:
            return {"dsn": self.database_url}
        given = {
            "host": self.db_host,
            "port": self.db_port,
            "dbname": self.db_name,
            "user": self.db_user,
            "password": self.db_password,
        }
        return {name: value for name, value in given.items() if value is not None}

    def require(self, *names: str) -> None:
        """Raise ConfigError naming each of these variables that is not set."""
        missing = [name for name in names if getattr(self, name.lower()) is None]
        if missing:
            raise ConfigError([f"{name}: not set, but this command needs it" for name in missing])

    def secrets(self) -> tuple[str, ...]:
        """What must never be printed, longest first so that no tail of one is left over."""
        found = {
            value
            for variable in VARIABLES
            if variable.secret and (value := getattr(self, variable.name.lower()))
        }
        if self.database_url and "://" in self.database_url:
            # By hand: a password with odd characters is what urlsplit stumbles over.
            account = self.database_url.split("://", 1)[1].rpartition("@")[0]
            password = account.partition(":")[2]
            found |= {password, unquote(password)} - {""}
        # A very short one would blot out half of every sentence, and we never print them knowingly.
        return tuple(sorted((s for s in found if len(s) >= 6), key=len, reverse=True))


def load(
    environ: Mapping[str, str], env_file: Path | None = None, *, use_env_file: bool = True
) -> Config:
    """Read the settings; the environment wins over `env_file` (default `./.env` if present).

    Raises ConfigError with every problem: the variable, what was found, what was expected.
    """
    problems: list[str] = []
    from_file = _read_env_file(env_file, problems) if use_env_file else {}
    given = {**from_file, **environ}
    values = {v.name.lower(): _value(v, given, problems) for v in VARIABLES}
    values["embyproc_home"] = values["embyproc_home"] or default_home(environ)
    if values["db_host"] is None and values["database_url"] is None:
        partial = [name for name in ("DB_NAME", "DB_USER", "DB_PASSWORD") if given.get(name)]
        problems += [f"{name}: set, but DB_HOST is not; set both or neither" for name in partial]
    if values["watch_dir"] is not None and values["watch_dir"] == values["destination_dir"]:
        problems.append("DESTINATION_DIR: is WATCH_DIR itself; expected another folder")
    if problems:
        raise ConfigError(problems)
    return Config(**values)


def default_home(environ: Mapping[str, str]) -> Path:
    """Where the embedded database lives unless EMBYPROC_HOME says otherwise."""
    if os.geteuid() == 0:
        return Path("/var/lib/embyproc")
    data = environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local/share")
    return Path(data) / "embyproc"


def _read_env_file(env_file: Path | None, problems: list[str]) -> dict[str, str]:
    path = env_file or Path(".env")
    try:
        is_there = path.is_file()
    except OSError:
        is_there = False  # a folder that may not be searched: no file of ours
    if env_file is None and not is_there:
        return {}
    from dotenv import dotenv_values  # only where there is a file to read: start-up counts

    try:
        # No interpolation: a token or password may contain a dollar sign.
        found = dotenv_values(path, interpolate=False) if is_there else None
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{path}: cannot be read ({error})")
        return {}
    if found is None:
        problems.append(f"{path}: there is no such file; --env-file expects an existing one")
        return {}
    return {name: value for name, value in found.items() if value is not None}


def _value(variable: Variable, given: Mapping[str, str], problems: list[str]) -> Any:
    text = given.get(variable.name, "").strip()
    if variable.secret and (file_name := given.get(variable.name + "_FILE", "").strip()):
        if text:
            problems.append(f"{variable.name}: also given as {variable.name}_FILE; keep one")
        try:
            text = Path(file_name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not a text file"
            problems.append(f"{variable.name}_FILE: {file_name!r} cannot be read ({reason})")
            return None
    if not text:
        if variable.default is None:
            return None
        text = variable.default
    try:
        return variable.parse(text)
    except _Wrong as wrong:
        found = "a value (not shown)" if variable.secret else repr(text)
        problems.append(f"{variable.name}: found {found}, expected {wrong}")
        return None
