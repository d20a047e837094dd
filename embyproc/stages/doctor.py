"""doctor: proves that everything a run needs is there, and says how to mend what is not."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from embyproc.clients.emby import Emby
from embyproc.clients.wordpress import WordPress
from embyproc.config import Config
from embyproc.errors import ConfigError, EmbyprocError, EmbyRefused, ServiceDown, TokenRefused
from embyproc.files.place import name_limit
from embyproc.migrate import SchemaState
from embyproc.stages.emby_server import make_client, root_in_emby
from embyproc.stages.filing import read_aliases
from embyproc.stages.mounts import refuse_one_folder, refuse_unmounted_folder
from embyproc.store import Store

OK, WARN, FAIL = "ok", "warn", "fail"

_LEAST_FREE_BYTES = 1_000_000_000
_MOST_CLOCK_DIFFERENCE = timedelta(seconds=60)
_CRON_SILENCE = timedelta(minutes=10)
# A code that no source has: any answer about it proves that the source works.
_PROBE_CODE = "DOCTOR-000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: what was done, how it went, and what to do about it."""

    check: str
    result: str
    detail: str
    remedy: str = ""

    def as_json(self) -> dict[str, str]:
        return {
            "check": self.check,
            "result": self.result,
            "detail": self.detail,
            "remedy": self.remedy,
        }


def ok(check: str, detail: str) -> Finding:
    return Finding(check=check, result=OK, detail=detail)


def warn(check: str, detail: str, remedy: str) -> Finding:
    return Finding(check=check, result=WARN, detail=detail, remedy=remedy)


def fail(check: str, detail: str, remedy: str) -> Finding:
    return Finding(check=check, result=FAIL, detail=detail, remedy=remedy)


# -- folders -------------------------------------------------------------------------------


def check_folders(config: Config) -> Iterator[Finding]:
    for name, folder, must_write in (
        ("WATCH_DIR", config.watch_dir, False),
        ("DESTINATION_DIR", config.destination_dir, True),
    ):
        if folder is None:
            yield fail(name, "not set", f"set {name} in .env")
        else:
            yield _folder(name, str(folder), must_write)
    try:
        refuse_one_folder(config)
    except ConfigError as error:
        yield fail("folders", str(error), "mount or name another folder for one of them")
    if config.destination_dir is not None and config.destination_dir.is_dir():
        yield from _space(config)
    try:
        aliases = read_aliases(config)
        if config.aliases_file:
            yield ok("ALIASES_FILE", f"{len(aliases)} names")
    except ConfigError as error:
        yield fail("ALIASES_FILE", str(error), "mend the file, or unset ALIASES_FILE")


def check_mounts(store: Store, config: Config) -> Iterator[Finding]:
    """Are they the folders that the last run met?"""
    for name, folder in (
        ("WATCH_DIR", config.watch_dir),
        ("DESTINATION_DIR", config.destination_dir),
    ):
        if folder is not None and folder.is_dir():
            try:
                refuse_unmounted_folder(store, name, str(folder))
            except ConfigError as error:
                yield fail("mount", str(error), "mount the volume")


def _folder(name: str, folder: str, must_write: bool) -> Finding:
    try:
        entries = len(os.listdir(folder))
    except OSError as error:
        return fail(
            name,
            f"{folder}: {error.strerror}",
            "mount the volume, make the folder, or mend its name",
        )
    # A file is really made, on both sides: moving needs to remove the source too.
    try:
        with tempfile.NamedTemporaryFile(prefix=".embyproc-doctor-", dir=folder):
            pass
    except OSError as error:
        told = f"{folder} cannot be written: {error.strerror}"
        remedy = "give this account write access to the share (PUID/PGID in Docker)"
        return fail(name, told, remedy) if must_write else warn(name, told, remedy)
    return ok(name, f"{folder}: readable and writable, {entries} entries")


def _space(config: Config) -> Iterator[Finding]:
    destination = str(config.destination_dir)
    free = shutil.disk_usage(destination).free
    if free < _LEAST_FREE_BYTES:
        yield warn("free space", f"{free:,} bytes at the destination", "make room there")
    else:
        yield ok("free space", f"{free:,} bytes at the destination")
    limit = name_limit(destination)
    yield ok("name limit", f"{limit} bytes a name" + (", an encrypted share" * (limit < 200)))
    if config.watch_dir is not None and config.watch_dir.is_dir():
        same = os.stat(destination).st_dev == os.stat(config.watch_dir).st_dev
        how = "one file system: files are renamed" if same else "two file systems: files are copied"
        yield ok("moving", how)


# -- database ------------------------------------------------------------------------------


def check_database(store: Store, state: SchemaState) -> Iterator[Finding]:
    version = store.looks.server_version()
    if version < 130000:
        yield fail("database", f"PostgreSQL {version // 10000}", "use PostgreSQL 13 or newer")
    else:
        yield ok("database", f"PostgreSQL {version // 10000}, reachable")
    if state.current < state.latest:
        told = f"at version {state.current}, this program needs {state.latest}"
        yield fail("schema", told, "make a backup, then run: embyproc migrate")
    elif state.current > state.latest:
        yield fail(
            "schema", f"at version {state.current}, newer than this program", "update embyproc"
        )
    else:
        yield ok("schema", f"version {state.current}")
    difference = abs(datetime.now(UTC) - store.looks.server_time())
    if difference > _MOST_CLOCK_DIFFERENCE:
        told = f"this machine and the database differ by {difference.total_seconds():.0f} s"
        yield fail("clock", told, "switch on time synchronisation (NTP) on both machines")
    else:
        yield ok("clock", "this machine and the database agree")


