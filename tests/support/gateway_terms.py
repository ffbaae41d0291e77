"""A small model's limits, for tests of the gateway's schemas and routes."""

from services.gateway.limits import Limits
from services.gateway.schemas.call import Terms

LIMITS = Limits(
    model_id="tiny",
    max_model_len=256,
    vocab_size=1000,
    max_stop_strings=4,
    max_top_logprobs=20,
    max_logit_bias=10,
)
TERMS = Terms(LIMITS, tenant="tenant", fresh_seed=42)
