"""How values are written in JSON that has no type for them: patterns that every reader takes. Knows no library.

Where a server keeps a `format` that is right for all readers, there is none of it here.
"""

from __future__ import annotations

INTEGER = r"-?(0|[1-9][0-9]{0,17})"
NUMBER = r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?"

YEAR, PAST_YEAR, FUTURE_YEAR = "[12][0-9]{3}", "1[0-9]{3}", "2[1-9][0-9]{2}"
_DAY = "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
_HOURS = "T([0-9]{1,4}H([0-9]{1,2}M)?([0-9]{1,2}S)?|[0-9]{1,4}M([0-9]{1,2}S)?|[0-9]{1,4}S)"
DURATION = f"P([0-9]{{1,5}}D({_HOURS})?|{_HOURS})"
URL = r"://[a-z][a-z0-9]{0,20}(\.[a-z][a-z0-9]{0,20}){1,3}(/[a-zA-Z0-9._~-]{1,40}){0,4}"


def date(year: str = YEAR) -> str:
    return f"{year}-{_DAY}"


def date_time(year: str = YEAR, offset: str = "Z") -> str:
    return f"{date(year)}T{TIME}{offset}"


def written(pattern: str) -> dict[str, str]:
    """The schema of what is written so."""
    return {"type": "string", "pattern": f"^{pattern}$"}
