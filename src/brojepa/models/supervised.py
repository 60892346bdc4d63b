"""`Supervised`: the same parts as a JEPA, trained on the label of the next state."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from brojepa.models.model import Model
from brojepa.worlds import Batch


class Supervised(Model):
    """Classifies the next state with cross-entropy; the gradient runs through classifier, action and encoder."""

    def objective(self, batch: Batch, progress: float = 1.0) -> dict[str, Tensor]:
        return {"loss": self._loss(self.embed(self.encoder, batch.images), batch)}

    def validate(self, z, z_target, batch):
        return self._loss(z, batch)

    def _loss(self, z: Tensor, batch: Batch) -> Tensor:
        assert self.classifier is not None, "build admits supervised models for labelled states only"
        logits = self.classifier(self.predict(z[:, None], batch.k))
        return F.cross_entropy(logits.flatten(0, 1), batch.next_states.flatten())
