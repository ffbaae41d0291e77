"""A small model's limits, for tests of the gateway's schemas and routes."""

from services.gateway.limits import Limits
from services.gateway.schemas.call import Terms
from shared.config import ConstraintsConfig
from shared.tool_format import HERMES

LIMITS = Limits(
    model_id="tiny",
    max_model_len=256,
    vocab_size=1000,
    max_choices=8,
    max_stop_strings=4,
    max_top_logprobs=20,
    max_logit_bias=10,
    constraints=ConstraintsConfig(),
)
TERMS = Terms(LIMITS, HERMES, tenant="tenant", fresh_seed=lambda: 42)
