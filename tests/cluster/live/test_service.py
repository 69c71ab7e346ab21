"""The example for Kubernetes in docs/cluster.md: what it has for Ray Serve is deployed as it stands."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tests.cluster.live.conftest import Cluster, until

pytestmark = pytest.mark.cluster

DOCUMENT = Path(__file__).parents[3] / "docs" / "cluster.md"


def example() -> dict[str, dict[str, Any]]:
    """The documents of the YAML block that declares a RayService, by their kind."""
    blocks = re.findall(r"```yaml\n(.+?)```", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL)
    (block,) = [block for block in blocks if "kind: RayService" in block]
    return {document["kind"]: document for document in yaml.safe_load_all(block)}


def test_the_applications_of_the_example_serve(cluster: Cluster, tmp_path: Path) -> None:
    from ray import serve
    from ray.serve.config import HTTPOptions
    from ray.serve.context import _get_global_client
    from ray.serve.schema import ServeDeploySchema

    # What is the machines' own is another here: the model, the processors, the address, what is kept where.
    file = tmp_path / "afterword.toml"
    file.write_text(re.sub('path = ".+"', 'path = "echo"', example()["ConfigMap"]["data"]["afterword.toml"]))
    variables = {"CONFIG": str(file), "REPLICA_CPUS": "1", "HOST": "127.0.0.1", "DATABASE": "none"}
    declared = yaml.safe_load(example()["RayService"]["spec"]["serveConfigV2"])
    for application in declared["applications"]:
        application["runtime_env"] = {"env_vars": {f"AFTERWORD_{name}": value for name, value in variables.items()}}
    serve.start(http_options=HTTPOptions(host="127.0.0.1", port=cluster.port))
    _get_global_client().deploy_apps(ServeDeploySchema(applications=declared["applications"]), _blocking=False)
    names = {application["name"] for application in declared["applications"]}
    try:
        until(lambda: {serve.status().applications[name].status for name in names} == {"RUNNING"}, seconds=120)
        answer = httpx.post(f"{cluster.url}/v1/completions", json={"prompt": "abc", "max_tokens": 3, "temperature": 0})
        assert answer.json()["choices"][0]["text"] == "abc"
    finally:
        # Nothing else would: deploying from the command line leaves applications alone that have names of their own.
        for name in names:
            serve.delete(name)


def test_the_names_in_the_example_fit_together() -> None:
    documents = example()
    pods = documents["RayService"]["spec"]["rayClusterConfig"]
    templates = [pods["headGroupSpec"]["template"], *(group["template"] for group in pods["workerGroupSpecs"])]
    config_map = documents["ConfigMap"]["metadata"]["name"]
    for template in templates:
        (container,) = template["spec"]["containers"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
        assert mounts.keys() == volumes.keys()
        assert volumes["configuration"]["configMap"]["name"] == config_map
        variables = {variable["name"]: variable.get("value") for variable in container["env"]}
        assert variables["AFTERWORD_CONFIG"] == f"{mounts['configuration']}/afterword.toml"
