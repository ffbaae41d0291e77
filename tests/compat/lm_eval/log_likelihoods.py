"""What its own client says of the pairs, context and continuation, in a file: token ids and log-likelihood of each."""

import json
import os
import sys
from pathlib import Path

from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI

source, target = map(Path, sys.argv[1:])
pairs = [tuple(pair) for pair in json.loads(source.read_text())]
model = LocalCompletionsAPI(
    model=os.environ["MODEL"],
    base_url=f"{os.environ['SERVER_URL']}/v1/completions",
    tokenizer_backend="remote",
    max_retries=1,
    batch_size=4,
)
requests = [Instance("loglikelihood", {}, pair, index) for index, pair in enumerate(pairs)]
scores = []
for pair, (log_likelihood, _) in zip(pairs, model.loglikelihood(requests), strict=True):
    context, continuation = model._encode_pair(*pair)
    scores.append({"context": context, "continuation": continuation, "log_likelihood": log_likelihood})
target.write_text(json.dumps(scores))
