r"""The values of `format` that are kept, as regular expressions that match whole strings (in the engine's own syntax).

Each allows a part of what its RFC does, so that whatever comes out is valid: no leap seconds, no quoted mailboxes, no
IPv6 hosts in a URI. Groups are not captured, and there is neither `\d` nor `\w` in them.
"""

from __future__ import annotations

_YEAR = r"(?:[0-9]{3}[1-9]|[0-9]{2}[1-9][0-9]|[0-9][1-9][0-9]{2}|[1-9][0-9]{3})"
_LEAP = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAYS = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_DATE = rf"(?:{_YEAR}-{_DAYS}|{_LEAP}-02-29)"
_HOUR_MINUTE = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = rf"{_HOUR_MINUTE}:[0-5][0-9](?:\.[0-9]{{1,9}})?(?:Z|[+-]{_HOUR_MINUTE})"

_NUMBER = r"[0-9]{1,9}"
_DAY_TIME = rf"T(?:{_NUMBER}H(?:{_NUMBER}M(?:{_NUMBER}S)?)?|{_NUMBER}M(?:{_NUMBER}S)?|{_NUMBER}S)"
_DAY_DATE = rf"(?:{_NUMBER}Y(?:{_NUMBER}M(?:{_NUMBER}D)?)?|{_NUMBER}M(?:{_NUMBER}D)?|{_NUMBER}D)"

_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_HOSTNAME = rf"{_LABEL}(?:\.{_LABEL})*"
_ATOM = r"[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"(?:{_BYTE}\.){{3}}{_BYTE}"

_H16 = r"[0-9a-fA-F]{1,4}"
_IPV6 = "|".join(
    [
        rf"(?:{_H16}:){{7}}{_H16}",
        *(rf"(?:{_H16}:){{{left}}}(?::{_H16}){{1,{7 - left}}}" for left in range(1, 7)),
        rf":(?::{_H16}){{1,7}}",
        rf"(?:{_H16}:){{1,7}}:",
        "::",
    ]
)
_HEX = "[0-9a-fA-F]"


def _uuid(version: str) -> str:
    return rf"{_HEX}{{8}}-{_HEX}{{4}}-{version}{_HEX}{{3}}-[89abAB]{_HEX}{{3}}-{_HEX}{{12}}"


_BASE64 = "[a-zA-Z0-9+/]"

_PCHAR = r"(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})"
_URI = (
    rf"[a-zA-Z][a-zA-Z0-9+.-]*:(?://(?:{_HOSTNAME}|{_IPV4})(?::[0-9]{{1,5}})?(?:/{_PCHAR}*)*|/?{_PCHAR}+(?:/{_PCHAR}*)*)"
    rf"(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
)

PATTERNS: dict[str, str] = {
    "date": _DATE,
    "time": _TIME,
    "date-time": rf"{_DATE}T{_TIME}",
    "duration": rf"P(?:{_DAY_DATE}(?:{_DAY_TIME})?|{_DAY_TIME}|{_NUMBER}W)",
    "email": rf"{_ATOM}(?:\.{_ATOM})*@{_HOSTNAME}",
    "hostname": _HOSTNAME,
    "ipv4": _IPV4,
    "ipv6": f"(?:{_IPV6})",
    "uri": _URI,
    "uuid": rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}",
    # as pydantic writes them
    **{f"uuid{version}": _uuid(version) for version in "1345678"},
    "ipvanyaddress": f"(?:{_IPV4}|{_IPV6})",
    "base64": f"(?:{_BASE64}{{4}})*(?:{_BASE64}[AQgw]==|{_BASE64}{{2}}[AEIMQUYcgkosw048]=)?",
}
# Of these any string is a value: they say how it is shown or used.
ANYTHING = frozenset({"path", "file-path", "directory-path", "password", "binary", "json-string"})
MAX_LENGTHS: dict[str, int] = {"email": 254, "hostname": 253}
