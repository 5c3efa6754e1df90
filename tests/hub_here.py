"""The Hub as this process knows it, replaced by a server on loopback, without a process for each question."""

from __future__ import annotations

import pytest
from huggingface_hub import constants

from tests.servers import Server


def use_hub(server: Server, patch: pytest.MonkeyPatch, *, token: str = "") -> None:
    """huggingface_hub asks this server, with this token or without one."""
    patch.setattr(constants, "ENDPOINT", server.url)
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + template[template.index("/{repo_id}") :])
    patch.setattr(constants, "HF_TOKEN_PATH", "/there/is/no/such/file")
    patch.setenv("NO_PROXY", "127.0.0.1,localhost")
    for variable in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE", "ZOO_OFFLINE"):
        patch.delenv(variable, raising=False)
    if token:
        patch.setenv("HF_TOKEN", token)
