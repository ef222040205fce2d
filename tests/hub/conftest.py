"""Fixtures: a local hub."""

from __future__ import annotations

import huggingface_hub.constants
import pytest

from support.hub import Hub, running


@pytest.fixture
def hub(monkeypatch):
    """A local hub that this process uses."""
    hub = Hub("secret")
    with running(hub):
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", hub.address)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", "secret")
        yield hub
