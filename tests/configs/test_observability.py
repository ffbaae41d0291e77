"""Alerts and dashboards name what there is: metrics, log events and fields, sections of docs/operate.md, files."""

import json
import re
import shutil
import subprocess

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from scripts.dashboards import DASHBOARDS, FOLDER, text
from services.gateway.metrics import Metrics
from shared.config import load

OBSERVABILITY = FOLDER.parents[1]
LABELS = {"job", "stage", "service", "event", "level"}  # what vector.yml gives a line
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def targets(source):
    panels = [panel for board in DASHBOARDS.values() for panel in board["panels"]]
    return [target["expr"] for panel in panels for target in panel["targets"] if target["datasource"]["uid"] == source]


def alerts():
    (group,) = yaml.safe_load((OBSERVABILITY / "alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def metrics():
    families = list(text_string_to_metric_families(Metrics().text(0).decode()))
    samples = {sample.name for family in families for sample in family.samples}
    return samples | {family.name + "_total" * (family.type == "counter") for family in families}


def of_sapwood(words):
    return set(re.findall(r"\bsapwood_\w+", words))


def promtool(*arguments):
    done = subprocess.run(["promtool", *arguments], cwd=OBSERVABILITY, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


# --- names -----------------------------------------------------------------------------------------------------------


def test_metrics_that_are_asked_for_exist(repository):
    asked = of_sapwood(" ".join(targets("prometheus")) + (OBSERVABILITY / "alerts.yml").read_text())
    tried = of_sapwood((OBSERVABILITY / "alerts_test.yml").read_text())
    documented = of_sapwood((repository / "docs/operate.md").read_text())
    assert {"sapwood_kv_usage_ratio", "sapwood_request_seconds_bucket"} <= asked
    assert (asked | tried | documented) - metrics() == set()


def test_log_fields_and_events_that_are_asked_for_are_documented(repository):
    asked = " ".join(targets("loki"))
    fields = set(re.findall(r'(\w+)="\1"', asked))
    events = set(re.findall(r'event="(\w+)"', asked))
    documented = set(re.findall(r"\w+", (repository / "docs/logs.md").read_text()))
    assert {"queue_s", "forward_s", "error"} <= fields
    assert (fields | events) - documented == set()
    assert set(re.findall(r"(?:unwrap |by \()(\w+)", asked)) <= fields | LABELS


def test_lines_without_a_figure_are_not_compared():
    """Loki keeps a line whose value is no number, whatever it is compared with."""
    compared = [(asked, field) for asked in targets("loki") for field in re.findall(r"(\w+) > \d", asked)]
    assert {field for _, field in compared} == {"ttft_s", "attempts"}
    assert all(f'({field} != "" and {field} > ' in asked for asked, field in compared)


def test_each_alert_has_a_section_for_who_is_called(repository):
    sections = re.findall(r"^### (Sapwood\w+)$", (repository / "docs/operate.md").read_text(), re.MULTILINE)
    assert sections == list(alerts())


def test_each_alert_is_tried_when_it_should_fire_and_when_not():
    tests = yaml.safe_load((OBSERVABILITY / "alerts_test.yml").read_text())["tests"]
    cases = [case for test in tests for case in test["alert_rule_test"]]
    for fires in (True, False):
        assert {case["alertname"] for case in cases if bool(case.get("exp_alerts")) == fires} == alerts().keys()


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(DASHBOARDS))
def test_the_dashboards_are_as_the_script_makes_them(name):
    assert (FOLDER / name).read_text() == text(name), "run python scripts/dashboards.py"
    assert json.loads(text(name))["uid"].startswith("sapwood-")


def test_panels_ask_sources_that_are_provisioned():
    sources = yaml.safe_load((OBSERVABILITY / "grafana/datasources.yml").read_text())["datasources"]
    panels = [panel for board in DASHBOARDS.values() for panel in board["panels"]]
    assert {panel["datasource"]["uid"] for panel in panels} == {source["uid"] for source in sources}
    assert all(panel["targets"] for panel in panels)


def test_compose_mounts_what_is_here(repository):
    services = yaml.safe_load((repository / "docker-compose.yml").read_text())["services"]
    ours = {name: service for name, service in services.items() if service.get("profiles") == ["observability"]}
    mounted = [volume.split(":")[0] for service in ours.values() for volume in service["volumes"]]
    files = [path for path in mounted if path.startswith("./")]
    assert len(files) == 7
    assert all((repository / path).exists() for path in files)
    assert set(ours) == {"prometheus", "loki", "vector", "grafana"}
    assert [name for name, service in ours.items() if "ports" in service] == ["grafana"]


def test_each_reads_the_configuration_that_is_mounted(repository):
    services = yaml.safe_load((repository / "docker-compose.yml").read_text())["services"]
    for name in ("prometheus", "loki", "vector"):
        (path,) = re.findall(r"/etc/\S+", " ".join(services[name]["command"]))
        assert f"./configs/observability/{path.rpartition('/')[2]}:{path}:ro" in services[name]["volumes"]
        assert re.search(r":v?\d+\.\d+\.\d+", services[name]["image"])


def test_the_lines_that_are_shipped_are_where_they_are_written(repository):
    (source,) = yaml.safe_load((OBSERVABILITY / "vector.yml").read_text())["sources"].values()
    directory = load(repository / "configs/compose.yaml").logging.directory
    assert source["include"] == [f"{directory}/*.jsonl"]
    services = yaml.safe_load((repository / "docker-compose.yml").read_text())["services"]
    assert f"logs:{directory}:ro" in services["vector"]["volumes"]


# --- what promtool says ----------------------------------------------------------------------------------------------


@needs_promtool
def test_alerts_fire_when_they_should():
    assert promtool("test", "rules", "alerts_test.yml") == (0, "")


@needs_promtool
def test_prometheus_takes_its_configuration():
    assert promtool("check", "config", "--syntax-only", "prometheus.yml") == (0, "")


@needs_promtool
def test_what_the_dashboards_ask_is_promql(tmp_path):
    asked = [expression.replace("$__rate_interval", "5m") for expression in targets("prometheus")]
    rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(asked)]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    assert promtool("check", "rules", "--lint=none", str(tmp_path / "rules.yml")) == (0, "")
