"""Sapwood: serve large language models from a tree of shared prefixes. This package is the SDK and the command.

Names are imported at their first use, so that the command starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sapwood._version import __version__

if TYPE_CHECKING:
    from sapwood.api_calls.call import call_api
    from sapwood.api_calls.defaults import set_api_hosts
    from sapwood.backends.native import NativeBackend
    from sapwood.backends.openai import OpenAI
    from sapwood.backends.protocol import Backend, GenerateRequest, Generation, Message, Sampling, Score, TokenLogprob
    from sapwood.choices import (
        greedy_token_selection,
        token_length_normalized,
        unconditional_likelihood_normalized,
    )
    from sapwood.client import AsyncClient, Client
    from sapwood.default_backend import default_backend, set_default_backend
    from sapwood.errors import (
        BackendError,
        CallFailed,
        CallRefused,
        ConnectionFailed,
        InvalidOutput,
        NotStarted,
        Overloaded,
        ProgramError,
        SapwoodError,
        ServerError,
        TimedOut,
    )
    from sapwood.fork import Forks
    from sapwood.program import Function, function, run
    from sapwood.roles import (
        assistant,
        assistant_begin,
        assistant_end,
        role,
        system,
        system_begin,
        system_end,
        user,
        user_begin,
        user_end,
    )
    from sapwood.runtime import Runtime
    from sapwood.state import State
    from sapwood.statements import gen, gen_int, gen_string, image, select
    from sapwood.trace import Graph

__all__ = [
    "AsyncClient",
    "Backend",
    "BackendError",
    "CallFailed",
    "CallRefused",
    "Client",
    "ConnectionFailed",
    "Forks",
    "Function",
    "GenerateRequest",
    "Generation",
    "Graph",
    "InvalidOutput",
    "Message",
    "NativeBackend",
    "NotStarted",
    "OpenAI",
    "Overloaded",
    "ProgramError",
    "Runtime",
    "Sampling",
    "SapwoodError",
    "Score",
    "ServerError",
    "State",
    "TimedOut",
    "TokenLogprob",
    "__version__",
    "assistant",
    "assistant_begin",
    "assistant_end",
    "call_api",
    "default_backend",
    "function",
    "gen",
    "gen_int",
    "gen_string",
    "greedy_token_selection",
    "image",
    "role",
    "run",
    "select",
    "set_api_hosts",
    "set_default_backend",
    "system",
    "system_begin",
    "system_end",
    "token_length_normalized",
    "unconditional_likelihood_normalized",
    "user",
    "user_begin",
    "user_end",
]

_NAMES = {
    "api_calls.call": "call_api",
    "api_calls.defaults": "set_api_hosts",
    "backends.native": "NativeBackend",
    "backends.openai": "OpenAI",
    "backends.protocol": "Backend GenerateRequest Generation Message Sampling Score TokenLogprob",
    "choices": "greedy_token_selection token_length_normalized unconditional_likelihood_normalized",
    "client": "AsyncClient Client",
    "default_backend": "default_backend set_default_backend",
    "errors": "BackendError CallFailed CallRefused ConnectionFailed InvalidOutput NotStarted Overloaded ProgramError "
    "SapwoodError ServerError TimedOut",
    "fork": "Forks",
    "program": "Function function run",
    "roles": "assistant assistant_begin assistant_end role system system_begin system_end user user_begin user_end",
    "runtime": "Runtime",
    "state": "State",
    "statements": "gen gen_int gen_string image select",
    "trace": "Graph",
}
_HOMES = {name: f"sapwood.{module}" for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sapwood' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # also in the place of a submodule of this name
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
