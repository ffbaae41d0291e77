"""vLLM's names for the main figures: those that the Kubernetes inference gateway looks for by default."""

from services.gateway.alias_metrics import Names

VLLM = Names(
    gauges={
        "vllm:num_requests_running": "sapwood_running_requests",
        "vllm:num_requests_waiting": "sapwood_waiting_requests",
        "vllm:kv_cache_usage_perc": "sapwood_kv_usage_ratio",  # a share there, too
    },
    counters={
        "vllm:prompt_tokens": "sapwood_prompt_tokens_total",
        "vllm:generation_tokens": "sapwood_decode_tokens_total",
    },
    histograms={
        "vllm:time_to_first_token_seconds": "sapwood_time_to_first_token_seconds",
        "vllm:inter_token_latency_seconds": "sapwood_inter_token_seconds",
        "vllm:e2e_request_latency_seconds": "sapwood_request_seconds",
    },
    pages=("vllm:cache_config_info", "block_size", "num_gpu_blocks"),
    constants={  # there are no adapters: whoever asks is told so
        "vllm:lora_requests_info": {"max_lora": "0", "running_lora_adapters": "", "waiting_lora_adapters": ""}
    },
)
