"""Health, metrics, models, and who may ask, over HTTP."""

import json
import re
from typing import get_args, get_type_hints

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sapwood import __version__
from services.gateway import operation_routes
from services.gateway.openapi.replies import UnwellProcess
from shared import supervise, wire
from tests.support.fake_pipeline import POOL
from tests.support.served_gateway import serving


@pytest.fixture
async def served(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card) as found:
        yield found


def key(token):
    return {"headers": {"Authorization": f"Bearer {token}"}}


async def samples(served):
    async with served.client.get("/metrics") as response:
        text = await response.text()
    families = list(text_string_to_metric_families(text))
    assert all(family.documentation and family.type != "unknown" for family in families)
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value for family in families for sample in family.samples
    }


# --- health ----------------------------------------------------------------------------------------------------------


async def test_health(served):
    status, reply, _ = await served.get("/health")
    assert (status, reply) == (200, {"version": __version__, "status": "healthy"})


async def test_a_stage_that_is_gone_or_hangs_is_named(served):
    served.pipeline.step_age_s = 45.0

    async def all_troubles():
        status, reply, _ = await served.get("/health")
        return status == 503 and reply["status"] == "unhealthy" and len(reply["stages"]) == 3

    await served.until(all_troubles)
    _, reply, _ = await served.get("/health")
    assert reply["stages"] == dict.fromkeys(("tokenizer", "scheduler", "detokenizer"), "no progress for 45 s")


async def test_ready_says_what_is_missing(served):
    served.pipeline.kill("tokenizer-1")
    await served.until(lambda: served.gateway.progress().peers["tokenizer"] == 0)
    status, reply, _ = await served.get("/ready")
    lost = {"tokenizer": {"missing_s": reply["stages"]["tokenizer"]["missing_s"], "lost": 1}}
    assert (status, reply) == (503, {"status": "not ready", "missing": ["tokenizer"], "stages": lost})
    found = await samples(served)
    assert (found["sapwood_stage_processes", "tokenizer"], found["sapwood_stage_lost_total", "tokenizer"]) == (0, 1)
    assert (found["sapwood_stage_processes", "executor"], found["sapwood_stage_lost_total", "executor"]) == (1, 0)
    status, reply, _ = await served.get("/health")
    assert (status, reply["stages"]) == (503, {"tokenizer": "none is connected"})


