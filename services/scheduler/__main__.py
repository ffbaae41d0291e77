"""`python -m services.scheduler`"""

from services.scheduler.server import build
from shared.service import main

main("scheduler", build)
