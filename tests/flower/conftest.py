"""What the deployment's tests share."""

import pytest

from feddr.flower import run
from tests.flower.federations import keep_compiled


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pictures, no second compilation, and no waiting for the disk: ``tests/storage`` sees that it is asked."""
    keep_compiled(monkeypatch)
    monkeypatch.setattr(run, "_save_picture", lambda *_: None)
    monkeypatch.setattr("os.fsync", lambda _: None)
