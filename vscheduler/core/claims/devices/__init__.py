"""Devices: on which nodes claims can be allocated, and which devices they get."""
