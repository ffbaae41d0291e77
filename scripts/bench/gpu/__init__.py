"""What `gpu_check` checks and measures on a CUDA device."""
