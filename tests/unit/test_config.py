import os
from pathlib import Path

import pytest

from embyproc.config import VARIABLES, load
from embyproc.errors import ConfigError


def problems(environ: dict[str, str], env_file: Path | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(environ, env_file)
    return caught.value.problems


def test_defaults() -> None:
    config = load({})
    assert config.video_extensions == {".mp4", ".mkv", ".avi", ".wmv"}
    assert config.stability_min_checks == 2
    assert config.emby_scan_retry_delays == (2, 4, 8, 16, 32, 64)
    assert config.retry_backoff_minutes == (1, 5, 15)
    assert config.max_retries == 3
    assert config.emby_parent_folder_id == "4"
    assert config.watch_dir is None
    assert config.uses_embedded_database


def test_values_are_read() -> None:
    config = load(
        {
            "WATCH_DIR": "/volume3/downloads",
            "VIDEO_EXTENSIONS": "mp4, .MKV ,ts",
            "EMBY_SCAN_RETRY_DELAYS": "0.5,1",
            "EMBY_BASE_URL": "http://emby:8096/emby/",
            "DB_HOST": "nas",
            "DB_PASSWORD": "pass",
            "DB_NAME": "queue",
        }
    )
    assert config.watch_dir == Path("/volume3/downloads")
    assert config.video_extensions == {".mp4", ".mkv", ".ts"}
    assert config.emby_scan_retry_delays == (0.5, 1)
    assert config.emby_base_url == "http://emby:8096/emby"
    assert not config.uses_embedded_database
    assert config.database_parameters() == {
        "host": "nas",
        "port": 5432,
        "dbname": "queue",
        "password": "pass",
    }


def test_empty_value_means_default() -> None:
    assert load({"MAX_RETRIES": "", "WATCH_DIR": " "}).max_retries == 3


def test_every_problem_is_reported_at_once() -> None:
    found = problems(
        {
            "WATCH_DIR": "downloads",
            "MAX_RETRIES": "three",
            "DB_PORT": "70000",
            "EMBY_BASE_URL": "emby:8096",
            "RETRY_BACKOFF_MINUTES": "1,,5",
            "VIDEO_EXTENSIONS": "/",
            "DATABASE_URL": "mysql-secret",
            "API_SEARCH_ORDER": "a/../b",
        }
    )
    assert [problem.split(":")[0] for problem in found] == [
        "WATCH_DIR",
        "VIDEO_EXTENSIONS",
        "API_SEARCH_ORDER",
        "EMBY_BASE_URL",
        "MAX_RETRIES",
        "RETRY_BACKOFF_MINUTES",
        "DATABASE_URL",
        "DB_PORT",
    ]
    assert "WATCH_DIR: found 'downloads', expected an absolute path" in found[0]
    assert not any("mysql-secret" in problem for problem in found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_RETRIES", "-1"),
        ("MAX_RETRIES", "1_000"),
        ("MAX_RETRIES", "٣"),
        ("STABILITY_MIN_CHECKS", "0"),
        ("STABILITY_MIN_AGE", "1.5"),
        ("PROCESS_CONCURRENCY", "0"),
        ("EMBY_SCAN_RETRY_DELAYS", "nan"),
        ("EMBY_SCAN_RETRY_DELAYS", "inf"),
        ("EMBY_SCAN_RETRY_DELAYS", "-1"),
        ("RETRY_BACKOFF_MINUTES", ","),
        ("EMBY_BASE_URL", "http://"),
        ("EMBY_BASE_URL", "http://host:port"),
        ("API_BASE_URL", "http://[::1"),
        ("DESTINATION_DIR", "./films"),
        ("WATCH_DIR", "/bad\udcff"),
        ("WATCH_DIR", "/nul\0"),
        ("STABILITY_MIN_AGE", "99999999999999"),
        ("MAX_RETRIES", "9" * 5000),
        ("VIDEO_EXTENSIONS", ",,"),
        ("DATABASE_URL", "localhost"),
    ],
)
def test_wrong_values(name: str, value: str) -> None:
    (problem,) = problems({name: value})
    assert problem.startswith(f"{name}: found ")
    assert "expected" in problem


