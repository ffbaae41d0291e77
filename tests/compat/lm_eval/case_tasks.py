"""Tasks with data of their own: choices, generated answers, perplexity; the server's tokenizer is used from afar."""

import json
import os
from pathlib import Path

import lm_eval
from lm_eval.tasks import TaskManager

folder = Path.cwd()
documents = [
    {"country": "France", "cities": [" Paris", " Washington"], "answer": 0, "city": "Paris"},
    {"country": "Italy", "cities": [" London", " Rome"], "answer": 1, "city": "Rome"},
    {"country": "Japan", "cities": [" Tokyo", " Madrid"], "answer": 0, "city": "Tokyo"},
]
(folder / "data.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))


def task(name, **more):
    common = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(folder / "data.jsonl")}}}
    return {"task": name, "test_split": "test"} | common | more


metric = {"aggregation": "mean", "higher_is_better": True}
question = "The capital of Germany is Berlin. The capital of {{country}} is"
tasks = [
    task(
        "choices",
        output_type="multiple_choice",
        doc_to_text=question,
        doc_to_choice="{{cities}}",
        doc_to_target="{{answer}}",
        target_delimiter="",
        metric_list=[metric | {"metric": "acc"}],
    ),
    task(
        "answers",
        output_type="generate_until",
        doc_to_text=question,
        doc_to_target="{{city}}",
        generation_kwargs={"until": [".", ","], "max_gen_toks": 8, "temperature": 0},
        filter_list=[{"name": "stripped", "filter": [{"function": "remove_whitespace"}, {"function": "take_first"}]}],
        metric_list=[metric | {"metric": "exact_match"}],
    ),
    task(
        "perplexity",
        output_type="loglikelihood_rolling",
        doc_to_text="",
        doc_to_target="The capital of {{country}} is {{city}}.",
        metric_list=[{"metric": "byte_perplexity", "aggregation": "weighted_perplexity", "higher_is_better": False}],
    ),
]
results = lm_eval.simple_evaluate(
    model="local-completions",
    model_args={
        "model": os.environ["MODEL"],
        "base_url": f"{os.environ['SERVER_URL']}/v1/completions",
        "tokenizer_backend": "remote",
        "max_length": 2048,
        "max_retries": 1,
        "num_concurrent": 2,
    },
    tasks=tasks,
    task_manager=TaskManager(include_defaults=False),
    bootstrap_iters=0,
)["results"]
assert results["choices"]["acc,none"] == 1, results
assert results["answers"]["exact_match,stripped"] == 1, results
assert 1 < results["perplexity"]["byte_perplexity,none"] < 4, results
