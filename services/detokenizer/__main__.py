"""`python -m services.detokenizer`"""

from services.detokenizer.server import build
from shared.service import main

main("detokenizer", build)
