"""Dependencies point one way, and the light path stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import netsim

PACKAGE = Path(netsim.__file__).parent
HOMES = {"simpy": {"cell", "simulation.py"}, "torch": {"learning"}, "torchvision": {"learning"}}


def imports(path: Path) -> set[str]:
    """Every module that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def files(*parts: str) -> list[Path]:
    return sorted(PACKAGE.joinpath(*parts).rglob("*.py"))


def test_simpy_and_torch_have_one_home():
    for path in files():
        home = path.relative_to(PACKAGE).parts[0]
        for name in {module.split(".")[0] for module in imports(path)} & HOMES.keys():
            assert home in HOMES[name], f"{path.relative_to(PACKAGE)} imports {name}"


def test_physics_leans_on_numpy_and_scipy_alone():
    allowed = {"__future__", "collections.abc", "math", "numpy", "scipy", "scipy.special", "netsim.arrays"}
    assert imports(PACKAGE / "physics.py") <= allowed


def test_who_may_know_whom():
    allowed = {
        "allocation": {"arrays", "errors", "physics", "allocation", "units", "plugins"},
        "analysis": {"analysis", "arrays", "errors", "files", "run", "trace", "units"},
        "cell": {"arrays", "agenda", "state", "trace", "cell"},
    }
    for layer, may in allowed.items():
        for path in files(layer):
            known = {module.split(".")[1] for module in imports(path) if module.startswith("netsim.")}
            assert known <= may, f"{path.relative_to(PACKAGE)} knows {sorted(known - may)}"


def loaded_by(code: str) -> set[str]:
    """The top-level modules that are there after running this."""
    program = f"import sys\n{code}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_importing_netsim_and_asking_for_help_load_nothing_heavy():
    heavy = {"torch", "scipy", "sklearn", "polars", "matplotlib", "plotly", "networkx", "numpy", "pydantic"}
    help_page = ("import netsim, netsim.cli\nsys.argv = ['netsim', '--help']\n"
                 "try: netsim.cli.main()\nexcept SystemExit: pass")
    assert not loaded_by(help_page) & heavy


def test_a_scenario_is_checked_without_torch():
    program = ("from netsim import load_scenario\nfrom netsim.simulation import prepare\n"
               "prepare(load_scenario('paper'), learning=True)")
    assert not loaded_by(program) & {"torch", "torchvision", "sklearn", "matplotlib", "plotly"}


def test_every_package_is_installed():
    import tomllib

    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    listed = set(project["tool"]["setuptools"]["packages"])
    found = {".".join(("netsim", *path.parent.relative_to(PACKAGE).parts)) for path in PACKAGE.rglob("__init__.py")}
    assert found <= listed
