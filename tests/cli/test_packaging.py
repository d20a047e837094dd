"""The files beside the program: wheel, Dockerfile, compose, crontab, README."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml
from dockerfile_parse import DockerfileParser

from embyproc.cli import COMMANDS
from embyproc.config import VARIABLES
from embyproc.migrate import available

ROOT = Path(__file__).parents[2]


def site_packages(python: Path) -> str:
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_wheel_installed_elsewhere_migrates_and_serves_status(
    tmp_path: Path, empty_database_url: str
) -> None:
    """A wheel in a virtual environment of its own; its dependencies are those of this one."""
    source = tmp_path / "source"
    for name in ("embyproc", "migrations"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.cfg", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(source)],
        check=True, capture_output=True, timeout=110,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("embyproc-*.whl")
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel)],
        check=True, capture_output=True, timeout=110,
    )  # fmt: skip
    # This test's own environment has embyproc as an editable install; only its libraries are lent.
    lent = tmp_path / "lent"
    lent.mkdir()
    for entry in Path(site_packages(Path(sys.executable))).iterdir():
        if "embyproc" not in entry.name and entry.suffix != ".pth":
            (lent / entry.name).symlink_to(entry)
    variables = {
        "PATH": os.environ["PATH"],
        "DATABASE_URL": empty_database_url,
        "PYTHONPATH": str(lent),
    }

    def run(*words: str) -> str:
        done = subprocess.run(
            [environment / "bin" / "embyproc", *words],
            capture_output=True, text=True, timeout=60, cwd=tmp_path, env=variables, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert f"version {available()[-1].version}" in run("migrate")
    assert "pending" in run("status")
    where = subprocess.run(
        [python, "-c", "import embyproc; print(embyproc.__file__)"],
        capture_output=True, text=True, cwd=tmp_path, env=variables, check=True,
    )  # fmt: skip
    assert where.stdout.startswith(str(environment)), "the wheel was not what ran"


def test_setup_lists_every_package() -> None:
    text = (ROOT / "setup.cfg").read_text()
    for init in (ROOT / "embyproc").rglob("__init__.py"):
        package = ".".join(init.parent.relative_to(ROOT).parts)
        assert re.search(rf"^    {re.escape(package)}$", text, re.MULTILINE), package


def test_dockerfile(tmp_path: Path) -> None:
    parser = DockerfileParser(path=str(tmp_path), cache_content=True)
    parser.content = (ROOT / "Dockerfile").read_text()
    steps: list[tuple[str, str]] = [(s["instruction"], s["value"]) for s in parser.structure]
    names = [name for name, _ in steps]
    assert names.count("FROM") == 2
    assert parser.is_multistage
    assert all("slim" in image for image in parser.parent_images)
    assert dict(steps)["USER"] == "${UID}:${GID}"
    assert {"ARG", "HEALTHCHECK"} <= set(names)
    assert "status" in dict(steps)["HEALTHCHECK"]
    for name, value in steps:
        if name == "COPY" and not value.startswith("--from"):
            *sources, _ = value.split()
            assert all((ROOT / source).exists() for source in sources), value


def test_dockerfile_has_no_lint() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [linter, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_compose_file() -> None:
    services: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    program = services["embyproc"]
    assert program["init"] is True
    targets = {volume.rpartition(":")[2] for volume in program["volumes"]}
    assert targets == {"/watch", "/destination"}
    known = {variable.name for variable in VARIABLES}
    assert set(program["environment"]) <= known
    assert program["environment"]["DB_HOST"] in services


def crontab_lines() -> list[str]:
    lines = (ROOT / "crontab.example").read_text().splitlines()
    jobs = [line.removeprefix("#") for line in lines]
    return [line for line in jobs if re.match(r"[*0-9]", line)]


@pytest.mark.parametrize("line", crontab_lines())
def test_crontab_line(line: str) -> None:
    fields = line.split(None, 5)
    assert all(re.fullmatch(r"\*|[0-9]+(,[0-9]+)*", field) for field in fields[:5])
    assert "%" not in fields[5], "cron takes it for a new line"
    match = re.fullmatch(r'out=\$\((.*) 2>&1\) \|\| echo "\$out"', fields[5])
    assert match is not None
    words = shlex.split(match[1])
    # The absolute path: cron's PATH is minimal.
    docker = ["/usr/local/bin/docker", "exec", "embyproc", "embyproc"]
    with_pip = ["/opt/embyproc/bin/embyproc", "--env-file", "/opt/embyproc/.env"]
    start = docker if "docker" in line else with_pip
    assert words[: len(start)] == start
    assert words[len(start)] in COMMANDS


def test_readme_has_every_command_variable_and_exit_code() -> None:
    text = (ROOT / "README.md").read_text()
    for command in COMMANDS:
        assert f"`embyproc {command}" in text, command
    for variable in VARIABLES:
        assert f"`{variable.name}`" in text, variable.name
    for code in range(4):
        assert f"\n| {code} | " in text
    mentioned = set(re.findall(r"`embyproc ([a-z-]+)", text))
    assert mentioned <= set(COMMANDS)
