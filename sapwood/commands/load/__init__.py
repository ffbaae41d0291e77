"""Load on a server, and its figures."""
