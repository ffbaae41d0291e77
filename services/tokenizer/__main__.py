"""`python -m services.tokenizer`"""

from services.tokenizer.server import build
from shared.service import main

main("tokenizer", build)
