"""What the prefix cache is measured with: workloads, a runner, traces, and what an ideal cache would reuse of them."""
