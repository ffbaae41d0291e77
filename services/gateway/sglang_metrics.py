"""SGLang's names for the main figures, among them those that the Kubernetes inference gateway reads of SGLang."""

from services.gateway.alias_metrics import Names

SGLANG = Names(
    gauges={
        "sglang:cache_hit_rate": "sapwood_cache_hit_rate",
        "sglang:token_usage": "sapwood_kv_usage_ratio",
        "sglang:num_running_reqs": "sapwood_running_requests",
        "sglang:num_queue_reqs": "sapwood_waiting_requests",
        "sglang:num_used_tokens": "sapwood_kv_pinned_tokens",
        "sglang:max_total_num_tokens": "sapwood_kv_capacity_tokens",
    },
    counters={
        "sglang:prompt_tokens": "sapwood_prompt_tokens_total",
        "sglang:generation_tokens": "sapwood_decode_tokens_total",
        "sglang:num_requests": "sapwood_request_seconds_count",  # generations that have ended
    },
    histograms={
        "sglang:time_to_first_token_seconds": "sapwood_time_to_first_token_seconds",
        "sglang:inter_token_latency_seconds": "sapwood_inter_token_seconds",
        "sglang:e2e_request_latency_seconds": "sapwood_request_seconds",
    },
    pages=("sglang:cache_config_info", "page_size", "num_pages"),
)
