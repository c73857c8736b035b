"""The container's file, Compose and the chart, as far as they can be judged without an engine or a cluster.

`make container` builds and runs the image; `make chart` renders the chart with helm. What it rendered is committed, and
judged here.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import ssl
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from msmq.server.config import Config, from_table
from msmq.server.environment import with_environment
from scripts import chart
from tests.server.support import free_port

ROOT = Path(__file__).resolve().parents[2]
CONTAINER = ROOT / "packaging" / "container"


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", (CONTAINER / "Containerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_image_is_slim_not_root_and_heeds_signals() -> None:
    found = instructions()
    last = [index for index, (word, _) in enumerate(found) if word == "FROM"][-1]
    final = found[last:]
    said = dict(final)
    assert said["USER"] == "1801:1801"
    assert said["STOPSIGNAL"] == "SIGTERM"
    assert said["VOLUME"] == "/var/lib/msmq"
    assert json.loads(said["ENTRYPOINT"]) == [
        "msmq"
    ]  # a list: no shell between the signal and the queue manager
    assert "CMD [" in said["HEALTHCHECK"]
    variables = dict(part.split("=", 1) for part in shlex.split(said["ENV"]))
    config = with_environment(Config(), variables)
    assert (config.data, config.log_format) == (Path("/var/lib/msmq"), "json")
    assert variables["MSMQ_SERVER"] == config.api.listen[0]
    installed = " ".join(rest for word, rest in final if word == "RUN")
    assert not {"gcc", "python3-venv", "curl"} & set(installed.split())


def test_what_the_build_copies_is_there_and_not_ignored() -> None:
    ignored = (CONTAINER / ".containerignore").read_text().split()
    for word, rest in instructions():
        if word == "COPY" and not rest.startswith("--from"):
            for name in rest.split()[:-1]:
                assert (ROOT / name).exists(), name
                assert f"!{name}" in ignored, name


def test_compose_sets_options_that_exist_and_mounts_files_that_are_there() -> None:
    found = yaml.safe_load((CONTAINER / "compose.yaml").read_text(encoding="utf-8"))
    services = found["services"]
    assert {"shop", "warehouse", "prometheus", "grafana"} <= services.keys()
    for name, service in services.items():
        with_environment(Config(), service.get("environment", {}))
        for mounted in service.get("volumes", []):
            source = mounted.split(":")[0]
            if source.startswith("./certificates"):
                continue  # which whoever starts it makes first: the next test does
            if source.startswith("."):
                assert (CONTAINER / source).is_file(), f"{name}: {source}"
            else:
                assert source in found["volumes"], f"{name}: {source}"
    for host in ("shop", "warehouse"):
        assert services[host]["read_only"]
        assert (
            CONTAINER / services[host]["build"]["context"] / services[host]["build"]["dockerfile"]
        ).is_file()
    scraped = yaml.safe_load((CONTAINER / "prometheus.yml").read_text())["scrape_configs"][0][
        "static_configs"
    ][0]
    assert {target.split(":")[0] for target in scraped["targets"]} == {"shop", "warehouse"}


def test_the_consoles_of_compose_tell_their_figures_by_tls(tmp_path: Path) -> None:
    """With the certificate that the head of the file makes, and the options that it sets."""
    text = (CONTAINER / "compose.yaml").read_text(encoding="utf-8")
    (command,) = re.findall(r"^#   (openssl .*)$", text, re.MULTILINE)
    (tmp_path / "packaging" / "container" / "certificates").mkdir(parents=True)
    subprocess.run(shlex.split(command), cwd=tmp_path, check=True, capture_output=True)
    settings = yaml.safe_load(text)["services"]["shop"]["environment"]
    port = free_port()
    variables = {
        name: value.replace("/etc/msmq-console", f"{tmp_path}/packaging/container/certificates")
        for name, value in settings.items()
    } | {"MSMQ_CONFIG_WEB__LISTEN": f"127.0.0.1:{port}"}
    environment = {**os.environ, **variables}
    del environment["MSMQ_WEB"]
    serve = [sys.executable, "-m", "msmq", "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1"]
    serve += ["--port", "0", "--ping-port", "0", "--rpc-port", "0", "--api", f"unix:{tmp_path / 'api'}"]
    trust = ssl.create_default_context(
        cafile=str(tmp_path / "packaging" / "container" / "certificates" / "console.pem")
    )
    with subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as host:
        try:
            assert host.stdout is not None
            assert host.stdout.readline().startswith(b"ready")
            with urllib.request.urlopen(
                f"https://localhost:{port}/metrics", timeout=120, context=trust
            ) as told:
                assert b"windows_msmq_messages_in_queue" in told.read()
        finally:
            host.terminate()


def rendered(name: str) -> list[dict[str, Any]]:
    text = (chart.RENDERED / f"{name}.yaml").read_text(encoding="utf-8")
    return [each for each in yaml.safe_load_all(text) if each]


def of_kind(name: str, kind: str) -> dict[str, Any]:
    return next(each for each in rendered(name) if each["kind"] == kind)


def test_what_is_committed_was_rendered_from_the_chart_as_it_stands() -> None:
    assert chart.DIGEST.read_text().strip() == chart.digest(), "run `make chart` and commit what it renders"
    assert {path.stem for path in chart.RENDERED.glob("*.yaml")} == chart.cases().keys()


@pytest.mark.parametrize("name", chart.cases())
def test_everything_is_rendered_for_one_release(name: str) -> None:
    objects = rendered(name)
    assert {"StatefulSet", "Service", "ConfigMap", "NetworkPolicy"} <= {each["kind"] for each in objects}
    pods = of_kind(name, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    for each in objects:
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == "orders"
        chosen = each["spec"].get("selector", each["spec"].get("podSelector")) if "spec" in each else {}
        assert chosen.get("matchLabels", chosen).items() <= pods.items()


@pytest.mark.parametrize("name", chart.cases())
def test_a_pod_is_confined_and_configured(name: str) -> None:
    pod = of_kind(name, "StatefulSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
    variables = {each["name"]: each.get("value", "") for each in container["env"]}
    assert with_environment(Config(), variables).port == 1801
    assert from_table(tomllib.loads(of_kind(name, "ConfigMap")["data"]["msmq.toml"]))
    mounted = {each["name"] for each in container["volumeMounts"]}
    assert mounted == {"data", *(each["name"] for each in pod["volumes"])}


def test_one_disk_has_one_queue_manager_and_high_availability_several() -> None:
    assert of_kind("defaults", "StatefulSet")["spec"]["replicas"] == 1
    several = of_kind("ha", "StatefulSet")["spec"]
    assert several["replicas"] == 3
    (container,) = several["template"]["spec"]["containers"]
    given = {each["name"]: each for each in container["env"]}
    assert given["MSMQ_CONFIG_HA__STORE"]["valueFrom"]["secretKeyRef"] == {
        "name": "msmq-database",
        "key": "url",
    }
    assert given["MSMQ_STORE"]["value"] == "$(MSMQ_CONFIG_HA__STORE)"
    assert container["livenessProbe"]["httpGet"]["path"] == "/live"
    assert container["readinessProbe"]["httpGet"]["path"] == "/leader"


def test_nothing_waits_for_those_that_stand_by() -> None:
    """They are not ready, which a rolling update would wait for, and a budget would forbid every eviction for."""
    assert of_kind("ha", "StatefulSet")["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert "PodDisruptionBudget" not in {each["kind"] for each in rendered("ha")}


def test_messages_outlive_the_release() -> None:
    policy = of_kind("defaults", "StatefulSet")["spec"]["persistentVolumeClaimRetentionPolicy"]
    assert policy == {"whenDeleted": "Retain", "whenScaled": "Retain"}
