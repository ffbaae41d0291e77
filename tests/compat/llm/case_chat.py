"""The command, set up as documented: prompts, a conversation, usage, a schema, log-probabilities, errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

folder = Path(os.environ["LLM_USER_PATH"])
folder.mkdir(parents=True, exist_ok=True)
(folder / "extra-openai-models.yaml").write_text(
    f"""
- model_id: ours
  model_name: {os.environ["MODEL"]}
  api_base: "{os.environ["SERVER_URL"]}/v1"
  supports_schema: true
  supports_tools: true
- model_id: ours-plain
  model_name: {os.environ["MODEL"]}
  api_base: "{os.environ["SERVER_URL"]}/v1"
  completion: true
- model_id: missing
  model_name: other
  api_base: "{os.environ["SERVER_URL"]}/v1"
"""
)


def llm(*arguments, succeeds=True):
    done = subprocess.run([sys.executable, "-m", "llm", *arguments], capture_output=True, text=True, input="")
    assert (done.returncode == 0) is succeeds, done.stdout + done.stderr
    return done.stdout if succeeds else done.stderr


llm("keys", "set", "openai", "--value", "unused")
greedy = ("-o", "temperature", "0", "-o", "max_tokens", "40")
question = "What is the capital of France?"
streamed = llm("-m", "ours", question, *greedy)
assert "Paris" in streamed
assert llm("-m", "ours", question, *greedy, "--no-stream") == streamed
assert llm("-c", "Are you sure?", *greedy).strip()
logged = json.loads(llm("logs", "list", "--json", "-n", "3"))
assert all(entry["input_tokens"] > 0 and entry["output_tokens"] > 0 for entry in logged), logged

schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]}
schema["additionalProperties"] = False
assert json.loads(llm("-m", "ours", question, *greedy, "--schema", json.dumps(schema)))["city"] in ("Paris", "Rome")

short = ("-o", "temperature", "0", "-o", "max_tokens", "5")
answer = llm("-m", "ours-plain", "Paris is", *short, "-o", "logprobs", "2").removesuffix("\n")
(logged,) = json.loads(llm("logs", "list", "--json", "-n", "1"))
assert "".join(entry["text"] for entry in logged["response_json"]["logprobs"]) == answer
assert "does not exist" in llm("-m", "missing", question, succeeds=False)
assert "too long" in llm("-m", "ours", "word " * 9000, succeeds=False)
