"""Programs: `@function`, and the ways to run one. What a program does while it runs is in `state` and `writer`."""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, overload

from sapwood import batch
from sapwood.backends.protocol import AnyBackend
from sapwood.current import allowing, current_api_hosts, current_state, running
from sapwood.default_backend import as_backend
from sapwood.deferred import Work
from sapwood.errors import ProgramError
from sapwood.inputs import attached, filled
from sapwood.options import NAMES, check_names, given_of
from sapwood.session import Session
from sapwood.state import State
from sapwood.trace import Graph

NO_PROGRAMS = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)


class Function:
    """A program. Its first argument is the state, unless `takes_state` is false: then only roles and `gen` write to it.

    Called with a state, it goes on there; without one it runs, as `run` does.

    Args:
        bound: arguments that are given already.
        api_hosts: what its outside calls may reach, instead of what those of the program may that it goes on in. None:
            the same as there, and of a run nothing.
    """

    def __init__(
        self,
        program: Callable[..., Any],
        *,
        takes_state: bool = True,
        bound: Mapping[str, Any] | None = None,
        api_hosts: Iterable[str] | None = None,
    ) -> None:
        if any(is_kind(program) for is_kind in NO_PROGRAMS):
            raise ProgramError("a program is a plain function: neither async def nor yield belongs in it")
        if isinstance(api_hosts, str):
            raise ProgramError(f"api_hosts is a list of hosts, not one text: [{api_hosts!r}]")
        functools.update_wrapper(self, program)
        self.name: str = getattr(program, "__name__", "program")
        self._program = program
        self._takes_state = takes_state
        self._bound = dict(bound or {})
        self._api_hosts = None if api_hosts is None else tuple(api_hosts)
        self._signature = inspect.signature(program)
        parameters = list(self._signature.parameters.values())[1 if takes_state else 0 :]
        self._parameters = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
        self._takes_any = len(self._parameters) < len(parameters)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """In a program with its state, what the function returns; otherwise the state of a run."""
        state = arguments[0] if arguments and isinstance(arguments[0], State) else None
        if state is None and not (current_state() and not self._takes_state):
            return self.run(*arguments, **named)
        if state is None:
            return self._go_on(arguments, named)
        with running(state):
            result = self._go_on(arguments, named)
            state._writer.settle()
        return result

    def run(self, *arguments: Any, backend: AnyBackend | None = None, stream: bool = False, **named: Any) -> State:
        """The program's state at its end; with `stream` at once, to be followed by `text_iter`.

        Args:
            named: the program's own arguments, and options of `gen` that hold where a generation has none itself.

        Raises what goes wrong in the program, once all of its branches have ended. With `stream`, reading does; a run
        that nobody can read any more ends when its state is dropped.
        """
        state, call = self._prepare(arguments, named, backend, stream=stream)
        if stream:
            threading.Thread(target=_drive, args=(state, _alone(call)), name=self.name, daemon=True).start()
            return _followed(state)
        _drive(state, call)
        return state.wait()

    def stream(self, *arguments: Any, backend: AnyBackend | None = None, **named: Any) -> State:
        return self.run(*arguments, backend=backend, stream=True, **named)

    def run_batch(
        self,
        batch_arguments: Sequence[Mapping[str, Any]],
        *,
        backend: AnyBackend | None = None,
        num_threads: int | Literal["auto"] | None = None,
        progress_bar: bool = False,
        **options: Any,
    ) -> list[State]:
        """A run for each, in this order. What goes wrong in one is raised where it is read: see `State.error`.

        Args:
            num_threads: so many at a time; "auto" is the same as None.
            options: of sampling, for all.
        """
        items = [dict(each) for each in batch_arguments]
        prepared = {id(each): self._prepare((), {**options, **each}, backend, stream=False) for each in items}
        threads = None if num_threads == "auto" else num_threads

        def one(arguments: Mapping[str, Any]) -> State:
            state, call = prepared[id(arguments)]
            _drive(state, _alone(call))
            state.error()
            return state

        try:
            return batch.run_all(one, items, names=self._parameters, num_threads=threads, progress_bar=progress_bar)
        except BaseException:
            for state, _ in prepared.values():
                state._writer.session.cancel()
            raise

    def bind(self, **named: Any) -> Function:
        """The same program with some of its arguments given."""
        check_names(named, named if self._takes_any else self._parameters)
        return self._with(bound=self._bound | named)

    def trace(self, *arguments: Any, **named: Any) -> Graph:
        """The graph of the program. Runs it without a backend: every value is a stand-in."""
        from sapwood.tracing import NoBackend, StandIns, graph_of  # most programs are never drawn

        state, call = self._prepare(arguments, named, NoBackend(), stream=False, prepared=StandIns())
        _drive(state, call)
        return graph_of(state.wait())

    def _with(self, *, bound: Mapping[str, Any]) -> Function:
        return Function(self._program, takes_state=self._takes_state, bound=bound, api_hosts=self._api_hosts)

    def _prepare(
        self,
        arguments: Sequence[Any],
        named: Mapping[str, Any],
        backend: AnyBackend | None,
        *,
        stream: bool,
        prepared: Callable[[Work], Work] | None = None,
    ) -> tuple[State, Callable[[], Any]]:
        if (outer := current_state()) is not None:
            outer._writer.settle()  # what the outer program has made is its own
        own, defaults = self._split(named)
        session = Session(
            self.name,
            as_backend(backend),
            defaults,
            streams=stream,
            prepared=prepared,
        )
        state = State.new(session)
        first = (state,) if self._takes_state else ()
        call = self._call((*first, *arguments), own)

        def allowed() -> Any:
            with allowing(self._api_hosts or ()):
                return call()

        return state, allowed

    def _go_on(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """In the program that runs here."""
        call = self._call(arguments, named)
        with allowing(current_api_hosts() if self._api_hosts is None else self._api_hosts):
            return call()

    def _call(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> Callable[[], Any]:
        """Raises ProgramError for arguments that are missing or too many."""
        whole = {**self._bound, **named}
        try:
            self._signature.bind(*arguments, **whole)
        except TypeError as error:
            raise ProgramError(f"{self.name}: {error}") from None
        return functools.partial(self._program, *arguments, **whole)

    def _split(self, named: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The program's own arguments, and the rest, which are options of generations."""
        options = {name: value for name, value in named.items() if name in NAMES and name not in self._parameters}
        own = {name: value for name, value in named.items() if name not in options}
        if not self._takes_any:
            check_names(own, [*self._parameters, *NAMES])
        attached(options)
        return own, given_of(filled(options))


@overload
def function(program: Callable[..., Any], /) -> Function: ...
@overload
def function(*, api_hosts: Iterable[str] | None = None) -> Callable[[Callable[..., Any]], Function]: ...


def function(program: Callable[..., Any] | None = None, /, *, api_hosts: Iterable[str] | None = None) -> Any:
    """A program, of a function whose first argument is the state.

    Args:
        api_hosts: what its outside calls may reach: see `call_api`, and `Function`.
    """
    if program is None:
        return functools.partial(Function, api_hosts=api_hosts)
    return Function(program)


def run(
    program: Callable[..., Any], *arguments: Any, backend: AnyBackend | None = None, stream: bool = False, **named: Any
) -> State:
    """Of a program that is a plain function too: it writes by roles and `gen` alone."""
    whole = program if isinstance(program, Function) else Function(program, takes_state=False)
    return whole.run(*arguments, backend=backend, stream=stream, **named)


def _drive(state: State, call: Callable[[], Any]) -> None:
    """Run the program to its end. What goes wrong is kept; an interrupt goes on."""
    session = state._writer.session
    session.begin()
    error: BaseException | None = None
    try:
        with running(state):
            session.result = call()
    except BaseException as caught:
        error = caught
    session.end(error)
    if error is not None and not isinstance(error, Exception):
        raise error


def _alone(call: Callable[[], Any]) -> Callable[[], Any]:
    """In a thread of its own a program that exits ends nothing but itself."""

    def without_exit() -> Any:
        try:
            return call()
        except SystemExit as error:
            raise ProgramError(f"the program left by sys.exit({error.code!r})") from error

    return without_exit


def _followed(state: State) -> State:
    """The same for somebody who follows it; when that one is dropped, the run ends."""
    follower = State(state._writer)
    weakref.finalize(follower, state._writer.session.cancel).atexit = False
    return follower
