"""Errors, units, fields, registry, files and random streams. Imports no other package of netsim."""
