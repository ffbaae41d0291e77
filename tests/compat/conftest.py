import os
import shutil
import subprocess
from pathlib import Path

import openai
import pytest

from services.executor.model.prepare import prepare
from shared.config import ModelConfig
from tests.compat.environments import node_modules_of, python_of
from tests.support.deployment import deployed

MODEL = "SmolLM2-135M-Instruct"
CLIENTS = Path(__file__).parent
CASE_TIMEOUT_S = 300


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with deployed(tmp_path_factory.mktemp("server")) as deployment:
        yield deployment


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.fixture
def run_case(tmp_path):
    """Runs a case, `client/case_….py` or `.mjs`, in its client's environment, against the server at the URL."""

    def run(case: str, url: str, *arguments: str) -> str:
        program = CLIENTS / case
        command = node(program) if program.suffix == ".mjs" else [str(python_of(program.parent)), str(program)]
        done = subprocess.run(
            [*command, *arguments],
            cwd=tmp_path,
            env=environment(url, tmp_path),
            capture_output=True,
            text=True,
            timeout=CASE_TIMEOUT_S,
        )
        assert done.returncode == 0, f"{case}\n{done.stdout}{done.stderr}"
        return done.stdout

    def node(program: Path) -> list[str]:
        if shutil.which("npm") is None:
            pytest.skip("Node is not installed")
        (tmp_path / "node_modules").symlink_to(node_modules_of(program.parent))
        return ["node", shutil.copy(program, tmp_path)]

    return run


def environment(url: str, folder: Path) -> dict[str, str]:
    """What a case is told, and that nobody else is to be asked anything."""
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "HOME", "LD_LIBRARY_PATH")}
    return kept | {
        "SERVER_URL": url,
        "MODEL": MODEL,
        "MODEL_FOLDER": str(prepare(ModelConfig())),
        "LLM_USER_PATH": str(folder / "llm"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LANGSMITH_TRACING": "false",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(folder / "hugging_face"),
        "OPENAI_API_KEY": "unused",
    }