async def test_ready_tells_of_a_process_that_crashes_again_and_again(served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / served.config.run_dir / "status"
    folder.mkdir(parents=True)
    process = {"state": "waiting", "restarts": 4, "pause_s": 1000.0}
    (folder / "executor-2.json").write_text(json.dumps(process))
    status, reply, _ = await served.get("/ready")
    told = reply["processes"]["executor-2"]
    assert (status, reply["status"], told["state"], told["restarts"]) == (200, "ready", "waiting", 4)
    assert 900.0 < told["next_start_s"] <= 1000.0
    served.pipeline.kill("tokenizer-1")
    await served.until(lambda: served.gateway.progress().peers["tokenizer"] == 0)
    status, reply, _ = await served.get("/ready")
    assert (status, reply["missing"], list(reply["processes"])) == (503, ["tokenizer"], ["executor-2"])


def test_the_states_of_processes_are_those_that_their_supervisor_writes_down():
    told = set(get_args(get_type_hints(UnwellProcess)["state"]))
    assert told == {"stands still", *get_args(supervise.State)} - {"ready"}


async def test_health_by_generating(served):
    status, reply, _ = await served.get("/health_generate")
    assert (status, reply["status"]) == (200, "healthy")
    (submit,) = served.pipeline.submits
    assert (submit.prompt_token_ids, submit.max_new_tokens) == ((1,), 1)
    assert served.gateway.progress().running == 0


async def test_health_by_generating_when_no_token_comes(served, monkeypatch):
    monkeypatch.setattr(operation_routes, "GENERATE_TIMEOUT_S", 0.05)
    served.pipeline.auto = False
    status, reply, _ = await served.get("/health_generate")
    assert (status, reply["stages"]) == (503, {"generation": "no token within 0.05 s"})
    await served.until(lambda: served.pipeline.aborts)


async def test_health_by_generating_when_it_fails(served):
    served.pipeline.finish_error = wire.Error("the executor failed on this request", "internal_error", status=500)
    status, reply, _ = await served.get("/health_generate")
    assert (status, reply["stages"]) == (503, {"generation": "the executor failed on this request"})
    async with served.client.head("/health_generate") as response:
        assert response.status == 405


# --- metrics ---------------------------------------------------------------------------------------------------------


async def test_metrics_agree_with_the_replies(served):
    before = await samples(served)
    assert before["sapwood_cache_hit_rate",] == 0
    _, reply, _ = await served.post("/generate", {"text": "Once"})
    await served.post("/generate", {"text": "Once", "temperature": -1})
    after = await samples(served)
    assert reply["meta_info"]["cached_tokens"] == after["sapwood_cache_hit_total", "radix"] == 2
    assert after["sapwood_cache_miss_total", "radix"] == 2
    assert after["sapwood_cache_hit_rate",] == 0.5
    assert after["sapwood_prompt_tokens_total",] == 4
    assert after["sapwood_decode_tokens_total",] == 4
    assert after["sapwood_requests_total", "/generate", "ok"] == 1
    assert after["sapwood_requests_total", "/generate", "refused"] == 1
    assert after["sapwood_time_to_first_token_seconds_count",] == 1
    assert ("sapwood_request_seconds_bucket", "0.001") in after


async def test_metrics_show_the_schedulers_figures(served):
    served.pipeline.auto = False
    found = await samples(served)
    assert found["sapwood_running_requests",] == 0
    assert found["sapwood_kv_free_tokens",] == 20
    assert found["sapwood_kv_pinned_tokens",] == 60
    assert found["sapwood_cache_tokens",] == 100
    assert found["sapwood_kv_capacity_tokens",] == 120
    assert found["sapwood_kv_protected_tokens",] == 10
    assert found["sapwood_cache_namespaces", "full"] == found["sapwood_cache_namespaces", "cheap"] == 2
    assert found["sapwood_cache_evicted_tokens_total",] == 14
    assert found["sapwood_executor_kv_pinned_tokens", "executor-2"] == 30
    assert found["sapwood_executor_running_requests", "executor-1"] == 1


async def test_an_executor_that_is_gone_is_gone_from_the_labels(served):
    assert ("sapwood_executor_kv_free_tokens", "executor-2") in await samples(served)
    served.pipeline.admin_payload["counters"] = {"executors": {"executor-1": POOL}}
    found = await samples(served)
    assert ("sapwood_executor_kv_free_tokens", "executor-2") not in found
    assert found["sapwood_executor_kv_free_tokens", "executor-1"] == found["sapwood_kv_free_tokens",] == 10


async def test_the_hit_rate_rises_with_a_second_request_of_the_same_prefix(served):
    served.pipeline.cached_tokens = 0
    await served.post("/generate", {"text": "Once upon a time"})
    before = await samples(served)
    served.pipeline.cached_tokens = 15
    await served.post("/generate", {"text": "Once upon a time"})
    after = await samples(served)
    assert (before["sapwood_cache_hit_rate",], after["sapwood_cache_hit_rate",]) == (0, 15 / 32)


async def test_sglangs_names_are_there_if_asked_for(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, sglang_metrics=True) as served:
        await served.post("/generate", {"text": "Once"})
        found = await samples(served)
    assert found["sglang:cache_hit_rate", "tiny"] == 0.5
    assert found["sglang:prompt_tokens_total", "tiny"] == found["sglang:generation_tokens_total", "tiny"] == 4
    assert found["sapwood_decode_tokens_total",] == 4


async def test_vllms_names_are_there_if_asked_for(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, vllm_metrics=True) as served:
        assert ("vllm:num_requests_waiting", "tiny") in await samples(served)


async def test_without_being_asked_for_they_are_not(served):
    assert not any(name.startswith(("sglang", "vllm")) for name, *_ in await samples(served))


async def test_metrics_are_there_without_a_scheduler(served):
    served.pipeline.kill_scheduler()
    assert ("sapwood_open_requests",) in await samples(served)


async def test_metrics_can_be_off(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, enable_metrics=False) as served:
        assert (await served.get("/metrics"))[0] == 404


# --- looking around --------------------------------------------------------------------------------------------------


async def test_models(served):
    _, listed, _ = await served.get("/v1/models")
    (model,) = listed["data"]
    assert (model["id"], model["object"], model["max_model_len"]) == ("tiny", "model", 256)
    assert (await served.get("/v1/models/tiny"))[1] == model
    status, reply, _ = await served.get("/v1/models/org/other")
    assert (status, reply["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("path", ["/model_info", "/get_model_info"])
async def test_model_info(served, path):
    _, reply, _ = await served.get(path)
    assert (reply["model_path"], reply["is_generation"], reply["max_model_len"]) == ("nowhere", True, 256)


async def test_server_info(served):
    _, reply, _ = await served.get("/server_info")
    assert reply["version"] == __version__
    assert reply["stages"]["executor"] == 1
    assert reply["executors"] == {"executor-1": {"model_id": "tiny"}}


async def test_without_a_scheduler_nothing_can_be_asked(served):
    served.pipeline.kill_scheduler()
    status, reply, _ = await served.get("/server_info")
    assert (status, reply["error"]["code"]) == (503, "unavailable")


# --- keys ------------------------------------------------------------------------------------------------------------


async def test_with_keys_nothing_but_the_probes_answers_without_one(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, api_keys=("sk-1",), admin_key="sk-root") as served:
        paths = {re.sub("{.*}", "x", route.resource.canonical) for route in served.routes} | {"/nowhere"}
        for path in paths - {"/health", "/ready"}:
            for method in ("GET", "POST", "DELETE", "OPTIONS", "PATCH"):
                async with served.client.request(method, path, json={"text": "x"}) as response:
                    scheme = "Basic" if method == "GET" and path.startswith("/dashboard") else "Bearer"
                    assert (response.status, response.headers["WWW-Authenticate"].split()[0]) == (401, scheme), path
                    assert (await response.json())["error"]["type"] == "authentication_error"
                    assert response.headers["x-request-id"]
                    assert "Allow" not in response.headers
        assert (await served.post("/generate", {"text": "x"}, **key("sk-2")))[0] == 401
        assert served.pipeline.encodes == served.pipeline.admins == []


async def test_who_has_no_key_is_told_the_status_alone(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, api_keys=("sk-1",)) as served:
        assert (await served.get("/health"))[:2] == (200, {"status": "healthy"})
        assert (await served.get("/ready"))[:2] == (200, {"status": "ready"})
        served.pipeline.kill("tokenizer-1")
        await served.until(lambda: served.gateway.progress().peers["tokenizer"] == 0)
        assert (await served.get("/health"))[:2] == (503, {"status": "unhealthy"})
        assert (await served.get("/ready"))[:2] == (503, {"status": "not ready"})
        assert "stages" in (await served.get("/health", **key("sk-1")))[1]


@pytest.mark.parametrize(
    ("settings", "token", "status"),
    [
        ({"api_keys": ("sk-1",), "admin_key": "sk-root"}, None, 401),
        ({"api_keys": ("sk-1",), "admin_key": "sk-root"}, "sk-1", 403),
        ({"api_keys": ("sk-1",), "admin_key": "sk-root"}, "sk-root", 200),
        ({"api_keys": ("sk-1",)}, "sk-1", 403),
        ({"admin_key": "sk-root"}, None, 403),
        ({"api_keys": ("sk-1",), "public_metrics": True}, None, 200),
        ({}, None, 200),
    ],
)
async def test_metrics_tell_of_all_tenants(tmp_path, tiny_card, settings, token, status):
    headers = key(token) if token else {}
    async with serving(tmp_path, tiny_card, **settings) as served, served.client.get("/metrics", **headers) as response:
        assert response.status == status


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer sk-1"},
        {"Authorization": "bearer  sk-1 "},
        {"x-api-key": "sk-1"},
        {"api-key": "sk-1"},
        {"Authorization": "Basic eDp5", "X-Api-Key": "sk-1"},
    ],
)
async def test_keys_where_each_kind_of_client_puts_them(tmp_path, tiny_card, headers):
    async with serving(tmp_path, tiny_card, api_keys=("sk-1",)) as served:
        assert (await served.get("/v1/models", headers=headers))[0] == 200
        wrong = {name: f"{value.strip()}2" for name, value in headers.items()}
        assert (await served.get("/v1/models", headers=wrong))[0] == 401


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "api-key"])
async def test_two_headers_of_one_name_are_no_key(tmp_path, tiny_card, name):
    async with serving(tmp_path, tiny_card, api_keys=("sk-1",)) as served:
        status, reply, _ = await served.get("/v1/models", headers=[(name, "Bearer sk-1"), (name, "Bearer sk-1")])
        assert (status, reply["error"]["code"]) == (401, "invalid_api_key")
        assert "more than once" in reply["error"]["message"]


