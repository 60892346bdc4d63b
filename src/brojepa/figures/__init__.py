"""The figures: every one of the paper, and some of ours, each drawn from run directories.

This file is the list, as data: what each figure shows and which runs it needs. A figure's own module has two
functions, `collect(sources) -> data`, which reads runs, and `draw(data) -> Figure`, which needs nothing but that.
Neither torch nor matplotlib is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brojepa.config import Config, words
from brojepa.presets import preset


@dataclass(frozen=True)
class Need:
    """A run that a figure is drawn from.

    label: what the run is called in the figure.
    weights: whether its weights and images are needed, or only the numbers that `result.json` and `metrics.jsonl` have.
    optional: whether the figure is drawn without it, if another of its runs is there.
    actions: other latent actions that can replace the preset's.
    same: knobs in which a run must agree with the preset, beyond those that are changed.
    seed: the one that is trained for the paper's figures.
    decoder: whether it must have a decoder; any JEPA that has one will do.
    """

    label: str
    preset: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    weights: bool = True
    optional: bool = False
    actions: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    seed: int = 0
    decoder: bool = False

    @property
    def config(self) -> Config:
        return preset(self.preset).replace(**self.changes)

    @property
    def command(self) -> str:
        """The words that make the run."""
        seed = [f"--seed {self.seed}"] if self.seed else []
        return " ".join(("brojepa train", self.preset, *words(self.config, preset(self.preset)), *seed))


KINDS = {"cycle": "cycles of labelled states", "states": "labelled states", "poses": "every world"}
"""The kinds of worlds, narrowest first, and what a figure for each is for: that kind and those before it."""


@dataclass(frozen=True)
class Spec:
    """A figure: its title, what it shows in a sentence, the module that makes it, the runs it needs by role.

    see: how to read it, in small type below the figure.
    options: what the module's `collect` is called with.
    kind: the widest kind of world that it can show.
    every: it is drawn from all runs that are named, finished or not, `MOST` of them.
    """

    title: str
    shows: str
    module: str
    needs: dict[str, Need]
    see: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "cycle"
    every: bool = False


MOST = 8
"""Runs in one picture"""


def _fixed() -> dict[str, Need]:
    """Single- and multi-frequency side by side; one of them will do."""
    return {
        "single": Need("single-frequency", "mnist/bro-mlp-sfr-fixed", optional=True),
        "multi": Need("multi-frequency", "mnist/bro-mlp-mfr-fixed", optional=True),
    }


def _learned(seed: int = 0, **start: Any) -> dict[str, Need]:
    """The same with learned angles. `seed` is for the shared angle, whose start decides which harmonic it reaches."""
    rest: dict[str, Any] = {"weights": False, "optional": True, "same": ("angle_range",)}
    return {
        "single": Need("single-frequency", "mnist/bro-mlp-sfr-learned", start, seed=seed, **rest),
        "multi": Need("multi-frequency", "mnist/bro-mlp-mfr-learned", start, **rest),
    }


ANY_ROTATION = ("mfr-learned", "mfr-fixed", "sfr-fixed", "sfr-learned")
SINGLE, MULTI = ("sfr-fixed", "sfr-learned"), ("mfr-fixed", "mfr-learned")
# The paper's frequencies, from 0: latents can collapse into planes that do not turn. A few epochs show it.
SHORT = {"lowest_frequency": 0, "epochs": 5}
ADDITIVE = Need("JEPA + additive", "mnist/jepa-mlp", optional=True)

FIGURES: dict[str, Spec] = {
    "examples": Spec(
        "Visual arithmetic: an image, an action, and what is predicted",
        "Images with an action each; below them the image whose latent is nearest to the predicted latent, and the "
        "state that the probe reads, which a tick or a cross judges.",
        "examples",
        {"bro": Need("BRo-JEPA", "mnist/bro-mlp-mfr-learned", actions=ANY_ROTATION), "jepa": ADDITIVE},
    ),
    "collapse": Spec(
        "Similarity of state prototypes without and with VICReg",
        "Cosine similarity between the mean latents of the states, trained without and with variance and covariance "
        "terms. A collapsed latent space has 1 everywhere.",
        "prototypes",
        {
            "without": Need("without VICReg", "mnist/bro-mlp-mfr-fixed", {**SHORT, "variance": 0.0, "covariance": 0.0}),
            "with": Need("with VICReg", "mnist/bro-mlp-mfr-fixed", SHORT),
        },
        see="prototype: mean latent of a state. In a collapsed latent space all prototypes point the same way: "
        "every cosine is 1",
        kind="states",
    ),
    "supervised": Spec(
        "Supervised latents after seen and unseen actions",
        "The first two principal components of a supervised model's latents after actions it was trained on (dots) "
        "and actions it was not (crosses); colour tells the sign of the action.",
        "supervised",
        {
            "run": Need(
                "supervised",
                "mnist/supervised-mlp",
                {"train_actions": (-2, -1, 1, 2), "test_actions": (-4, -3, 3, 4), "epochs": 5},
            )
        },
        see="each point is a test image after an action; crosses and hatched bars are actions that were not trained on",
    ),
    "jepa": Spec(
        "JEPA with an additive action embedding, seen and unseen actions",
        "Accuracy and loss over the epochs of a JEPA without rotation, and the cosine similarity of its state "
        "prototypes.",
        "jepa",
        {
            "run": Need(
                "JEPA + additive",
                "mnist/jepa-mlp",
                {"train_actions": (-4, -2, -1, 1, 2, 4), "test_actions": (-3, 3)},
                weights=False,
            )
        },
        see="what to see: does accuracy on unseen actions follow accuracy on seen ones?",
        kind="poses",
    ),
    "circle": Spec(
        "Single-frequency latents",
        "The latents of test images in the planes that the action turns at one frequency, and the mean of each state, "
        "joined in the order of the states.",
        "circle",
        {"run": Need("single-frequency", "mnist/bro-mlp-sfr-fixed", actions=SINGLE)},
        see="discs: mean of each state, joined in order; dots: test images",
    ),
    "rollout": Spec(
        "Rollouts in single-frequency latents",
        "From the latent of one image, an action repeated on the model's own predictions, in the first two "
        "principal components of the latents of test images.",
        "rollout",
        {"run": Need("single-frequency", "mnist/bro-mlp-sfr-fixed", actions=SINGLE)},
        "discs: predicted latents and the state that the probe reads; diamonds: mean of each state; dots: test images\n"
        "what to see: each step should land among the images of the state on its disc, the last step at the start",
        {"method": "pca"},
    ),
    "prototypes": Spec(
        "Similarity of state prototypes, single- and multi-frequency",
        "Cosine similarity between the mean latents of the states.",
        "prototypes",
        _fixed(),
        see="prototype: mean latent of a state. With one frequency, neighbouring states are alike; "
        "several frequencies set all states apart",
        kind="states",
    ),
    "angles": Spec(
        "Learned angles, single- and multi-frequency",
        "Accuracy, loss and learned angles over the epochs; grey lines are the multiples of one turn divided by the "
        "number of states.",
        "angles",
        _learned(),
        "what to see: angles should settle on the grey lines; zero-shot then catches up with seen",
    ),
    "angles-positive": Spec(
        "Learned angles that start in [0, 2π]",
        "Accuracy, loss and learned angles over the epochs; grey lines are the multiples of one turn divided by the "
        "number of states. Angles start in [0, 2 pi].",
        "angles",
        _learned(seed=6, angle_start="random", angle_range="positive"),
        "what to see: a single angle that settles on 2πj/n, where j and n share a divisor, cannot tell all n states "
        "apart;\naccuracy then stays low",
    ),
    "circle-multi": Spec(
        "Multi-frequency latents, one plane per frequency",
        "The latents of test images in the planes that the action turns at each frequency, and the mean of each state, "
        "joined in the order of the states.",
        "circle",
        {"run": Need("multi-frequency", "mnist/bro-mlp-mfr-fixed", actions=MULTI)},
        see="discs: mean of each state, joined in order; dots: test images. At frequency f the states go round f times."
        "\nWhere f and the number of states share a divisor, states coincide; other frequencies separate them",
    ),
    "rollout-multi": Spec(
        "Rollouts in multi-frequency latents",
        "From the latent of one image, an action repeated on the model's own predictions, in a t-SNE of the latents "
        "of test images. Every arrow should end in the cloud of the state that its disc names.",
        "rollout",
        {"run": Need("multi-frequency", "mnist/bro-mlp-mfr-fixed", actions=MULTI)},
        "discs: predicted latents and the state that the probe reads; diamonds: mean of each state; dots: test images\n"
        "what to see: each step should land among the images of the state on its disc, the last step at the start;\n"
        "t-SNE only keeps neighbours together: positions of clouds and lengths of arrows mean nothing",
        {"method": "tsne"},
    ),
    "accuracy": Spec(
        "Accuracy by state and action",
        "The share of test images of each state that are predicted right after each action; actions trained on are "
        "marked.",
        "accuracy",
        {
            "bro": Need("BRo-JEPA", "mnist/bro-mlp-mfr-learned", weights=False, actions=ANY_ROTATION),
            "jepa": Need("JEPA + additive", "mnist/jepa-mlp", weights=False, optional=True),
        },
        see="what to see: a model that has learned the rule is as accurate on other actions as on trained ones",
        kind="poses",
    ),
    "parity": Spec(
        "Odd and even actions",
        "Accuracy of each action of a supervised model with several frequencies, over seeds. Trained on +1 and -1 it "
        "learns odd actions and leaves even ones open; trained on 0 as well it learns all.",
        "parity",
        {
            "odd": Need(
                "trained on −1 and +1", "mnist/supervised-mlp-mfr-fixed", weights=False, same=("train_actions", "lr")
            ),
            "both": Need(
                "trained on −1, 0 and +1",
                "mnist/supervised-mlp-mfr-fixed",
                {"train_actions": (-1, 0, 1), "checkpoint": "last"},
                weights=False,
            ),
        },
    ),
    "spectrum": Spec(
        "The number of states, read off the learned angles",
        "Learned angles on the circle, and how well each number of states would explain them: the chance that as many "
        "random angles lie as near to multiples of one turn divided by that number.",
        "spectrum",
        {"run": Need("multi-frequency", "mnist/bro-mlp-mfr-learned", weights=False)},
        see="right: how unlikely it is that random angles fit a number of states as well; higher is less likely.\n"
        "If a number fits, its multiples fit too, but less well",
    ),
    "drift": Spec(
        "Drift of a rollout over 100 steps",
        "Accuracy when +1 is repeated on the model's own predictions, and the distance of the latent from the "
        "prototype of the right state, as a share of the mean distance between prototypes.",
        "drift",
        {
            "fixed": Need("BRo-JEPA, fixed angles", "mnist/bro-mlp-mfr-fixed", optional=True),
            "learned": Need("BRo-JEPA, learned angles", "mnist/bro-mlp-mfr-learned", optional=True),
            "jepa": ADDITIVE,
        },
        see="what to see: with fixed angles the error repeats every cycle; learned angles are slightly off, and the "
        "error grows;\nan MLP leads all images of a state to one point, and stays there",
    ),
    "decoded": Spec(
        "Decoded rollouts",
        "Test images and an action repeated on the model's own predictions, as a decoder of latents shows them, below "
        "images of the right states.",
        "decoded",
        {"run": Need("BRo-JEPA", "mnist/bro-mlp-mfr-learned", decoder=True)},
        kind="poses",
    ),
    "curves": Spec(
        "Learning curves",
        "Accuracy and loss on training and validation images over the epochs; of one run also the terms of its loss "
        "and its learned angles.",
        "learning",
        {},
        kind="poses",
        every=True,
    ),
}


def paper_runs() -> list[tuple[str, Config, int]]:
    """The runs that all figures need: preset, config and seed of each, every run once."""
    runs: dict[str, tuple[str, Config, int]] = {}
    for spec in FIGURES.values():
        for need in spec.needs.values():
            runs.setdefault(f"{need.config.hash} {need.seed}", (need.preset, need.config, need.seed))
    return list(runs.values())
