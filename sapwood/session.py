"""What all states of one run of a program share: the backend, the defaults, how far it is. Knows no text."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from sapwood.backends.protocol import Backend
from sapwood.current import current_state
from sapwood.deferred import Deferred, Work
from sapwood.errors import ProgramError

if TYPE_CHECKING:
    from sapwood.roles import Role
    from sapwood.writer import Writer


class Session:
    """Args:
    defaults: options of generations that have none themselves.
    streams: values show their text as it comes.
    prepared: what is done in the place of some work.
    """

    def __init__(
        self,
        name: str,
        backend: Backend,
        defaults: Mapping[str, Any],
        *,
        streams: bool = False,
        prepared: Callable[[Work], Work] | None = None,
    ) -> None:
        self.name = name
        self.backend = backend
        self.defaults = defaults
        self.streams = streams
        self._prepared = prepared
        self.bell = threading.Condition()  # rung at each change
        self.writers: list[Writer] = []
        self.messages: list[Role] = []  # that the program has made, attached or not
        self.reads: list[Deferred] = []  # values that the program has looked at since it last attached one
        self.told: list[BaseException | None] = []  # errors that the program has met where it read
        self._thread = 0  # of the program, once it runs
        self.is_over = False
        self._is_cancelled = False
        self.program_error: BaseException | None = None
        self.result: Any = None  # what the program returned

    def prepared(self, work: Work) -> Work:
        return self._prepared(work) if self._prepared else work

    def begin(self) -> None:
        """The program runs in this thread."""
        self._thread = threading.get_ident()

    def is_own_thread(self) -> bool:
        """Whether the program itself asks, also in a thread that it has started and where it has entered a state.

        Only where it streams is anybody else there to ask while it runs.
        """
        if not self.streams or self._thread == threading.get_ident():
            return True
        state = current_state()
        return state is not None and state._writer.session is self

    def error(self) -> BaseException | None:
        """Waits for the end. What went wrong first and was not told to the program, which may have an answer to it."""
        try:
            self.wait_for(lambda: False)
        except CancelledError as error:
            return error
        errors = [writer.error() for writer in self.writers]
        told = set(map(id, self.told))
        return self.program_error or next((error for error in errors if error and id(error) not in told), None)

    def wait_for(self, is_there: Callable[[], bool]) -> None:
        """For those who follow the program: until this holds, or to its end. Raises CancelledError."""
        with self.bell:
            self.bell.wait_for(lambda: self.is_over or self._is_cancelled or is_there())
            if not self.is_over and not is_there():
                self.check_going_on()

    def end(self, error: BaseException | None) -> None:
        """The program's function has returned, or raised this."""
        if error is None:
            error = self._settle()
        elif not isinstance(error, Exception):  # an interrupt: nobody will read what is under way
            self.cancel()
        self.program_error = error
        with self.bell:
            self.is_over = True
            self.bell.notify_all()

    def cancel(self) -> None:
        """Nothing is asked from now on: what is under way ends, and what the program would begin is refused."""
        with self.bell:
            self._is_cancelled = True
            for writer in self.writers:
                for deferred in writer.own_values():
                    deferred.cancel()
            self.bell.notify_all()

    def check_going_on(self) -> None:
        """Raises CancelledError. Its caller has the bell, so that nothing begins between this and its end."""
        if self._is_cancelled:
            raise CancelledError(f"the run of {self.name} was cancelled")

    def _settle(self) -> BaseException | None:
        try:
            for writer in list(self.writers):
                writer.settle()
            for message in self.messages:
                if not message.is_attached:
                    raise ProgramError(f"{message!r} was made and never attached: s += {message.name}(…)")
        except Exception as error:
            return error
        return None
