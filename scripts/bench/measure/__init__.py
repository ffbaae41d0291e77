"""Measuring inside one process: the machine and its ceilings, timing, cases for the attention backends, charts."""
