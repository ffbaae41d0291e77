import os

# Read when torch is loaded. Threads that wait for each other by spinning take the cores from the other stages, and from
# each other's last member: measured on two busy cores, a step of 16 tokens took 7 s so, and half a second like this.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from services.executor.server import build
from shared.service import main

main("executor", build)
