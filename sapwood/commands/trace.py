"""`sapwood trace module:function`: the graph of a program, as lines or as a picture. Needs no server."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from sapwood.commands import connection
from sapwood.drawing.outline import outline
from sapwood.drawing.svg import svg
from sapwood.errors import ProgramError, SapwoodError
from sapwood.program import Function


def main(argv: Sequence[str]) -> int:
    arguments = _parse(argv)
    try:
        graph = _program(arguments.program).trace(**arguments.args)
        if arguments.svg:
            _write(Path(arguments.svg), svg(graph))
    except SapwoodError as error:
        return connection.failed(error)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(graph)).decode())
    else:
        print("\n".join(outline(graph)))
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sapwood trace", description="The graph of a program.")
    parser.add_argument("program", metavar="MODULE:FUNCTION", help="a module, or a file that ends in .py")
    parser.add_argument("--args", type=_object, default={}, metavar="JSON", help="the program's arguments, an object")
    parser.add_argument("--svg", metavar="FILE", help="write a picture, too")
    parser.add_argument("--json", action="store_true", help="the graph as JSON instead of lines")
    return parser.parse_args(argv)


def _write(path: Path, picture: str) -> None:
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise ProgramError(f"{path}: {error.strerror}") from error


def _object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _program(named: str) -> Function:
    """Raises ProgramError if there is none of this name."""
    place, colon, name = named.rpartition(":")
    if not colon or not place:
        raise ProgramError(f"{named}: expected MODULE:FUNCTION, as in examples.trip:plan")
    found = _module(place)
    for part in name.split("."):
        if not hasattr(found, part):
            raise ProgramError(f"{place} has no {name}")
        found = getattr(found, part)
    if isinstance(found, Function):
        return found
    if not callable(found):
        raise ProgramError(f"{named} is no function")
    try:
        return Function(found, takes_state=False)
    except (TypeError, ValueError) as error:
        raise ProgramError(f"{named} is no function of a program: {error}") from error


def _module(place: str) -> ModuleType | Any:
    sys.path.append(os.getcwd())
    try:
        return _module_of_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except SapwoodError:
        raise
    except ModuleNotFoundError as error:
        raise ProgramError(f"there is no module {error.name}") from error
    except Exception as error:  # whatever the module does
        raise ProgramError(f"{place} cannot be imported: {type(error).__name__}: {error}") from error


def _module_of_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ProgramError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # dataclasses and the like look for their module
    spec.loader.exec_module(module)
    return module
