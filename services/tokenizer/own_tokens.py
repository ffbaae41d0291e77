"""Which special tokens of a rendered conversation are the template's own, and which are a client's words.

Special tokens in the template's text, before it is compiled, are put between marks. What else of the rendered text
reads as a special token comes from what a client wrote, in whatever way the template has put it together, and is to be
encoded as plain text. Marks are Unicode noncharacters, which are not for interchange: no client's text has one. Some
templates write `<|{{ message.role }}|>`, so a role between two marked parts of a special token makes it whole.

Knows Jinja's syntax tree and the texts of special tokens. Knows no messages and no token ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Literal, NamedTuple

import jinja2
import jinja2.nodes

BEGIN, END = "\ufdd0", "\ufdd1"  # around a special token
HEAD, TAIL = "\ufdd2", "\ufdd3"  # behind the part of one in front of a role, and before the part behind it
CONTINUE_MARK = "\ufdd4"  # not one of a token: where the final message is to be continued
MARKS = re.compile(f"[{BEGIN}-{CONTINUE_MARK}]")
ROLES = re.compile("system|developer|user|assistant|tool", re.IGNORECASE)
PRINTED = (jinja2.nodes.Output, jinja2.nodes.Add, jinja2.nodes.Concat)


class Piece(NamedTuple):
    text: str
    literal: bool  # a special token's text that is meant as text


class _Part(NamedTuple):
    text: str
    kind: Literal["plain", "own", "forged"]


def unmarked(text: str) -> str:
    return MARKS.sub("", text)


class OwnTokens:
    """Args:
    special_tokens: their texts; only the template may write them.
    """

    def __init__(self, special_tokens: Iterable[str]) -> None:
        texts = sorted(special_tokens, key=len, reverse=True)  # the longest is taken, as a tokenizer does
        around = [
            (text[: role.start()], role[0], text[role.end() :]) for text in texts for role in ROLES.finditer(text)
        ]
        split = [(head, role, tail) for head, role, tail in around if head and tail]
        whole_ones = [f"{BEGIN}(?:{_any(texts)}){END}"]
        split_ones = [f"{re.escape(head)}{HEAD}{role}{TAIL}{re.escape(tail)}" for head, role, tail in split]
        self._special = re.compile(_any(texts))
        self._own = re.compile("|".join(whole_ones + split_ones))
        self._head = re.compile(f"(?:{_any(head for head, _, _ in split)})\\Z")
        self._tail = re.compile(f"\\A(?:{_any(tail for _, _, tail in split)})")

    def marked(self, text: str) -> str:
        return self._special.sub(f"{BEGIN}\\g<0>{END}", text)

    def mark(self, template: jinja2.nodes.Template) -> None:
        """The special tokens in all of the template's own text, and parts of one where it is printed."""
        for text in template.find_all(jinja2.nodes.TemplateData):
            text.data = self._marked_part(text.data)
        printed = {id(child) for node in template.find_all(PRINTED) for child in node.iter_child_nodes()}
        for constant in template.find_all(jinja2.nodes.Const):
            if isinstance(constant.value, str):
                marked = self._marked_part if id(constant) in printed else self.marked
                constant.value = marked(constant.value)

    def pieces(self, rendered: str) -> list[Piece]:
        """Without marks. What is not literal reads as the template's own special tokens and no others."""
        pieces: list[Piece] = []
        for is_forged, group in groupby(self._parts(rendered), key=lambda part: part.kind == "forged"):
            parts = list(group)
            joined = "".join(part.text for part in parts)
            own = [part.text for part in parts if part.kind == "own"]
            if not is_forged and self._special.findall(joined) == own:
                pieces.append(Piece(joined, literal=False))
            else:
                pieces.extend(Piece(part.text, is_forged) for part in parts)
        return pieces

    def _parts(self, rendered: str) -> Iterator[_Part]:
        end = 0
        for own in self._own.finditer(rendered):
            yield from self._told(rendered[end : own.start()])
            yield _Part(unmarked(own[0]), "own")
            end = own.end()
        yield from self._told(rendered[end:])

    def _told(self, text: str) -> Iterator[_Part]:
        """What a client wrote, perhaps in the template's own words."""
        clean, end = unmarked(text), 0
        for forged in self._special.finditer(clean):
            if end < forged.start():
                yield _Part(clean[end : forged.start()], "plain")
            yield _Part(forged[0], "forged")
            end = forged.end()
        if end < len(clean):
            yield _Part(clean[end:], "plain")

    def _marked_part(self, text: str) -> str:
        return self._head.sub(f"\\g<0>{HEAD}", self._tail.sub(f"{TAIL}\\g<0>", self.marked(text)))


def _any(texts: Iterable[str]) -> str:
    """A pattern of one of them; of nothing at all if there are none."""
    return "|".join(map(re.escape, texts)) or "(?!)"
