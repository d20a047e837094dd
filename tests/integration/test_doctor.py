"""doctor finds what is wrong and names the remedy."""

import json
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from installation import Installation
from prometheus_client.parser import text_string_to_metric_families

from embyproc.demo.emby import StandInEmby


def diagnose(installation: Installation) -> tuple[int, dict[str, dict[str, str]]]:
    done = installation.command("doctor", "--json")
    assert done.stderr == ""
    findings: list[dict[str, str]] = json.loads(done.stdout)
    return done.returncode, {f["check"]: f for f in findings if f["result"] != "ok"}


def test_all_well(with_emby: Installation) -> None:
    with_emby.command("retry")
    code, bad = diagnose(with_emby)
    assert (code, bad) == (0, {})
    plain = with_emby.command("doctor")
    assert plain.stdout.endswith("all well\n")


def stop_site(installation: Installation) -> None:
    installation.site.stop()


def stop_emby(installation: Installation) -> None:
    assert installation.emby is not None
    installation.emby.stop()


def remove_destination(installation: Installation) -> None:
    installation.destination.rmdir()


def old_schema(installation: Installation) -> None:
    installation.store.database.execute(
        "DELETE FROM embyproc_migrations WHERE version = (SELECT max(version) "
        "FROM embyproc_migrations)"
    )


def new_schema(installation: Installation) -> None:
    installation.store.database.execute(
        "INSERT INTO embyproc_migrations (version, name) VALUES (999, 'later')"
    )


def stop_cron(installation: Installation) -> None:
    installation.store.database.execute(
        "UPDATE runs SET finished_at = finished_at - interval '1 hour'"
    )


def break_aliases(installation: Installation) -> None:
    path = installation.watch.parent / "aliases.toml"
    path.write_text("= nonsense")
    installation.variables["ALIASES_FILE"] = str(path)


def variable(name: str, value: str) -> Callable[[Installation], None]:
    def plant(installation: Installation) -> None:
        installation.variables[name] = value

    return plant


@pytest.mark.parametrize(
    ("plant", "check", "remedy"),
    [
        (variable("API_TOKEN", "wrong"), "token", "API_TOKEN"),
        (variable("API_BASE_URL", "http://127.0.0.1:1/x"), "WordPress", "API_BASE_URL"),
        (variable("API_SEARCH_ORDER", "nosuch"), "source nosuch", "API_SEARCH_ORDER"),
        (stop_site, "WordPress", "start the site"),
        (variable("EMBY_API_KEY", "wrong"), "Emby", "EMBY_API_KEY"),
        (variable("EMBY_BASE_URL", "http://127.0.0.1:1"), "Emby", "EMBY_BASE_URL"),
        (stop_emby, "Emby", "start Emby"),
        (variable("EMBY_LIBRARY_PATH", "/mnt/lib"), "path translation", "EMBY_LIBRARY_PATH"),
        (variable("EMBY_PARENT_FOLDER_ID", "777"), "parent folder", "EMBY_PARENT_FOLDER_ID"),
        (remove_destination, "DESTINATION_DIR", "make the folder"),
        (variable("WATCH_DIR", "/no/such/folder"), "WATCH_DIR", "mount the volume"),
        (variable("DESTINATION_DIR", "/proc"), "DESTINATION_DIR", "write access"),
        (old_schema, "schema", "embyproc migrate"),
        (new_schema, "schema", "update embyproc"),
        (stop_cron, "cron", "task scheduler"),
        (break_aliases, "ALIASES_FILE", "mend the file"),
        (variable("DATABASE_URL", "postgresql://u:hunter2@127.0.0.1:1/q"), "database", "start"),
        (variable("MAX_RETRIES", "many"), "settings", "mend the value"),
    ],
)
def test_planted_faults(
    with_emby: Installation, plant: Callable[[Installation], None], check: str, remedy: str
) -> None:
    with_emby.command("retry")
    plant(with_emby)
    code, bad = diagnose(with_emby)
    assert code == 2
    assert bad[check]["result"] == "fail"
    assert remedy in bad[check]["remedy"]
    assert "hunter2" not in str(bad)


def test_a_clock_that_is_ten_minutes_off(with_emby: Installation) -> None:
    with_emby.command("retry")
    program = (
        "import freezegun, datetime, sys\n"
        "now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=10)\n"
        "with freezegun.freeze_time(now, tick=True):\n"
        "    from embyproc.cli import main\n"
        "    sys.argv[1:] = ['doctor', '--json']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=with_emby.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    (clock,) = [f for f in json.loads(done.stdout) if f["check"] == "clock"]
    assert clock["result"] == "fail"
    assert "NTP" in clock["remedy"]


def test_a_movies_library_is_a_warning(installation: Installation) -> None:
    with StandInEmby(
        installation.destination, api_key="secret-emby-key-1", library_kind="movies"
    ) as emby:
        installation.emby = emby
        installation.command("retry")
        code, bad = diagnose(installation)
    assert code == 0
    assert bad["library kind"]["result"] == "warn"
    assert "home videos" in bad["library kind"]["remedy"]


def test_metrics_are_understood_by_prometheus(with_emby: Installation) -> None:
    with_emby.put("ABC-123.mp4", 'odd "name\\".mp4')
    with_emby.command("run")
    stop_emby(with_emby)
    with_emby.put("ABC-125.mp4")
    with_emby.command("run")
    text = with_emby.command("metrics").stdout
    families = {family.name: family for family in text_string_to_metric_families(text)}
    items = {s.labels["status"]: s.value for s in families["embyproc_items"].samples}
    assert (items["completed"], items["moved"], items["error"]) == (1, 1, 1)
    assert families["embyproc_given_up"].samples[0].value == 1
    assert families["embyproc_service_up"].samples[0].labels == {"service": "emby"}
    assert families["embyproc_moved_bytes"].samples[0].value > 0
    stages = {
        s.labels["stage"] for s in families["embyproc_last_success_timestamp_seconds"].samples
    }
    assert stages == {"run"}
    path = with_emby.watch.parent / "embyproc.prom"
    assert with_emby.command("metrics", "--textfile", str(path)).stdout == ""
    assert "embyproc_items" in path.read_text()
    assert [p.name for p in path.parent.iterdir() if p.name.startswith(".")] == []
    assert with_emby.command("metrics", "--textfile", "/proc/x/y").returncode == 2


def test_a_destination_that_is_not_mounted(with_emby: Installation) -> None:
    with_emby.put("ABC-123.mp4")
    with_emby.file_everything()
    hidden = with_emby.destination.with_name("the volume")
    with_emby.destination.rename(hidden)
    with_emby.destination.mkdir()
    done = with_emby.command("doctor")
    assert done.returncode == 2
    assert "DESTINATION_DIR" in done.stdout
    assert "seems not to be mounted" in done.stdout


def test_the_time_of_the_last_good_run_is_told_to_the_second(with_emby: Installation) -> None:
    with_emby.scan()
    text = with_emby.command("metrics").stdout
    (line,) = [
        line
        for line in text.splitlines()
        if line.startswith("embyproc_last_success_timestamp_seconds{") and '"scan"' in line
    ]
    assert abs(float(line.split()[-1]) - time.time()) < 60
