"""One run in several processes, as torchrun starts them.

Every process runs the same program on the same draw. Encoding is shared out: each encodes its part of a batch, and
`gather` puts the latents together again, with gradient. What follows, the loss, sees the whole batch in every process,
so regularisers, targets and own parts need not know about processes. Gradients are averaged. With one process every
function here changes nothing.
"""

from brojepa.processes.group import (
    agree,
    alone,
    apart,
    average,
    count,
    differs,
    first,
    gather,
    joined,
    part,
    rank,
    spread,
    together,
)
from brojepa.processes.norm import whole_batches

__all__ = [
    "agree", "alone", "apart", "average", "count", "differs", "first", "gather", "joined", "part", "rank", "spread",
    "together", "whole_batches",
]  # fmt: skip