async def test_health_is_told_whatever_keys_come(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, api_keys=("sk-1",)) as served:
        for name in ("Authorization", "x-api-key"):
            two = [(name, "Bearer sk-1"), (name, "Bearer sk-1")]
            assert (await served.get("/health", headers=two))[:2] == (200, {"status": "healthy"})
            assert (await served.get("/ready", headers=two))[:2] == (200, {"status": "ready"})


async def test_unknown_parameters_are_refused_but_for_probes(served):
    status, reply, _ = await served.get("/cache?limt=3")
    assert (status, reply["error"]["param"], reply["error"]["code"]) == (400, "limt", "unknown_parameter")
    assert (await served.get("/health?x=1"))[0] == 200
    assert (await served.get("/nowhere?x=1"))[0] == 404


@pytest.mark.parametrize(
    ("path", "status"), [("/health", 200), ("/v1/models", 200), ("/metrics", 200), ("/flush_cache", 405)]
)
async def test_head_is_answered_where_get_changes_nothing(served, path, status):
    async with served.client.head(path) as response:
        assert (response.status, await response.read()) == (status, b"")
    assert all(admin.op != "flush" for admin in served.pipeline.admins)


async def test_a_key_is_a_namespace_and_no_admin(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, api_keys=("sk-1", "sk-2"), admin_key="sk-root") as served:
        for token in ("sk-1", "sk-2", "sk-root"):
            assert (await served.post("/generate", {"text": "x"}, **key(token)))[0] == 200
        namespaces = [encode.namespace for encode in served.pipeline.encodes]
        assert len(set(namespaces)) == 3
        assert all(namespaces)


@pytest.mark.parametrize(
    ("method", "path"),
    [("post", "/flush_cache"), ("get", "/flush_cache"), ("get", "/cache"), ("get", "/server_info")],
)
async def test_what_every_stage_pays_for_needs_the_admin_key(tmp_path, tiny_card, method, path):
    async with serving(tmp_path, tiny_card, api_keys=("sk-1",), admin_key="sk-root") as served:
        status, reply, _ = await getattr(served, method)(path, **key("sk-1"))
        assert (status, reply["error"]["type"]) == (403, "permission_error")
        assert (await getattr(served, method)(path, **key("sk-root")))[0] == 200