def test_parts_of_a_server_without_its_host() -> None:
    assert problems({"DB_NAME": "queue"}) == (
        "DB_NAME: set, but DB_HOST is not; set both or neither",
    )


def test_env_file(tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_text('# comment\nexport MAX_RETRIES="7"\nAPI_TOKEN=a$b${HOME}\nDB_HOST=file\n')
    config = load({"DB_HOST": "environment"}, file)
    assert config.max_retries == 7
    assert config.api_token == "a$b${HOME}"
    assert config.db_host == "environment"


def test_dot_env_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("MAX_RETRIES=9\n")
    monkeypatch.chdir(tmp_path)
    assert load({}).max_retries == 9


def test_missing_or_unreadable_env_file(tmp_path: Path) -> None:
    assert "no such file" in problems({}, tmp_path / "none")[0]
    broken = tmp_path / "broken"
    broken.write_bytes(b"MAX_RETRIES=\xff\n")
    assert "cannot be read" in problems({}, broken)[0]


def test_secret_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("s3cret\n")
    assert load({"EMBY_API_KEY_FILE": str(file)}).emby_api_key == "s3cret"
    assert problems({"EMBY_API_KEY_FILE": str(tmp_path / "none")})[0].startswith(
        "EMBY_API_KEY_FILE: "
    )
    both = {"EMBY_API_KEY": "x", "EMBY_API_KEY_FILE": str(file)}
    assert problems(both) == ("EMBY_API_KEY: also given as EMBY_API_KEY_FILE; keep one",)


def test_require_names_each_missing_variable() -> None:
    with pytest.raises(ConfigError) as caught:
        load({"WATCH_DIR": "/w"}).require("WATCH_DIR", "EMBY_API_KEY", "API_TOKEN")
    assert [p.split(":")[0] for p in caught.value.problems] == ["EMBY_API_KEY", "API_TOKEN"]


def test_a_very_short_secret_does_not_blot_out_every_sentence() -> None:
    assert load({"DB_HOST": "h", "DB_PASSWORD": "emby"}).secrets() == ()


def test_the_two_folders_may_not_be_one() -> None:
    assert problems({"WATCH_DIR": "/a", "DESTINATION_DIR": "/a"})[0].startswith("DESTINATION_DIR: ")


@pytest.mark.parametrize("password", ["p[word", "a@b:cdef", "x%5Byyy"])
def test_an_odd_password_is_a_secret_too(password: str) -> None:
    config = load({"DATABASE_URL": f"postgresql://u:{password}@h/d"})
    assert password in config.secrets()


def test_secrets_include_the_password_inside_the_url() -> None:
    config = load({"DATABASE_URL": "postgresql://u:hunter2@h/d", "API_TOKEN": "a token"})
    assert {"hunter2", "a token", "postgresql://u:hunter2@h/d"} == set(config.secrets())


def test_env_example_documents_every_variable_with_its_default() -> None:
    text = Path(__file__).parents[2].joinpath(".env.example").read_text()
    shown = dict(
        line.lstrip("#").strip().split("=", 1)
        for line in text.splitlines()
        if "=" in line and line.lstrip("#").strip().split("=")[0].isupper()
    )
    names = {variable.name for variable in VARIABLES}
    assert names <= shown.keys()
    for variable in VARIABLES:
        if variable.default is not None:
            assert shown[variable.name] == variable.default, variable.name


def test_default_home_is_not_inside_a_private_home_for_root() -> None:
    home = load({"XDG_DATA_HOME": "/data"}).embyproc_home
    expected = "/var/lib/embyproc" if os.geteuid() == 0 else "/data/embyproc"
    assert home == Path(expected)


@pytest.mark.parametrize("text", [".mp4,.mkv", "mp4 mkv", " MP4 , .mkv ", "mp4,,mkv"])
def test_endings_may_be_separated_as_one_likes(text: str) -> None:
    assert load({"VIDEO_EXTENSIONS": text}).video_extensions == {".mp4", ".mkv"}
