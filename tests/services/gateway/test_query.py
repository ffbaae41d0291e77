import pytest
from multidict import MultiDict

from services.gateway.errors import InvalidRequest
from services.gateway.query import CacheQuery, FlushQuery, NoQuery, read_query


def test_values_are_text_that_is_read_as_what_is_expected():
    assert read_query("/cache", {"limit": "7"}) == CacheQuery(7)
    assert read_query("/flush_cache", {"timeout": "0.5"}) == FlushQuery(0.5)
    assert read_query("/cache", {}) == CacheQuery()
    assert read_query("/v1/models", {}) == NoQuery()


def test_what_some_clients_always_send_is_let_through():
    assert read_query("/v1/messages", {"beta": "true", "api-version": "2024-02-01"}) == NoQuery()


@pytest.mark.parametrize(
    ("route", "raw", "name"),
    [
        ("/cache", {"limt": "7"}, "limt"),
        ("/v1/models", {"limit": "7"}, "limit"),
        ("/flush_cache", {"timeout": "soon"}, "timeout"),
        ("/flush_cache", {"timeout": "nan"}, "timeout"),
        ("/cache", MultiDict([("limit", "1"), ("limit", "2")]), "limit"),
    ],
)
def test_all_else_is_refused_by_name(route, raw, name):
    with pytest.raises(InvalidRequest) as caught:
        read_query(route, raw)
    assert caught.value.error.param == name


def test_the_nearest_name_is_told():
    with pytest.raises(InvalidRequest, match="did you mean 'limit'"):
        read_query("/cache", {"limt": "7"})
