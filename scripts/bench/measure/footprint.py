"""How much memory Python objects take: each one and all that it holds, counted once. Reads, changes nothing.

What the allocator adds to a block is not counted, nor are classes, functions and modules.
"""

from __future__ import annotations

import gc
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType

import numpy as np

CODE = (type, ModuleType, FunctionType, BuiltinFunctionType)


def held_bytes(root: object) -> int:
    total, seen, stack = 0, set[int](), [root]
    while stack:
        each = stack.pop()
        if id(each) in seen or isinstance(each, CODE):
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        stack += gc.get_referents(each)
        if isinstance(each, np.ndarray) and each.base is not None:  # a view: the collector does not look into it
            stack.append(each.base)
    return total
