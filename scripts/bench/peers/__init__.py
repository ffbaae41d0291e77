"""Other servers to compare with: how each is installed, started and told what to serve. Knows no loads, no figures."""
