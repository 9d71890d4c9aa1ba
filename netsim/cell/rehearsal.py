"""One wave alone in the cell: a round event by event, without a run around it."""

from __future__ import annotations

import math

import simpy

from netsim.allocation.waves import Wave
from netsim.cell.battery import Battery
from netsim.cell.device import Device, Outcome
from netsim.cell.server import shares
from netsim.cell.uplink import Uplink
from netsim.trace.rows import SERVER, Part, Recorder


def rehearse(wave: Wave, bandwidth_hz: float) -> Part:
    """Let the devices of a wave compute and upload as their plan says, all on mains, and return the trace."""
    env, recorder = simpy.Environment(), Recorder(round=1)
    uplink = Uplink(env, bandwidth_hz, recorder)
    allocated = recorder.instant("allocate", SERVER, env.now, value=len(wave.devices))
    work = [
        env.process(Device(env, share, Battery(env, math.inf), uplink, recorder, lambda device: None).serve(allocated))
        for share in shares(wave)
    ]
    env.run(env.all_of(work))
    last_rows = [outcome.last_row for process in work if isinstance(outcome := process.value, Outcome)]
    recorder.span("aggregate", SERVER, env.now, env.now, value=len(work), after=last_rows)
    return recorder.take()
