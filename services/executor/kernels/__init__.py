"""The forward pass of the CPU, compiled by numba: explicit vectors, one team of threads, one call a step."""
