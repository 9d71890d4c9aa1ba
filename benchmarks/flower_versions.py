"""The same apps under several versions of Flower, each in a virtual environment of its own: equal traces or not.

python benchmarks/flower_versions.py 1.22.0 1.41.0; without a version, the oldest that netsim takes and the newest that
pip finds. Only Flower and what it brings is installed anew; everything else is that of the Python that runs this.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent.parent
OLDEST, NEWEST = "==1.22.0", ">=1.22"
PLAY = """
import json, sys
from importlib.metadata import version
from netsim import load_scenario
from netsim.flower import run_app
scenario = load_scenario("quickstart", ["population.phone.battery=50mJ"])
told = {app: run_app(f"{sys.argv[1]}/examples/{app}", scenario).summary for app in ("flower-digits", "flower-fedbuff")}
print(json.dumps([version("flwr"), {app: summary["trace_sha256"] for app, summary in told.items()}]))
"""


def main() -> None:
    """Play the examples under each version, and compare."""
    wanted = [f"=={version}" for version in sys.argv[1:]] or [OLDEST, NEWEST]
    found = [played(version) for version in wanted]
    for version, traces in found:
        print(f"Flower {version}: " + ", ".join(f"{app} {trace[:16]}" for app, trace in traces.items()))
    same = all(traces == found[0][1] for _, traces in found)
    print("the same traces" if same else "the traces differ")
    sys.exit(not same)


def played(version: str) -> tuple[str, dict[str, str]]:
    """Which version it was, and the fingerprints of the traces."""
    with TemporaryDirectory(prefix="netsim-flower-") as folder:
        run([sys.executable, "-m", "venv", folder])
        python = f"{folder}/bin/python"
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        run([*pip, f"flwr{version}"])
        places = dict.fromkeys(sysconfig.get_paths()[name] for name in ("purelib", "platlib"))
        own = run([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]).strip()
        Path(own, "zz_shared.pth").write_text("".join(f"import site; site.addsitedir({place!r})\n" for place in places))
        told = json.loads(run([python, "-c", PLAY, str(HERE)]).splitlines()[-1])
        return told[0], told[1]


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)[:200]} failed:\n{done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    main()
