"""The architecture, read from the imports: no arrow points up, each library has one home."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "embyproc"
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}

# A module may import modules of a smaller number only; equal numbers only inside one package.
LAYERS = {
    "embyproc": 0,
    "embyproc.errors": 0,
    "embyproc.models": 0,
    "embyproc.cleaning": 1,
    "embyproc.policy": 1,
    "embyproc.config": 1,
    "embyproc.watching": 1,
    "embyproc.extract": 1,
    "embyproc.naming": 1,
    "embyproc.presenting": 1,
    "embyproc.metrics": 1,
    "embyproc.log": 1,
    "embyproc.liveness": 2,
    "embyproc.embedded": 2,
    "embyproc.files": 2,
    "embyproc.clients": 2,
    "embyproc.demo": 3,
    "embyproc.store": 2,
    "embyproc.report": 2,
    "embyproc.migrate": 3,
    "embyproc.stages": 4,
    "embyproc.cli": 5,
    "embyproc.__main__": 6,
}

HOMES = {
    "psycopg2": ("embyproc.store",),
    "requests": ("embyproc.clients",),
    "tenacity": ("embyproc.clients",),
    "rich": ("embyproc.report",),
    "PIL": ("embyproc.clients",),
    "titlecase": ("embyproc.naming",),
    "dotenv": ("embyproc.config",),
    "click": ("embyproc.cli",),
}


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name for name in names if name in MODULES} or {node.module or ""}
    return found


def home(module: str) -> str:
    """The entry of LAYERS a module belongs to."""
    while module not in LAYERS:
        module = module.rpartition(".")[0]
    return module


def within(module: str, homes: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(place + ".") for place in homes)


def test_every_module_belongs_somewhere() -> None:
    assert all(home(module) != "embyproc" for module in MODULES if module != "embyproc")


@pytest.mark.parametrize("module", MODULES)
def test_no_arrow_points_up(module: str) -> None:
    mine = home(module)
    for imported in imports_of(MODULES[module]):
        if within(imported, ("embyproc",)) and home(imported) != mine:
            assert LAYERS[home(imported)] < LAYERS[mine], f"{module} imports {imported}"


@pytest.mark.parametrize("module", MODULES)
def test_each_library_has_one_home(module: str) -> None:
    for imported in imports_of(MODULES[module]):
        top = imported.partition(".")[0]
        assert top not in HOMES or within(module, HOMES[top]), f"{module} imports {imported}"


def test_models_and_errors_import_no_sibling() -> None:
    for module in ("embyproc.models", "embyproc.errors"):
        assert not [name for name in imports_of(MODULES[module]) if within(name, ("embyproc",))]
