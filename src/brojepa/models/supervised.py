"""`Supervised`: the same parts as a JEPA, trained on the label of the next state."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from brojepa.models.model import Model
from brojepa.worlds import Batch


class Supervised(Model):
    """Classifies the next state with cross-entropy. The gradient flows through classifier, latent action and encoder.

    Args:
        encoder: maps normalised images to latents, as in `Model`.
        action: what an action does to a latent.
        task: what the model must know about its world; its states must be labelled.
        normalise: scale every latent to a fixed length.
        tta: test-time augmentation, 1 or 5.
        precision: of the encoder's arithmetic.
        eval_precision: of the same when `brojepa.evaluate` measures the model.

    Examples:
        >>> import brojepa
        >>> from torch import nn
        >>> task = brojepa.Task(n=4, shape=(1, 8, 8), mean=(0.5,), std=(0.5,))
        >>> encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 6))
        >>> brojepa.Supervised(encoder, brojepa.BlockRotation.single(6, n=4), task).predicts_latents
        False
    """

    def objective(self, batch: Batch, progress: float = 1.0) -> dict[str, Tensor]:
        return {"loss": self._loss(self.embed(self.encoder, batch.images), batch)}

    def validate(self, z, z_target, batch):
        return self._loss(z, batch)

    def _loss(self, z: Tensor, batch: Batch) -> Tensor:
        assert self.classifier is not None, "build admits supervised models for labelled states only"
        logits = self.classifier(self.predict(z[:, None], batch.k))
        return F.cross_entropy(logits.flatten(0, 1), batch.next_states.flatten())
