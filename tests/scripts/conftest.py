"""The scripts import each other by their plain names, as they do where one of them is run."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import torch

from tests.conftest import REPOSITORY

sys.path.append(str(REPOSITORY / "scripts"))


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """One thread, as the scripts take it, also in a fork of this process; afterwards as many as before."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)
