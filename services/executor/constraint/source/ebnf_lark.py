"""What of the engine's Lark a client may use: rules, terminals, `%ignore` and `%import` of what the engine brings.

Refused is what reaches beyond text (`<token>`, `@grammar`, negation, which takes bytes that are no text), what changes
the engine's settings, what asks for sampling or for a count of tokens, and a nesting that would exhaust the stack.
Reads words as the engine's own lexer does; the rest of the syntax is the engine's affair. Regexes in it are in Rust's
syntax.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from services.executor.constraint.source.refused import Refused
from shared.config import ConstraintsConfig

MAX_STACK = 500  # references and parentheses inside one another; the engine compiles by recursion
WORD = re.compile(
    r"""
    (?P<space>    [ \t]+ | (?:\#|//)[^\n]* )
  | (?P<newline>  (?:\r?\n)+[ \t]* )
  | (?P<string>   "(?:\\(?:["\\/bfnrt]|u[a-fA-F0-9]{4}|x[a-fA-F0-9]{2})|[^"\\\x00-\x1f\x7f])*"i? )
  | (?P<regex>    /(?:\\[^\n]|[^/\\])+/[imslux]* )
  | (?P<name>     !?[_?]?[a-z][_a-z0-9\-]* | _?[A-Z][_A-Z0-9\-]* )
  | (?P<number>   [+-]?[0-9]+ )
  | (?P<keyword>  %[a-zA-Z]* )
  | (?P<token>    <[^<>\s]*>? | @[a-zA-Z0-9_\-]* )
  | (?P<sign>     ->|::|\.\.|[:|()\[\]{},.*+?~=&] )
    """,
    re.VERBOSE,
)
LOOK_AHEAD = re.compile(r"\(\?P?<stop>")  # the engine's own meaning of a group of this name
KEYWORDS = frozenset({"%ignore", "%import"})


@dataclass
class Definition:
    refers_to: list[str] = field(default_factory=list)
    depth: int = 0  # of its parentheses


def check(source: str, caps: ConstraintsConfig) -> None:
    """Raises:
    Refused: see above; with the line.
    """
    if source.lstrip().startswith("{"):  # the engine would take it for JSON
        raise Refused("line 1: a grammar does not begin with {")
    definitions: dict[str, Definition] = {"%ignore": Definition()}
    current, names, open_groups = definitions["%ignore"], [], 0
    for word, line in _words(source):
        reason = _refusal(word, source, caps)
        if reason is not None:
            raise Refused(f"line {line}: {reason}")
        match word.lastgroup, word[0]:
            case "name", name:
                names.append(name.lstrip("!?"))
            case "newline", _:
                current.refers_to.extend(names)
                names, open_groups = [], 0
            case "sign", ":" if names:
                current, names, open_groups = definitions.setdefault(names[0], Definition()), [], 0
            case "keyword", _:
                current, names = definitions["%ignore"], []
            case "sign", sign if sign in "()[]":
                open_groups += 1 if sign in "([" else -1
                current.depth = max(current.depth, open_groups)
    current.refers_to.extend(names)
    if "start" not in definitions:
        raise Refused("there is no rule of the name start")
    _check_stack(definitions)


def _words(source: str) -> Iterator[tuple[re.Match[str], int]]:
    """Each with the line that it is in."""
    at, line = 0, 1
    while at < len(source):
        word = WORD.match(source, at)
        if word is None:
            raise Refused(f"line {line}: not a word of a grammar: {source[at : at + 20]!r}")
        yield word, line
        at, line = word.end(), line + word[0].count("\n")


def _refusal(word: re.Match[str], source: str, caps: ConstraintsConfig) -> str | None:
    text = word[0]
    match word.lastgroup:
        case "token":
            return f"{text} is not supported: a grammar speaks of text alone"
        case "keyword" if text not in KEYWORDS:
            return f"{text} is not supported"
        case "regex" if LOOK_AHEAD.search(text):
            return "a group of the name stop is not supported"
        case "regex" if len(text) > caps.max_pattern_bytes:
            return f"a pattern of {len(text)} characters; at most {caps.max_pattern_bytes} are taken"
        case "sign" if text == "~" and not re.compile(r"[ \t]*[0-9]").match(source, word.end()):
            return "negation, ~, is not supported"
        case "sign" if text == "=":
            return "options of a rule that have a value are not supported (lazy has none)"
        case "sign" if text == "::":
            return "parameters of a rule, ::, are not supported"
        case _:
            return None


def _check_stack(definitions: dict[str, Definition]) -> None:
    """Follows the references as the engine does: each rule once, where it first comes."""
    visited: set[str] = set()
    for root in ("%ignore", "start"):
        path = [(root, iter(definitions[root].refers_to))]
        stack = definitions[root].depth + 1
        while path:
            name = next((name for name in path[-1][1] if name in definitions and name not in visited), None)
            if name is None:
                stack -= definitions[path.pop()[0]].depth + 1
                continue
            visited.add(name)
            path.append((name, iter(definitions[name].refers_to)))
            stack += definitions[name].depth + 1
            if stack > MAX_STACK:
                raise Refused(f"rules refer to one another more than {MAX_STACK} deep, parentheses counted")
