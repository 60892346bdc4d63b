"""The terms of an own regulariser do not take the place of others."""

from __future__ import annotations

import pytest
from helpers import model

from brojepa.errors import RequestError

SOURCE = """
from torch import nn

class {name}(nn.Module):
    def forward(self, z):
        return {{"{name}": (1.0, z.square().mean())}}
"""


@pytest.mark.parametrize("name", ["loss", "invariance", "consistency", "probe", "epoch", "step"])
def test_a_term_with_the_name_of_another_is_refused(name, tmp_path, monkeypatch):
    (tmp_path / f"terms_{name}.py").write_text(SOURCE.format(name=name))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match=f"has a term named {name}, .*name it otherwise"):
        model(regulariser=f"terms_{name}:{name}")


def test_a_term_with_a_name_of_its_own_is_taken(tmp_path, monkeypatch):
    (tmp_path / "terms_small.py").write_text(SOURCE.format(name="small"))
    monkeypatch.chdir(tmp_path)
    assert model(regulariser="terms_small:small").regulariser
