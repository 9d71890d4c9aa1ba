"""The cell as SimPy processes: devices with CPU and radio, their batteries, the FDMA uplink, the server."""
