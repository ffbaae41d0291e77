from services.gateway.server import build
from shared.service import main

main("gateway", build)
