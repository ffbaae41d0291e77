from services.executor.server import build
from shared.service import main

main("executor", build)
