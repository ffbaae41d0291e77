"""The record of a run: one JSON line for each request. Knows nothing of the server or of what made the requests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Record:
    workload: str
    request_id: str
    namespace: str  # requests of different namespaces share nothing
    submitted_s: float  # since the run began
    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    cached_tokens: int  # of the prompt, as the server says
    ttft_s: float
    total_s: float

    @property
    def token_ids(self) -> tuple[int, ...]:
        """All that the request leaves behind.

        The last output token counts, although no server has computed it when the request ends: the ideal is one token
        a turn out of reach.
        """
        return self.prompt_ids + self.output_ids


def by_submission(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: record.submitted_s)


def as_served(records: Iterable[Record]) -> list[Record]:
    """In the order of the first tokens: a server may serve out of turn what is cached."""
    return sorted(records, key=lambda record: record.submitted_s + record.ttft_s)


def append(path: Path, records: Iterable[Record]) -> None:
    with path.open("a") as file:
        for record in records:
            file.write(json.dumps(asdict(record)) + "\n")


def read(path: Path) -> list[Record]:
    with path.open() as file:
        return [_record(json.loads(line)) for line in file]


def _record(fields: dict[str, Any]) -> Record:
    ids = {name: tuple(fields[name]) for name in ("prompt_ids", "output_ids")}
    return Record(**(fields | ids))
