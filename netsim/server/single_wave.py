"""One wave alone in the cell: a round event by event, without a run around it."""

from __future__ import annotations

import numpy as np
import simpy

from netsim.allocation.waves import Wave
from netsim.cell.battery import Batteries
from netsim.cell.cell import SimulatedCell
from netsim.cell.channel import Gains, TimeVaryingChannel
from netsim.cell.schedulers import Scheduler
from netsim.cell.schedulers.planned import Planned
from netsim.cell.uplink import Uplink
from netsim.cell.wave_jobs import jobs_of
from netsim.server.recording import record_ended
from netsim.trace.recorder import Part, Recorder
from netsim.trace.schema import SERVER


def play_wave(wave: Wave, scheduler: Scheduler | None = None, gains: Gains | None = None) -> Part:
    """Let the devices of a wave compute and upload as their plan says, all mains-powered, and return the trace.

    ``gains`` is how their channels change meanwhile; without it they are as the plan saw them.
    """
    env, recorder, problem = simpy.Environment(), Recorder(), wave.problem
    channel = None if gains is None else TimeVaryingChannel(env, gains, problem.noise_w_per_hz)
    uplink = Uplink(env, problem.bandwidth_hz, scheduler or Planned(), link=problem.link, channel=channel)
    cell = SimulatedCell(env, uplink, Batteries(env, np.full(int(wave.devices.max()) + 1, np.inf)))
    allocated = recorder.instant("allocate", SERVER, env.now, value=len(wave.devices))
    jobs = jobs_of(wave, problem.gain, cause=allocated)
    cell.submit(jobs)
    env.run(cell.wait(range(len(jobs))))
    ended = record_ended(recorder, cell.collect(), uplink.take_band(), 0, contended=uplink.contended)
    after = [] if ended is None else ended.last.tolist()
    recorder.span("aggregate", SERVER, env.now, env.now, value=len(jobs), after=after)
    return recorder.take()
