"""The text of docker-compose.yml and Dockerfile: what each container may do, waits for and can be given."""

import re

import pytest
import yaml

from shared.config import load
from shared.flags import SERVICES

ONCE = ("link-keys", "prepare")
DURATION = re.compile(r"(\d+)s")


@pytest.fixture(scope="module")
def compose(repository):
    return yaml.safe_load((repository / "docker-compose.yml").read_text("utf-8"))


@pytest.fixture(scope="module")
def services(compose):
    return compose["services"]


@pytest.fixture(scope="module")
def stages(services):
    """Those that run a stage, with or without a profile."""
    return {name: service for name, service in services.items() if str(service.get("command", [""])[0]) == "run"}


def filled(environment, **given):
    """As compose fills in its variables: ${A:-otherwise} and ${A:+instead}."""

    def value(found):
        name, operator, text = found.groups()
        if operator == ":+":
            return text if given.get(name) else ""
        return given.get(name) or text

    return {key: re.sub(r"\$\{(\w+)(:[-+])([^}]*)\}", value, text) for key, text in environment.items()}


def test_every_stage_has_a_container(stages):
    assert {service["command"][1] for service in stages.values()} == set(SERVICES)
    assert set(stages) == {*SERVICES, "executor-gpu"}


def test_no_container_may_do_more_than_it_has_to(services):
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["ulimits"] == {"nofile": 20000, "nproc": 1000}
        assert service["pids_limit"]
        assert {"max-size", "max-file"} <= service["logging"]["options"].keys()
        assert name in ONCE or service["mem_limit"]


def test_only_the_gateway_is_reached_from_outside(compose, services):
    assert compose["networks"]["stages"] == {"internal": True}
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert set(published) == {"gateway", "grafana"}
    assert all(port.startswith("${") and ":-127.0.0.1:" in port for ports in published.values() for port in ports)
    assert services["grafana"]["profiles"] == ["observability"]
    for name in set(services) - set(published) - set(ONCE):
        assert services[name]["networks"] == ["stages"]
    assert all(services[name]["network_mode"] == "none" for name in ONCE)


def test_stages_in_containers_can_be_scaled(repository, stages):
    """Replicas meet at the scheduler's and the gateway's address, and have nothing that there can be only one of."""
    for stage in ("tokenizer", "executor", "detokenizer"):
        assert not {"container_name", "hostname", "ports"} & stages[stage].keys()
    config = load(repository / "configs" / "compose.yaml")
    assert config.endpoint("hub") != config.endpoint("hub_bind")


def test_how_many_there_are_of_a_stage_can_be_set_for_good(services):
    """`--scale` is for once; `down` of some engines has to know the number, too."""
    numbers = {name: service["scale"] for name, service in services.items() if "scale" in service}
    assert numbers.pop("executor-gpu") == 1
    assert set(numbers) == {"tokenizer", "executor", "detokenizer"}
    assert set(filled(numbers).values()) == {"1"}
    given = {"SAPWOOD_TOKENIZERS": "4", "SAPWOOD_EXECUTORS": "2", "SAPWOOD_DETOKENIZERS": "3"}
    assert filled(numbers, **given) == {"tokenizer": "4", "executor": "2", "detokenizer": "3"}


def test_a_container_holds_the_keys_of_its_own_role_alone(repository, services, stages):
    folder = load(repository / "configs" / "compose.yaml").links.keys_dir
    assert services["link-keys"]["command"] == ["link-keys", folder]
    assert set(services["link-keys"]["volumes"]) == {f"{role}-key:{folder}/{role}" for role in SERVICES}
    for service in stages.values():
        role = service["command"][1]
        assert [volume for volume in service["volumes"] if folder in volume] == [f"{role}-key:{folder}/{role}:ro"]


def test_what_is_compiled_is_written_by_those_alone_who_run_it(services):
    writers = {name for name, service in services.items() if "cache:/var/cache/sapwood" in service.get("volumes", ())}
    assert writers == {"prepare", "executor", "executor-gpu"}


