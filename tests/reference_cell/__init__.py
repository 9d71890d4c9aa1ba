"""An exact reference of the time-varying cell: plain Python that steps from event to event, without netsim's cell.

It is written from docs/simulation.md, docs/background.md and the guides. From netsim it takes only what is drawn
(devices, gains, instants at which devices go off, losses) and what is decided (allocation plans, selections).
"""
