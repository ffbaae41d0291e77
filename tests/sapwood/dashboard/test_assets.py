import re

from sapwood.dashboard.assets import PAGE, assets


def test_all_that_the_page_names_is_there():
    page = assets()[PAGE].body.decode()
    named = set(re.findall(r'(?:src|href)="([^"]+)"', page))
    assert named
    assert {name.removeprefix("dashboard/assets/") for name in named} <= assets().keys()
    for name, asset in assets().items():
        parts = re.findall(r'(?:from "|new URL\(")\./([^"]+)"', asset.body.decode())
        assert set(parts) <= assets().keys(), name


def test_nothing_comes_from_elsewhere():
    for name, asset in assets().items():
        found = re.findall(rb"(?:https?:)?//[a-z][a-z.]+[a-z]{2}\b[^ ]*", asset.body)
        assert [place for place in found if b"www.w3.org/2000/svg" not in place] == [], name


def test_nothing_reads_text_as_code_or_as_elements():
    for name, asset in assets().items():
        for way in (b"innerHTML", b"outerHTML", b"insertAdjacentHTML", b"document.write", b"eval(", b"new Function"):
            assert way not in asset.body, name


def test_the_page_has_no_code_of_its_own():
    """Its security policy would not run it."""
    page = assets()[PAGE].body.decode()
    assert re.findall(r"<script(?![^>]* src=)", page) == []
    assert " style=" not in page
    assert re.findall(r"\son[a-z]+=", page) == []
