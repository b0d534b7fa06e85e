"""What LXD finds in place of CRIU: what it does beside CRIU never ends a restore."""

from __future__ import annotations

import importlib.util
import sys
import time
from types import ModuleType

import pytest

from vcrecovery_lab.layout import CHECKOUT


@pytest.fixture
def wrapper(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("criu_wrapper", CHECKOUT / "roles/secondary/files/criu.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("command", [["false"], ["vcrt-no-such-program"], ["sleep", "60"]])
def test_a_route_that_cannot_be_set_in_time_is_no_reason_to_give_a_restore_up(
    wrapper: ModuleType, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrapper, "WITHIN", 0.1)
    began = time.monotonic()
    wrapper.run(command)
    assert time.monotonic() - began < 30
