"""How a program's graph is had without a server: values that stand in for real ones, and the graph of what it did.

A value stands in with what its type allows first: the first choice, 0, its own name in brackets. What a program does on
other values is not in the graph.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from sapwood.backends.protocol import GenerateRequest, Generation, Score
from sapwood.deferred import Deferred, Outcome, Situation, Work
from sapwood.errors import ProgramError
from sapwood.generation import GenerationWork, SelectionWork
from sapwood.inputs import WorkOfValues
from sapwood.state import State
from sapwood.trace import Edge, Graph, Kind, Node
from sapwood.transcript import Closed, Opened
from sapwood.writer import Writer

LABEL_CHARACTERS = 60
MAX_VALUES = 1000


class StandIn:
    """Of an object: all that it holds stands in, too, and what is made of it. As a number 0; compared, neither more nor
    less; of length 1."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn()

    def __getitem__(self, key: object) -> Any:
        return StandIn()

    def __iter__(self) -> Iterator[Any]:
        return iter((StandIn(),))

    def __call__(self, *_arguments: object, **_named: object) -> Any:
        return StandIn()

    def __str__(self) -> str:
        return "[…]"

    def __format__(self, _spec: str) -> str:
        return str(self)

    def __len__(self) -> int:
        return 1

    def __index__(self) -> int:
        return 0

    def __float__(self) -> float:
        return 0.0

    def _is_not(self, _other: object) -> bool:
        return False

    def _with(self, *_others: object) -> Any:
        return StandIn()

    __lt__ = __le__ = __gt__ = __ge__ = _is_not
    __neg__ = __pos__ = __abs__ = __round__ = _with
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = _with
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _with


class StoodIn:
    """Some work that is not done."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.kind: Kind = work.kind

    async def outcome(self, _situation: Situation) -> Outcome:
        text, value = _first(self.work)
        if isinstance(self.work, GenerationWork) and self.work.sampling.n > 1:
            return Outcome(text=text, value=[value] * self.work.sampling.n)
        return Outcome(text=text, value=value)

    def details(self) -> Mapping[str, str]:
        return self.work.details()


class NoBackend:
    """Of a run in which none is asked anything."""

    async def generate(self, request: GenerateRequest) -> list[Generation]:
        raise ProgramError("there is no backend in a trace")

    async def stream(self, request: GenerateRequest) -> AsyncIterator[Generation]:
        for none in await self.generate(request):
            yield none

    async def score(
        self, request: GenerateRequest, choices: Sequence[str], *, unconditional: bool = False
    ) -> list[Score]:
        raise ProgramError("there is no backend in a trace")

    async def aclose(self) -> None:
        pass


class StandIns:
    """Of one run: not for ever, where a program waits for a value that a stand-in never is."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def __call__(self, work: Work) -> Work:
        if self._left == 0:
            raise ProgramError(f"more than {MAX_VALUES} values: a loop that ends by a value has no end in a trace")
        self._left -= 1
        return stood_in_for(work)


def stood_in_for(work: Work) -> Work:
    match work:
        case StoodIn():
            return work
        case WorkOfValues():
            return WorkOfValues(work.kind, work.inputs, lambda: stood_in_for(work.made()))
        case _:
            return StoodIn(work)


def graph_of(state: State) -> Graph:
    """Of a run that has ended."""
    session = state._writer.session
    drawing = _Drawing()
    for writer in session.writers:
        drawing.add(writer)
    return Graph(session.name, tuple(drawing.nodes), tuple(drawing.edges()))


class _Drawing:
    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._places: dict[int, int] = {}  # of values, by identity
        self._ends: dict[tuple[int, ...], list[int | None]] = {}  # by branch: the last node up to each part
        self._next: list[Edge] = []
        self._reads: list[tuple[Deferred, int]] = []

    def add(self, writer: Writer) -> None:
        """After the branch that it comes of."""
        before = self._ends.get(writer.branch[:-1], []) if writer.branch else []
        ends = self._ends[writer.branch] = list(before[: writer.inherited])
        role: str | None = None
        for place, part in enumerate(writer.parts):
            if isinstance(part, Opened | Closed):
                role = part.role if isinstance(part, Opened) else None
            if place >= writer.inherited:
                last = ends[-1] if ends else None
                ends.append(last if isinstance(part, Opened | Closed) else self._node(part, role, writer, last))

    def edges(self) -> list[Edge]:
        places = [(self._places.get(id(source)), target) for source, target in self._reads]
        reads = [Edge(place, target, "reads") for place, target in places if place is not None]  # not another program's
        return self._next + list(dict.fromkeys(reads))

    def _node(self, part: str | Deferred, role: str | None, writer: Writer, last: int | None) -> int:
        place = len(self.nodes)
        if isinstance(part, Deferred) and id(part) not in self._places:
            self._places[id(part)] = place
            inputs = part.work.inputs if isinstance(part.work, WorkOfValues) else ()
            self._reads += [(source, place) for source in (*part.reads, *inputs)]
            node = Node(
                id=place,
                kind=part.work.kind,
                label=part.name or part.work.kind,
                role=role,
                branch=writer.branch,
                details=dict(part.work.details()),
            )
        else:
            text = part if isinstance(part, str) else f"[{part.name}]"
            self._reads += [(part, place)] if isinstance(part, Deferred) else []
            node = Node(id=place, kind="text", label=text[:LABEL_CHARACTERS], role=role, branch=writer.branch)
        self.nodes.append(node)
        self._next += [Edge(last, place)] if last is not None else []
        return place


def _first(work: Work) -> tuple[str, Any]:
    match work:
        case SelectionWork():
            return work.choices[0], work.choices[0]
        case GenerationWork(sampling=sampling) if sampling.choices:
            return sampling.choices[0], sampling.choices[0]
        case GenerationWork(form=form) if form.type in STAND_INS:
            return STAND_INS[form.type]
        case GenerationWork(form=form) if form.type is not None:
            return str(StandIn()), StandIn()
        case GenerationWork():
            return "[…]", "[…]"
        case _:
            return str(StandIn()), StandIn()


STAND_INS: dict[type, tuple[str, Any]] = {
    int: ("0", 0),
    float: ("0.0", 0.0),
    bool: ("True", True),
    str: ('"…"', "…"),
}
