"""What `sapwood doctor` finds: a line for each thing it looked at, and what to do about it. Knows no check."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from sapwood.commands.terminal import Paint

Level: TypeAlias = Literal["ok", "warning", "failed", "skipped"]

STYLES: dict[Level, str] = {"ok": "green", "warning": "yellow", "failed": "red", "skipped": "dim"}


class Finding(msgspec.Struct, frozen=True):
    about: str
    level: Level
    says: str
    fix: str | None = None


def ok(about: str, says: str) -> Finding:
    return Finding(about, "ok", says)


def warning(about: str, says: str, fix: str) -> Finding:
    return Finding(about, "warning", says, fix)


def failed(about: str, says: str, fix: str) -> Finding:
    return Finding(about, "failed", says, fix)


def skipped(about: str, says: str, fix: str | None = None) -> Finding:
    return Finding(about, "skipped", says, fix)


def lines(findings: Sequence[Finding], paint: Paint) -> list[str]:
    """For people."""
    width = max((len(finding.about) for finding in findings), default=0)
    return [line for finding in findings for line in _lines_of(finding, width, paint)]


def as_json(findings: Sequence[Finding]) -> str:
    failures = sum(finding.level == "failed" for finding in findings)
    return json.dumps({"healthy": not failures, "findings": msgspec.to_builtins(findings)}, indent=2)


def _lines_of(finding: Finding, width: int, paint: Paint) -> list[str]:
    level = paint(f"{finding.level:<8}", STYLES[finding.level])
    first = f"{level} {finding.about:<{width}}  {finding.says}"
    return [first] if finding.fix is None else [first, f"{'':<{width + 9}}  → {finding.fix}"]
