"""From a config to what it describes: the model, composed of its parts, and the actions trained on and held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import nn

from brojepa.config import Config
from brojepa.errors import RequestError
from brojepa.groups import Abelian, Cyclic, Element, Group
from brojepa.models.actions import BlockRotation, LatentAction, MLPAction, Representation, evenly
from brojepa.models.encoders import ENCODERS, Pixels
from brojepa.models.jepa import JEPA, Objective
from brojepa.models.model import Model, Task
from brojepa.models.supervised import Supervised
from brojepa.models.targets import BatchMean, EMAEncoder, Relaxed, Sampled, Target


def build(config: Config, task: Task, generator: torch.Generator) -> Model:
    """The model that a config describes, with weights drawn from the generator's seed."""
    if not task.n and (config.method == "supervised" or config.target != "sampled"):
        knob = "--method supervised" if config.method == "supervised" else f"--target {config.target}"
        raise RequestError(f"{knob} needs labelled states, {config.world} has none: use --method jepa --target sampled")
    if task.n and config.walk > 1:
        raise RequestError(f"--walk {config.walk} is for worlds of poses, {config.world} has labelled states: use 1")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        by_pixels = config.method == "supervised" and config.encoder == "mlp" and not config.rotates
        own = {"width": config.width} if config.encoder == "cnn" else {}
        encoder = Pixels(task.shape) if by_pixels else ENCODERS[config.encoder](
            task.shape, config.latent, config.standardise, **own
        )  # fmt: skip
        if config.encoder != "mlp":
            encoder = encoder.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        action = _action(config, encoder.dim, task.group)
        if config.method == "supervised":
            model: Model = Supervised(encoder, action, task)
        else:
            slow = EMAEncoder(encoder, config.ema_decay) if config.target_encoder == "ema" else None
            shared, objective = config.target_encoder == "shared", _objective(config, task.group)
            model = JEPA(encoder, action, task, _target(config, task), slow, objective, shared)
        model.normalise, model.looks = config.normalise, config.looks
        return model


def _action(config: Config, dim: int, group: Group) -> LatentAction:
    if not config.rotates:
        return MLPAction(
            dim, group, config.action, out_dim=config.latent, scale=config.embedding_scale, activation=config.activation
        )
    if config.irreps or (config.action == "mfr-fixed" and not isinstance(group, Cyclic)):
        copies = config.irreps or evenly(group, dim)
        action = BlockRotation.of(group, copies) if isinstance(group, Abelian) else Representation(group, copies)
        if action.dim != dim:
            raise RequestError(f"--irreps {config.irreps!r} makes {action.dim} dimensions: use --latent {action.dim}")
        return action
    if config.action == "mfr-fixed":
        return BlockRotation.multi(dim, cast(Cyclic, group).n, config.lowest_frequency)
    if not isinstance(group, Abelian) or (config.action == "sfr-fixed" and not isinstance(group, Cyclic)):
        raise RequestError(f"--action {config.action} does not fit {group}: use mfr-fixed, or additive as a baseline")
    if config.action == "sfr-fixed":
        return BlockRotation.single(dim, cast(Cyclic, group).n)
    shared, factors = config.action == "sfr-learned", len(group.periods)
    action = BlockRotation.random(dim, shared=shared, range=config.angle_range, factors=factors)
    if config.first_angle is not None:
        nn.init.constant_(action.theta, config.first_angle)
    return action


def _target(config: Config, task: Task) -> Target:
    if config.target == "sampled":
        return Sampled()
    if config.target == "mean":
        return BatchMean(task.n)
    if not isinstance(task.group, Cyclic):
        raise RequestError(f"--target relaxed is for cycles, not for {task.group}: use mean or sampled")
    return Relaxed(task.n, config.latent, task.group.check(config.train_actions, "--train-actions"), config.relax_steps)


def _objective(config: Config, group: Group) -> Objective:
    composed: tuple[Element, ...] = ()
    if config.consistency:
        given = config.composed_actions
        composed = action_sets(config, group)[1] if given is None else group.check(given, "--composed-actions")
    return Objective(
        **{name: getattr(config, name) for name in ("invariance", "variance", "covariance", "consistency")},
        covariance_scale=config.covariance_scale,
        regularise=config.regularise,
        walk=config.walk > 1,
        composed=composed,
        primitives=group.check(config.train_actions, "--train-actions"),
    )


def action_sets(
    config: Config, group: Group, measured: Sequence[Element] | None = None
) -> tuple[tuple[Element, ...], tuple[Element, ...]]:
    """The training and the test actions of a config: by default all that are measured and not trained on."""
    train = group.check(config.train_actions, "--train-actions")
    if config.test_actions is None:
        return train, tuple(k for k in (group.actions if measured is None else measured) if k not in train)
    return train, group.check(config.test_actions, "--test-actions")
