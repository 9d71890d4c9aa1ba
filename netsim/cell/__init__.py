"""A radio cell as SimPy processes, resources and events: devices with CPUs, radios and batteries share an uplink.

The parts work in any ``simpy.Environment``, without a scenario:

>>> import simpy
>>> from netsim.cell import Device, Equal, Job, JobPlan, Uplink
>>> env = simpy.Environment()
>>> uplink = Uplink(env, bandwidth_hz=1e6, scheduler=Equal())
>>> plans = [JobPlan(cycles, cpu_hz=1e9, compute_w=0.5, bits=1e6, power_w=0.2) for cycles in (1e9, 3e9)]
>>> jobs = [Job(plan, snr_hz=1e6, device=number) for number, plan in enumerate(plans)]
>>> for job in jobs:
...     process = env.process(Device(env, uplink).perform(job))
>>> env.run()
>>> [(job.outcome, job.ended_at) for job in jobs]
[('arrived', 2.0), ('arrived', 4.0)]
"""

from netsim.cell.battery import Battery
from netsim.cell.device import Device
from netsim.cell.job import Interruption, Job, JobPlan
from netsim.cell.schedulers import Adaptive, Equal, Planned, Tdma
from netsim.cell.uplink import Uplink

__all__ = ["Adaptive", "Battery", "Device", "Equal", "Interruption", "Job", "JobPlan", "Planned", "Tdma", "Uplink"]
