from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """No test touches the user's cache."""
    directory = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(directory))
    return directory
