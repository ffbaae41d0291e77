import pytest

from shared.nearest import did_you_mean

KNOWN = {"tools", "temperature", "chat_template", "api-version"}


@pytest.mark.parametrize("name", ["temprature", "temperatur", "temperature_"])
def test_a_slip_of_the_finger_is_understood(name):
    assert did_you_mean(name, KNOWN) == "; did you mean 'temperature'?"


@pytest.mark.parametrize("name", ["foo", "", "plate", "kind"])
def test_a_name_like_no_other_is_not_compared(name):
    assert did_you_mean(name, KNOWN) == ""


def test_nothing_is_near_where_nothing_is_known():
    assert did_you_mean("foo", []) == ""
