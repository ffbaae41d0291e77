"""`python -m sapwood.launch_server …` is `sapwood serve …`."""

import sys

from sapwood.launch import main

if __name__ == "__main__":
    sys.exit(main(["serve", *sys.argv[1:]]))
