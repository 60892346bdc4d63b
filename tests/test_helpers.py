"""The helpers that many tests rely on can fail."""

from __future__ import annotations

import pytest
from helpers import says

MESSAGE = "brojepa: error: --lr 'fast': expected a number (float), as in 1e-3"


@pytest.mark.parametrize(
    ("expected", "right"),
    [
        ("--lr 'fast' number", True),
        ("number expected: --lr 'fast', float", True),
        ("--lr 'fast': wanted a number", True),
        ("--lr 'slow' number", False),
        ("--epochs 'fast' number", False),
        ("--lr 'fast': choose another directory", False),
    ],
)
def test_a_message_says_its_facts_and_most_of_its_words(expected, right):
    assert says(MESSAGE, expected) == right
