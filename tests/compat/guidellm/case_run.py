"""A short run on synthetic text, at both routes: every request succeeds, and its figures are those asked for."""

import json
import os
import subprocess
import sys
from pathlib import Path

REQUESTS, OUTPUT_TOKENS = 4, 8

for route in ("/v1/chat/completions", "/v1/completions"):
    backend = f"kind=openai_http,target={os.environ['SERVER_URL']},model={os.environ['MODEL']},request_format={route}"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "guidellm", "run", "--disable-console"),
            *("--backend", backend),
            *("--profile", "kind=concurrent,streams=2"),
            *("--constraint", f"kind=max_requests,count={REQUESTS}"),
            *("--tokenizer", f"kind=huggingface_auto,model={os.environ['MODEL_FOLDER']}"),
            *("--data", f"kind=synthetic_text,prompt_tokens=32,output_tokens={OUTPUT_TOKENS}"),
            *("--output", "kind=json,path=report.json"),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (benchmark,) = json.loads(Path("report.json").read_text())["benchmarks"]
    assert (len(benchmark["requests"]["successful"]), benchmark["requests"]["errored"]) == (REQUESTS, []), benchmark
    assert {request["output_tokens"] for request in benchmark["requests"]["successful"]} == {OUTPUT_TOKENS}
