"""Worlds: images, the states they show, and the group that moves one state to another.

`open_world` finds one by name or path; `Transitions` draws what a model is trained on.
"""

from brojepa.worlds.orbits import Orbits, OrbitTransitions
from brojepa.worlds.sources import cache_dir, known_split, open_world, search_path
from brojepa.worlds.transitions import Batch, Draw, Transitions
from brojepa.worlds.world import Split, World

__all__ = [
    "Batch", "Draw", "OrbitTransitions", "Orbits", "Split", "Transitions", "World", "cache_dir", "known_split",
    "open_world", "search_path",
]  # fmt: skip
