"""Accuracy by state and action, one map per run; without labelled states, one row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from brojepa.figures import style
from brojepa.figures.sources import Source
from brojepa.figures.world import far, short_word
from brojepa.groups import Element, Group
from brojepa.report.actions import as_number, in_order

POSES = "without labelled states: the share of predicted latents whose nearest candidate is the right pose"
LETTERS = 80  # that fit below a map


def collect(sources: dict[str, Source]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for role, source in sources.items():
        table = source.result.get("by_state")
        data[f"{role}.seen"] = source.seen
        if table:
            data[f"{role}.accuracy"] = np.array(table["accuracy"], np.float32)
            data[f"{role}.actions"] = table["actions"]
        else:
            data |= {f"{role}.{name}": value for name, value in _of_poses(source).items()}
    return data


def _of_poses(source: Source) -> dict[str, Any]:
    """One row. Rotations in space have no order, so they are sorted by their angle."""
    measured, group = source.per_action, source.group
    words = in_order(measured)
    elements = {word: _element(group, word) for word in words}
    if group.order is None and None in map(as_number, words):
        words.sort(key=lambda word: far(group, elements[word]))
    return {
        "accuracy": np.array([[measured[word] for word in words]], np.float32),
        "actions": words,
        "labels": [short_word(group, elements[word]) for word in words],
    }


def _element(group: Group, word: str) -> Element:
    """A rotation about an arbitrary axis is written as its quaternion."""
    return tuple(map(float, word.split("/"))) if "/" in word else group.parse(word)


def _step(labels: list[str]) -> int:
    """If there are many actions, label only as many as fit."""
    return math.ceil(len(labels) * max(map(len, labels)) / LETTERS)


def draw(data: dict[str, Any]) -> Figure:
    roles = list(data["runs"])
    whole = [len(data["runs"][role]["states"]) > 0 for role in roles]
    figure = style.canvas(data, style.WIDE, 0.9 + sum(2.3 if w else 1.2 for w in whole), "" if all(whole) else POSES)
    panels = figure.subplots(len(roles), 1, squeeze=False)[:, 0]
    image = None
    for axes, role in zip(panels, roles, strict=True):
        run, table, actions = data["runs"][role], data[f"{role}.accuracy"], data[f"{role}.actions"]
        image = axes.imshow(table, cmap=style.SHARE, vmin=0, vmax=1, aspect="auto")
        size = 8 if len(actions) <= 20 else 5
        labels = data.get(f"{role}.labels") or [k.replace("-", "−") for k in actions]
        columns = range(0, len(actions), 1 if len(actions) <= 60 else _step(labels))
        rows = range(0, len(run["states"]), 1 if len(run["states"]) <= 30 else 5)
        axes.set_xticks(columns, [labels[i] for i in columns], fontsize=size)
        axes.set_yticks(rows, [run["states"][i] for i in rows], fontsize=size)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        for place in (actions.index(k) for k in data[f"{role}.seen"]):
            axes.plot(
                [place - 0.46, place + 0.46], [-0.72, -0.72], color=style.VERMILLION, linewidth=2.5, clip_on=False
            )
        if table.size <= 250 and len(actions) <= 20:
            style.cells(axes, [["1" if v > 0.995 else f"{v:.2f}"[1:] for v in line] for line in table], table < 0.55)
        axes.set_title(f"{run['label']} (bars mark trained actions)", loc="left")
        axes.set_ylabel("state" if run["states"] else "")
    panels[-1].set_xlabel("action")
    assert image is not None
    figure.colorbar(image, ax=panels, label="accuracy", shrink=0.6)
    return figure
