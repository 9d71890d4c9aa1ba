"""The population of a cell: devices, mobility, link model and sizes of jobs."""
