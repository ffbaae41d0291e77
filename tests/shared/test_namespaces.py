"""What the names of namespaces and tenants say."""

import pytest

from shared.namespaces import MAX_WEIGHT, namespace, tenant_of, weight_of, weighted


def test_divisions_are_their_tenants():
    for tenant in ("", "t", "t*4"):
        assert tenant_of(namespace(tenant)) == tenant
        assert tenant_of(namespace(tenant, "a", "b")) == tenant


@pytest.mark.parametrize("weight", [0, 1, 2, MAX_WEIGHT])
def test_a_tenants_name_says_its_weight(weight):
    assert weight_of(weighted("t", weight)) == weight


def test_of_weight_one_nothing_is_said():
    assert weighted("t", 1) == "t"


@pytest.mark.parametrize("tenant", ["", "t", "t*", "t*x", "t*-4", "t*1000", "t*" + "9" * 5000, "t*1.5", "t*²"])
def test_names_that_say_nothing_of_it_weigh_one(tenant):
    assert weight_of(tenant) == 1


def test_namespaces_are_a_tenants_own():
    assert namespace("", None, None) == ""
    assert namespace("t", "", None) == "t"
    assert namespace("t", "a", None) != namespace("t", None, "a")
    assert namespace("t", "a", "b") != namespace("t", "ab", None)
    assert namespace("t", "a", None) != namespace("u", "a", None)
