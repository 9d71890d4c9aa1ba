"""Job-to-job variation of compute and upload times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netsim.base.rng import stream
from netsim.base.types import Floats, Ints
from netsim.devices.population import table_draws
from netsim.scenario import Scenario


@dataclass(frozen=True, eq=False)
class JobVariation:
    """Log-normal factors of median 1, drawn for each round and device; plans do not know them."""

    seed: int
    keys: Sequence[int]      # of the devices in the random streams
    sd: Floats               # of ln(compute time) and ln(upload time), shape (2, N)

    @classmethod
    def of(cls, scenario: Scenario, seed: int) -> JobVariation | None:
        """Return the variation of a scenario's jobs; None without any."""
        names = "compute_variation", "upload_variation"
        if not any(table.values(name) for table in scenario.population for name in names):
            return None
        draws = table_draws(scenario, seed)
        sd = np.concatenate([[np.broadcast_to(draw.table.values(name) or 0.0, draw.table.size) for name in names]
                             for draw in draws], axis=1)
        return cls(seed, [key for draw in draws for key in draw.keys], sd)

    def factors(self, devices: Ints, round_: int) -> tuple[Floats, Floats]:
        """Return the factors of the compute times and of the upload times of devices in a round."""
        normal = np.array([stream(self.seed, "variation", round_, self.keys[device]).standard_normal(2)
                           for device in devices.tolist()]).reshape(-1, 2)
        compute, upload = np.exp(self.sd[:, devices] * normal.T)
        return compute, upload
