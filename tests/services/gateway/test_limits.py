import pytest

from services.gateway.limits import Limits
from shared.config import Config, GatewayConfig, SchedulerConfig
from tests.support.gateway_terms import LIMITS


def test_limits_come_from_the_configuration_and_the_card(tiny_card):
    assert (
        Limits.of(Config(gateway=GatewayConfig(max_choices=8, max_stop_strings=4, max_logit_bias=10)), tiny_card)
        == LIMITS
    )


def test_no_request_has_more_outputs_than_may_be_open(tiny_card):
    assert Limits.of(Config(gateway=GatewayConfig(max_choices=8, max_open_requests=3)), tiny_card).max_choices == 3


@pytest.mark.parametrize(
    ("keys", "expected"), [({}, 64), ({"api_keys": ("sk-1",)}, 56), ({"admin_key": "sk-root"}, 56)]
)
def test_no_request_has_more_outputs_than_the_queue_takes_of_one_tenant(tiny_card, keys, expected):
    config = Config(gateway=GatewayConfig(**keys), scheduler=SchedulerConfig(max_queued_requests=64))
    assert Limits.of(config, tiny_card).max_choices == expected
