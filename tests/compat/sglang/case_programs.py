"""Programs of SGLang's frontend: gen, select by its three methods, fork, run_batch, regex, types, stream."""

import os
import re

import sglang as sgl

sgl.set_default_backend(sgl.RuntimeEndpoint(os.environ["SERVER_URL"]))


@sgl.function
def capital(s, country):
    s += f"The capital of Germany is Berlin. The capital of {country} is"
    s += sgl.gen("city", max_tokens=4, temperature=0, stop=[".", ","], return_logprob=True)


@sgl.function
def chosen(s, method):
    s += "The capital of France is"
    s += sgl.select("city", choices=[" Paris", " Washington", " Rome"], choices_method=method)


@sgl.function
def two_ways(s):
    s += "The colours of the French flag are"
    forks = s.fork(2)
    for fork, start in zip(forks, (" blue", " red"), strict=True):
        fork += start + sgl.gen("more", max_tokens=4, temperature=0)
    s += " | ".join(fork["more"] for fork in forks)


@sgl.function
def constrained(s):
    s += "The year, the count and the truth: "
    s += sgl.gen("year", regex=r"(19|20)[0-9]{2}", max_tokens=10, temperature=0)
    s += " " + sgl.gen("count", dtype=int, max_tokens=8, temperature=0)
    s += " " + sgl.gen("truth", dtype=bool, max_tokens=8, temperature=0)


@sgl.function
def turns(s):
    s += sgl.system("Be short.") + sgl.user("What is the capital of France?")
    s += sgl.assistant(sgl.gen("answer", max_tokens=16, temperature=0))


@sgl.function
def wrong(s):
    s += "x" + sgl.gen("y", regex="(?=a)b", max_tokens=4)  # not regular


state = capital.run(country="France")
assert state["city"].strip() == "Paris", state["city"]
meta = state.get_meta_info("city")
assert len(meta["output_token_logprobs"]) == meta["completion_tokens"]
assert all(logprob <= 0 for logprob, *_ in meta["output_token_logprobs"])

for method in (
    sgl.token_length_normalized,
    sgl.greedy_token_selection,
    sgl.unconditional_likelihood_normalized,
):
    assert chosen.run(method=method)["city"] == " Paris", method

assert len(two_ways.run().text().split(" | ")) == 2

countries = ["France", "Italy", "Spain", "France"]
batch = capital.run_batch([{"country": country} for country in countries], num_threads=4)
assert [one["city"] for one in batch] == [capital.run(country=country)["city"] for country in countries]

state = constrained.run()
assert re.fullmatch("(19|20)[0-9]{2}", state["year"])
int(state["count"])
assert state["truth"] in ("True", "False")

state = capital.run(country="France", stream=True)
assert "".join(state.text_iter("city")) == state["city"]
assert turns.run()["answer"]

assert isinstance(wrong.run().error(), RuntimeError)
backend = sgl.global_config.default_backend
assert backend.get_server_info()
backend.cache_prefix("The capital of France is")
backend.flush_cache()