def test_whoever_waits_for_another_waits_until_it_is_well(stages):
    for name, service in stages.items():
        assert service["healthcheck"]["test"] == ["CMD", "sapwood", "health"]
        if name != "gateway":
            assert service["depends_on"] == {job: {"condition": "service_completed_successfully"} for job in ONCE}
    others = set(SERVICES) - {"gateway"}
    assert stages["gateway"]["depends_on"] == {stage: {"condition": "service_healthy"} for stage in others}


def test_nobody_is_killed_while_the_streams_end(repository, stages):
    config = load(repository / "configs" / "compose.yaml")
    for service in stages.values():
        grace_s = int(DURATION.fullmatch(service["stop_grace_period"])[1])
        assert grace_s > config.supervisor.stop_timeout_s > config.gateway.drain_timeout_s


def test_what_can_be_set_from_outside_is_configuration(repository, stages):
    """Also where nothing is set."""
    for service in stages.values():
        config = load(repository / "configs" / "compose.yaml", environment=filled(service["environment"]))
        assert (config.model.path, config.model.name, config.executor.threads) == ("bundled", None, None)
        assert (config.gateway.api_keys_file, config.gateway.admin_key_file) == (None, None)


def test_keys_are_files(repository, compose, stages):
    given = {"SAPWOOD_GATEWAY__API_KEYS_FILE": "./keys", "SAPWOOD_GATEWAY__ADMIN_KEY_FILE": "./admin"}
    config = load(
        repository / "configs" / "compose.yaml", environment=filled(stages["gateway"]["environment"], **given)
    )
    inside = {config.gateway.api_keys_file, config.gateway.admin_key_file}
    assert inside == {f"/run/secrets/{name}" for name in stages["gateway"]["secrets"]}
    outside = [filled(compose["secrets"][name], **given)["file"] for name in stages["gateway"]["secrets"]]
    assert outside == ["./keys", "./admin"]


def test_a_profile_puts_the_executor_on_a_gpu(repository, services):
    gpu = services["executor-gpu"]
    assert gpu["profiles"] == ["gpu"]
    (device,) = gpu["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]
    assert gpu["build"]["args"]["DEVICE"] == "cuda"
    assert "cache:/var/cache/sapwood" in gpu["volumes"]
    assert gpu["environment"]["TRITON_CACHE_DIR"].startswith("/var/cache/sapwood/")
    config = load(repository / "configs" / "compose.yaml", environment=filled(gpu["environment"]))
    assert config.executor.device == "cuda"


def test_torch_without_cuda_is_what_one_gets(repository, services):
    build = (repository / "Dockerfile").read_text("utf-8")
    known = dict(re.findall(r"^ARG (\w+)=?(.*)$", build, re.MULTILINE))
    assert known["DEVICE"] == "cpu"
    for service in services.values():
        assert service.get("build", {"args": {}})["args"].keys() <= known.keys()
    alone = build.index("${TORCH_INDEX_URL:-https://download.pytorch.org/whl/cpu}")
    assert build.index('"$DEVICE" = cpu') < alone < build.index("pip install -r requirements.lock")
    assert (repository / "requirements.lock").read_text().count("\ntorch==") == 1  # what the Dockerfile looks for


def test_the_image_runs_as_nobody_in_particular_and_builds_nothing(repository):
    build, final = re.split(r"^FROM .*$", (repository / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)[1:]
    assert "pip install" in build
    assert "pip" not in final
    assert re.findall(r'if \[ "\$DEVICE" = (\w+) \]; then \\\n.*install.* (\w+) libc6-dev', final) == [("cuda", "gcc")]
    assert final.count("install --yes") == 1
    assert re.findall(r"^USER (.*)$", final, re.MULTILINE) == ["sapwood"]
    assert re.findall(r"^ENTRYPOINT (.*)$", final, re.MULTILINE) == ['["sapwood"]']
