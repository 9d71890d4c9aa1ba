"""Dependencies point one way, and the light path stays light."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import networkx as nx

import netsim

PACKAGE = Path(netsim.__file__).parent
HOMES = {"simpy": {"cell", "server", "session"}, "torch": {"learning", "models"}, "torchvision": {"learning"},
         "flwr": {"flower"}}

# The whole matrix: who knows whom. A layer is a folder of netsim, or a module beside them; models lie beside netsim.
KNOWS = {
    "base": set(),
    "physics": {"base"},
    "scenario": {"base"},
    "allocation": {"base", "physics"},
    "models": {"base"},
    "executors": {"base"},
    "devices": {"allocation", "base", "physics", "scenario"},
    "environment": {"base", "devices", "physics", "scenario"},
    "learning": {"base", "executors", "devices", "models", "scenario"},
    "selection": {"allocation", "base", "devices", "learning", "physics"},
    "trace": {"base"},
    "cell": {"allocation", "base", "physics", "trace", "environment"},
    "server": {"allocation", "base", "cell", "devices", "learning", "scenario", "selection", "trace", "environment"},
    # of cell and server, how the band is shared, and how a round is played again
    "analysis": {"allocation", "base", "cell", "validation", "run", "server", "trace"},
    "report": {"analysis", "base", "run", "trace"},
    "run": {"base", "scenario", "trace"},
    "sample_problem": {"allocation", "base", "devices", "learning", "scenario", "environment"},
    "validation": {"allocation", "base", "cell", "devices", "learning", "scenario", "selection", "server",
                   "environment"},
    "session": {"base", "devices", "learning", "run", "scenario", "server", "trace"},
    "simulation": {"base", "learning", "validation", "run", "scenario", "selection", "server", "session"},
    "flower": {"base", "cell", "devices", "executors", "learning", "validation", "run", "scenario", "server",
               "session", "trace"},
    "calibration": {"base", "report", "run", "scenario", "simulation", "trace"},
    "sweep": {"analysis", "base", "executors", "learning", "validation", "report", "run", "scenario", "selection",
              "simulation", "trace"},
    "paper": {"allocation", "base", "cell", "devices", "executors", "learning", "models", "sample_problem", "run",
              "scenario", "selection", "server", "simulation", "sweep"},
    "lab": {"allocation", "analysis", "base", "cell", "devices", "learning", "sample_problem", "report", "scenario",
            "server", "trace", "environment"},
    "cli": {"allocation", "analysis", "base", "calibration", "executors", "flower", "lab", "learning", "paper",
            "validation", "sample_problem", "report", "run", "scenario", "server", "simulation", "sweep", "trace"},
}
LIGHT = {"__init__", "__main__"}      # the door: they name what they open
MOST_LINES = 400


def imports(path: Path) -> set[str]:
    """Every module that a file imports, wherever in it, also for types alone."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update({node.module} if node.module != "netsim" else {f"netsim.{alias.name}" for alias in node.names})
    return found


def files() -> list[tuple[str, Path]]:
    """Every module with the layer that it is in."""
    ours = [(path.relative_to(PACKAGE).parts[0].removesuffix(".py"), path) for path in sorted(PACKAGE.rglob("*.py"))]
    beside = [("models", path) for path in sorted((PACKAGE.parent / "models").glob("*.py"))]
    return [(layer, path) for layer, path in ours + beside if layer not in LIGHT]


def test_simpy_and_torch_have_one_home():
    for layer, path in files():
        for name in {module.split(".")[0] for module in imports(path)} & HOMES.keys():
            assert layer in HOMES[name], f"{path.name} of {layer} imports {name}"


def test_who_knows_whom():
    found: dict[str, set[str]] = {layer: set() for layer in KNOWS}
    for layer, path in files():
        known = {module.split(".")[1] for module in imports(path) if module.startswith("netsim.")} - {layer}
        assert known <= KNOWS[layer], f"{path.name} of {layer} knows {sorted(known - KNOWS[layer])}"
        found[layer] |= known
    assert found == KNOWS, "the matrix says more than there is"


def test_no_room_leads_back_to_itself():
    cycles = list(nx.simple_cycles(nx.DiGraph([(layer, other) for layer, known in KNOWS.items() for other in known])))
    assert cycles == []


def test_the_search_for_cycles_finds_one():
    with_one = {**KNOWS, "trace": KNOWS["trace"] | {"run"}}
    graph = nx.DiGraph([(layer, other) for layer, known in with_one.items() for other in known])
    assert {"trace", "run"} <= {layer for cycle in nx.simple_cycles(graph) for layer in cycle}


def test_one_name_one_class():
    homes: dict[str, list[str]] = {}
    for _, path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(path.name)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_no_module_has_grown_out_of_its_name():
    for _, path in files():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        assert lines <= MOST_LINES, f"{path.name} has {lines} lines"
    assert len((PACKAGE / "simulation.py").read_text(encoding="utf-8").splitlines()) < 150


def test_netsim_itself_keeps_few_modules():
    assert len(list(PACKAGE.glob("*.py"))) <= 8


def test_physics_leans_on_numpy_and_scipy_alone():
    allowed = {"__future__", "collections.abc", "dataclasses", "math", "typing", "numpy", "scipy", "scipy.special",
               "netsim.base.types"}
    assert imports(PACKAGE / "physics.py") <= allowed


def loaded_by(code: str) -> set[str]:
    """The top-level modules that are there after running this."""
    program = f"import sys\n{code}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_importing_netsim_and_asking_for_help_load_nothing_heavy():
    heavy = {"torch", "scipy", "sklearn", "polars", "matplotlib", "networkx", "numpy", "pydantic"}
    help_page = ("import netsim, netsim.cli\nsys.argv = ['netsim', '--help']\n"
                 "try: netsim.cli.main()\nexcept SystemExit: pass")
    assert not loaded_by(help_page) & heavy


def test_a_scenario_is_checked_without_torch():
    program = ("from netsim import load_scenario\nfrom netsim.validation import validate\n"
               "validate(load_scenario('paper'), learning=True)")
    assert not loaded_by(program) & {"torch", "torchvision", "sklearn", "matplotlib"}


def test_simulating_imports_neither_analysis_nor_report():
    program = ("import sys, netsim\nnetsim.simulate('tiny').summary\n"
               "print(*[name for name in sys.modules if name.startswith(('netsim.analysis', 'netsim.report'))])")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_simulate_is_a_function_however_it_is_imported():
    program = ("import netsim.simulation, netsim, types\nfrom netsim import simulate\n"
               "assert type(simulate) is types.FunctionType and netsim.simulate is simulate")
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_package_is_installed() -> None:
    root = Path(__file__).parents[1]
    listed = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    folders = {path.parent for path in (root / "netsim").rglob("*.py")}
    brought = {"netsim.models", "netsim.scenarios", "netsim.lessons"}
    assert set(listed) == brought | {".".join(folder.relative_to(root).parts) for folder in folders}
