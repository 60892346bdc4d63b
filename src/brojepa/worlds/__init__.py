"""Worlds: images, the states they show, and the group that moves one state to another.

`open_world` finds one by name or path; `LabelledTransitions` draws what a model is trained on.
"""

from brojepa.worlds.labelled import Batch, Draw, LabelledTransitions
from brojepa.worlds.poses import PoseTransitions, PoseWorld
from brojepa.worlds.sources import known_split, open_world, search_path
from brojepa.worlds.world import Split, World

__all__ = [
    "Batch",
    "Draw",
    "LabelledTransitions",
    "PoseTransitions",
    "PoseWorld",
    "Split",
    "World",
    "known_split",
    "open_world",
    "search_path",
]  # fmt: skip
