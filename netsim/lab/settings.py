"""Positions of the lab's sliders, and the scenario that they describe."""

from __future__ import annotations

from dataclasses import dataclass

from netsim.scenario import Scenario, load_scenario

BASE = "lab"                # the built-in scenario that the sliders change
LEAST_POWER_DBM = 10.0      # lower bound for methods that choose the power


@dataclass(frozen=True)
class Settings:
    """A position of every slider; the first method is shown left, the second right."""

    bandwidth_mhz: float = 20.0
    power_dbm: float = 23.0
    budget_mj: tuple[float, float] = (15.0, 30.0)      # drawn evenly between these
    cohort: int = 10
    model_kbit: float = 448.0
    cpu_ghz: tuple[float, float] = (0.2, 2.0)
    seed: int = 4
    methods: tuple[str, ...] = ("equal", "sao")
    sharing: str = "planned"                           # the scheduler

    @property
    def overrides(self) -> list[str]:
        """The sliders as ``--set`` options for the scenario ``lab``."""
        low, high = self.budget_mj
        budget = f'{{ dist = "uniform", low = "{low:g} mJ", high = "{high:g} mJ" }}' if low < high else f"{low:g} mJ"
        return [
            f"cell.bandwidth={self.bandwidth_mhz:g} MHz",
            f"population.phone.radio.power={self.power_dbm:g} dBm",
            f"population.phone.radio.max_power={self.power_dbm:g} dBm",
            f"population.phone.radio.min_power={min(self.power_dbm, LEAST_POWER_DBM):g} dBm",
            f"population.phone.budget={budget}",
            f"population.phone.cpu.min={self.cpu_ghz[0]:g} GHz",
            f"population.phone.cpu.max={self.cpu_ghz[1]:g} GHz",
            f"learning.bits={self.model_kbit:g} kbit",
            f"selection.cohort={self.cohort}",
            f"allocation.method={self.methods[-1]}",
            *([] if self.sharing == "planned" else [f"cell.scheduler={self.sharing}"]),
        ]

    def scenario(self) -> Scenario:
        return load_scenario(BASE, self.overrides)

    def scenario_file(self) -> str:
        """The text of a scenario file that shows the same round; its first lines say how."""
        methods = " ".join(f"--method {method}" for method in dict.fromkeys(self.methods))
        same = "The same round, the same devices" if self.sharing == "planned" else (
            "The same devices and CPUs, as planned; `netsim run` shares the band as below")
        head = (f"# What the sliders of netsim lab said. {same}:\n#\n"
                f"#   netsim allocate my-lab.toml {methods} --seed {self.seed}\n\n")
        return head + self.scenario().to_toml()
