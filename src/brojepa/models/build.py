"""Builds what a config describes: the model from its parts, and the actions trained on and held out."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from brojepa import parts
from brojepa.config import EMBEDDINGS, Config
from brojepa.errors import RequestError
from brojepa.groups import Group
from brojepa.models import own
from brojepa.models.actions import BlockRotation, LatentAction, MLPAction, Representation, evenly
from brojepa.models.consistency import Consistency
from brojepa.models.encoders import CNN, ENCODERS, MLP, Pixels, ResNet18
from brojepa.models.jepa import JEPA
from brojepa.models.model import Model, Task
from brojepa.models.regularisers import SIGReg, VICReg
from brojepa.models.supervised import Supervised
from brojepa.models.targets import BatchMean, EMAEncoder, OrbitMean, Relaxed, Sampled, Target
from brojepa.worlds.world import action_sets

HIGHEST = 8  # frequency of a latent of poses, if none are named: neighbouring views look alike, so latents are smooth


def build(config: Config, task: Task, generator: torch.Generator, precision: torch.dtype = torch.float32) -> Model:
    """Build the model that a config describes.

    Args:
        config: the config.
        task: what the model must know about its world.
        generator: its seed determines the initial weights.
        precision: of the encoder's arithmetic.

    Returns:
        An untrained `JEPA` or `Supervised`.

    Raises:
        RequestError: the config does not fit the world, such as supervised training without labels.

    Examples:
        >>> import brojepa
        >>> import torch
        >>> task = brojepa.Task(n=10, shape=(1, 28, 28), mean=(0.13,), std=(0.31,))
        >>> model = brojepa.build(brojepa.preset("mnist/fast"), task, torch.Generator().manual_seed(0))
        >>> type(model).__name__, model.action.dim
        ('JEPA', 64)
    """
    if not task.n and (config.method == "supervised" or config.target == "mean"):
        knob = "--method supervised" if config.method == "supervised" else f"--target {config.target}"
        raise RequestError(f"{knob} needs labelled states, {config.world} has none: use --method jepa --target sampled")
    if task.n and config.walk > 1:
        raise RequestError(f"--walk {config.walk} is for worlds of poses, {config.world} has labelled states: use 1")
    if not task.n and config.repeat > 1:
        raise RequestError(f"--repeat {config.repeat} is for labelled states, {config.world} has none: use --epochs")
    options: dict[str, Any] = {"normalise": config.normalise, "tta": config.tta, "precision": precision}
    options["eval_precision"] = precision if config.eval_precision == "training" else torch.float32
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        encoder = _encoder(config, task)
        action = _action(config, encoder.dim, task.group, bool(task.n))
        if config.method == "supervised":
            return Supervised(encoder, action, task, **options)
        return JEPA(
            encoder,
            action,
            task,
            target=_target(config, task, action),
            slow=EMAEncoder(encoder, config.ema_decay) if config.target_encoder == "ema" else None,
            shared=config.target_encoder == "shared",
            regulariser=_regulariser(config),
            invariance=config.invariance,
            regularise=config.regularise,
            walk=config.walk > 1,
            consistency=_consistency(config, task.group),
            **options,
        )


def _encoder(config: Config, task: Task) -> own.Encoder | Pixels | MLP | CNN | ResNet18:
    if parts.is_path(config.encoder):
        return own.Encoder(config.encoder, task.shape, config.latent, config.standardise)
    if config.method == "supervised" and config.encoder == "mlp" and config.action in EMBEDDINGS:
        return Pixels(task.shape)
    sizes = {name: getattr(config, name) for name in ("width", "pool", "shrink")} if config.encoder == "cnn" else {}
    encoder = ENCODERS[config.encoder](task.shape, config.latent, config.standardise, **sizes)
    for weight in encoder.parameters():
        if weight.ndim == 4:
            weight.data = weight.data.to(memory_format=torch.channels_last)
    return encoder


def _action(config: Config, dim: int, group: Group, labelled: bool) -> LatentAction:
    if parts.is_path(config.action):
        return own.action(config.action, dim, group, regressed=config.method == "jepa")
    if config.action in EMBEDDINGS:
        return MLPAction(
            dim, group, config.action, out_dim=config.latent, scale=config.embedding_scale, activation=config.activation
        )
    if config.irreps or (config.action == "mfr-fixed" and not (group.cycle and labelled)):
        copies = config.irreps or evenly(group, dim, None if labelled else HIGHEST)
        action = BlockRotation.of(group, copies) if group.periods else Representation(group, copies)
        if action.dim != dim:
            raise RequestError(f"--irreps {config.irreps!r} makes {action.dim} dimensions: use --latent {action.dim}")
        return action
    if config.action == "mfr-fixed" and group.cycle:
        return BlockRotation.multi(dim, group.cycle, config.lowest_frequency)
    if config.action == "sfr-fixed" and group.cycle:
        return BlockRotation.single(dim, group.cycle)
    if config.action == "sfr-fixed" or not group.periods:
        raise RequestError(f"--action {config.action} does not fit {group}: use mfr-fixed, or additive as a baseline")
    shared, factors = config.action == "sfr-learned", len(group.periods)
    action = BlockRotation.random(dim, shared=shared, range=config.angle_range, factors=factors)
    if config.first_angle is not None:
        nn.init.constant_(action.theta, config.first_angle)
    return action


def _target(config: Config, task: Task, action: LatentAction) -> Target:
    if parts.is_path(config.target):
        return own.target(config.target, task, config.latent, action)
    if config.target == "sampled":
        return Sampled()
    if config.target == "mean":
        return BatchMean(task.n)
    if not task.n:
        return OrbitMean(task.group)
    if task.group.cycle is None:
        raise RequestError(f"--target relaxed is for cycles, not for {task.group}: use mean or sampled")
    return Relaxed(task.n, config.latent, task.group.check(config.train_actions, "--train-actions"), config.relax_steps)


def _regulariser(config: Config) -> nn.Module:
    if config.regulariser == "vicreg":
        return VICReg(config.variance, config.covariance, config.covariance_scale)
    if config.regulariser == "sigreg":
        return SIGReg(config.sigreg)
    return own.regulariser(config.regulariser, config.latent)


def _consistency(config: Config, group: Group) -> Consistency | None:
    if not config.consistency:
        return None
    given = config.composed_actions
    composed = action_sets(config, group)[1] if given is None else group.check(given, "--composed-actions")
    return Consistency(group, composed, group.check(config.train_actions, "--train-actions"), config.consistency)
