"""One wave alone in the cell: a round event by event, without a run around it."""

from __future__ import annotations

import numpy as np
import simpy

from netsim.allocation.waves import Wave
from netsim.cell.battery import Batteries
from netsim.cell.disciplines import Discipline
from netsim.cell.disciplines.planned import Planned
from netsim.cell.jobs import Jobs
from netsim.cell.medium import Medium
from netsim.cell.radio import Air
from netsim.cell.recording import record_ended
from netsim.trace.recorder import Part, Recorder
from netsim.trace.schema import SERVER


def play_wave(wave: Wave, discipline: Discipline | None = None, air: Air | None = None) -> Part:
    """Let the devices of a wave compute and upload as their plan says, all on mains, and return the trace.

    ``air`` is how their channels change meanwhile; without it they are as the plan saw them.
    """
    env, recorder, problem = simpy.Environment(), Recorder(), wave.problem
    mains = Batteries(np.full(int(wave.devices.max()) + 1, np.inf))
    medium = Medium(env, problem.bandwidth_hz, problem.noise_w_per_hz, discipline or Planned(), mains, air=air)
    allocated = recorder.instant("allocate", SERVER, env.now, value=len(wave.devices))
    flight = medium.start(0, 0, allocated, Jobs.of(wave), problem.gain)
    env.run(medium.replies(np.arange(len(flight)), np.inf, None))
    jobs = record_ended(recorder, medium.take_ended(), medium.take_band(), 0, medium.gave_room)
    after = [] if jobs is None else jobs.last.tolist()
    recorder.span("aggregate", SERVER, env.now, env.now, value=len(flight), after=after)
    return recorder.take()
