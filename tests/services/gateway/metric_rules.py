"""The rules of `promtool check metrics` for names, over an exposition in text, for where promtool is not installed."""

import re

OTHER_UNITS = {
    *("milliseconds", "microseconds", "nanoseconds", "minutes", "hours", "days", "weeks"),
    *("kilobytes", "megabytes", "gigabytes", "kibibytes", "mebibytes", "gibibytes", "bits"),
    *("percent", "percentage", "fahrenheit", "kelvin", "millivolts", "kilometers", "grams"),
}
ABBREVIATIONS = {*("s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d")}
TYPES = ("counter", "gauge", "histogram", "summary", "untyped")
PARTS = ("_bucket", "_sum", "_count")


def problems(text):
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    families = {_family(sample, kinds) for sample in re.findall(r"^([^\s#{]+)", text, re.MULTILINE)}
    return [
        f"{name}: {problem}"
        for name in sorted(families | kinds.keys())
        for problem in _of(name, kinds.get(name, "untyped"), helps.get(name, ""))
    ]


def _family(sample, kinds):
    whole = next((sample.removesuffix(part) for part in PARTS if sample.endswith(part)), sample)
    return whole if kinds.get(whole) == "histogram" else sample


def _of(name, kind, help_text):
    words = set(name.split("_"))
    if not help_text.strip():
        yield "no help text"
    if kind == "untyped":
        yield "no type"
    if (kind == "counter") != name.endswith("_total"):
        yield "_total is for counters, and for all of them"
    if name.endswith(PARTS):
        yield "ends like a part of a histogram"
    if words & set(TYPES):
        yield "its type stands in the name"
    if ":" in name:
        yield "a colon is for recording rules"
    if re.search(r"[a-z][A-Z]", name):
        yield "written in camelCase"
    if words & OTHER_UNITS:
        yield "not in base units"
    if words & ABBREVIATIONS:
        yield "an abbreviated unit"
