"""`python -m sapwood` is the `sapwood` command."""

import sys

from sapwood.launch import main

sys.exit(main())
