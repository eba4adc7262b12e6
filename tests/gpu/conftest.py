"""The fake GPU as a fixture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.gpu.fake_cuda import FakeCuda, installed


@pytest.fixture
def fake() -> Iterator[FakeCuda]:
    """A GPU of sm_90 that is none."""
    with installed(FakeCuda()) as found:
        yield found