def check_cron(store: Store) -> Finding:
    ended = store.runs.last_good_end()
    if ended is None:
        return warn("cron", "no run has ended well yet", "start `embyproc run` every minute")
    silence = store.clock.now() - ended
    if silence > _CRON_SILENCE:
        told = f"the last good run ended {silence.total_seconds() / 60:.0f} minutes ago"
        return fail("cron", told, "look at the task scheduler: it should start `embyproc run`")
    return ok("cron", f"the last good run ended {silence.total_seconds():.0f} s ago")


# -- services ------------------------------------------------------------------------------


def check_wordpress(store: Store, config: Config) -> Iterator[Finding]:
    if config.api_base_url is None or config.api_token is None:
        yield fail("WordPress", "API_BASE_URL or API_TOKEN is not set", "set both in .env")
        return
    client = WordPress(config.api_base_url, config.api_refresh_url)
    try:
        client.probe()
        yield ok("WordPress", "reachable")
    except ServiceDown as error:
        yield fail("WordPress", str(error), "start the site, or mend API_BASE_URL")
        return
    token = store.services.token("wordpress", config.api_token)
    for source in config.api_search_order:
        try:
            client.search(source, _PROBE_CODE, token.access_token, (_PROBE_CODE,))
            yield ok(f"source {source}", "answers, token accepted")
        except TokenRefused as error:
            remedy = "renew API_TOKEN in .env"
            if config.api_refresh_token:
                remedy = "the next process renews it; if that fails, log in again for API_TOKEN"
            yield fail("token", str(error), remedy)
            break
        except ServiceDown as error:
            yield fail(f"source {source}", str(error), "check API_BASE_URL and API_SEARCH_ORDER")
    if token.expires_at is not None:
        yield ok("token", f"expires {token.expires_at:%Y-%m-%d %H:%M} UTC, renewed by itself")
    elif config.api_refresh_token is None:
        yield warn("token", "API_REFRESH_TOKEN is not set", "set it, or the token ends in a day")


def check_emby(config: Config) -> Iterator[Finding]:
    if config.emby_base_url is None or config.emby_api_key is None:
        yield fail("Emby", "EMBY_BASE_URL or EMBY_API_KEY is not set", "set both in .env")
        return
    client = make_client(config)
    try:
        server = client.connect()
        yield ok("Emby", f"{server.kind} {server.version}, key accepted")
        client.user_id()
    except (ServiceDown, EmbyRefused) as error:
        remedy = "mend EMBY_API_KEY" if "key" in str(error) else "start Emby, or mend EMBY_BASE_URL"
        yield fail("Emby", str(error), remedy)
        return
    for check in (_parent_folder, _library):
        try:
            yield from check(client, config)
        except EmbyprocError as error:
            yield fail("Emby", str(error), "see Emby's own log")


def _parent_folder(client: Emby, config: Config) -> Iterator[Finding]:
    folder = config.emby_parent_folder_id
    try:
        found = client.read(folder)
    except EmbyRefused:
        told = f"the user {client.user_id()} sees no folder {folder}"
        remedy = "set EMBY_PARENT_FOLDER_ID to the library's id, EMBY_USER_ID to an administrator"
        yield fail("parent folder", told, remedy)
        return
    yield ok("parent folder", f"{folder} is {found.get('Name')!r}")


def _library(client: Emby, config: Config) -> Iterator[Finding]:
    root = root_in_emby(config)
    libraries = client.libraries()
    library = next((one for one in libraries if one.holds(root)), None)
    if library is None:
        places = ", ".join(place for one in libraries for place in one.locations) or "none"
        told = f"no library of Emby holds {root}; it has {places}"
        remedy = "set EMBY_LIBRARY_PATH to what DESTINATION_DIR is called where Emby runs"
        yield fail("path translation", told, remedy)
        return
    yield ok("path translation", f"{config.destination_dir} is {root} in {library.name!r}")
    if library.kind == "movies":
        told = f"{library.name!r} is a movies library: Emby may merge `Name/Name - ...` files"
        yield warn("library kind", told, "make it a library of home videos")
    else:
        yield ok("library kind", library.kind)


def examine(
    config: Config, open_store: Callable[[], tuple[Store, SchemaState]]
) -> Iterator[Finding]:
    """Every check, one after the other; what cannot be asked is said to be so."""
    yield ok("settings", "every value can be read")
    yield from check_folders(config)
    try:
        store, state = open_store()
    except EmbyprocError as error:
        yield fail("database", str(error), "start the database, or mend DATABASE_URL")
        yield from check_emby(config)
        return
    yield from check_database(store, state)
    if state.current == state.latest:
        yield from check_mounts(store, config)
        yield check_cron(store)
        yield from check_wordpress(store, config)
    yield from check_emby(config)
