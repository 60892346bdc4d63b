"""The result of a finished run: `result.json`, and its text for people."""

from __future__ import annotations

from typing import Any

CLEAR = 0.95  # hit@1 above which it does not matter that things are symmetric


class Result(dict[str, Any]):
    """The dictionary that `result.json` holds, shown as a small table.

    Examples:
        >>> import brojepa
        >>> brojepa.Result({"world": "mnist", "seed": 0, "metrics": {"seen": 0.9955}, "chance": 0.1})
        on mnist, seed 0
          seen       0.9955  test images, training actions
          chance     0.1000
    """

    def __repr__(self) -> str:
        return "\n".join([self.title, *accuracies(self)]) if "metrics" in self else super().__repr__()

    @property
    def title(self) -> str:
        """Which run this is of, in a line."""
        words = [str(self.get("preset") or self.get("config_hash") or ""), f"on {self.get('world')}"]
        words += [f"seed {self['seed']}"] if "seed" in self else []
        words += [f"{self['epochs']} epochs"] if "epochs" in self else []
        words += [f"{self['parameters']:,} parameters"] if "parameters" in self else []
        return ", ".join(word for word in words if word)


def accuracies(result: dict[str, Any]) -> list[str]:
    """The accuracies, one per line, with what each was measured on; in a world of poses, retrieval and its errors."""
    kind = result.get("zero_shot_kind")
    why = {"strict": "never given to the latent action in training", "weak": "used by an auxiliary loss in training"}
    notes = {
        "train": "training images, training actions",
        "seen": "test images, training actions",
        "zero_shot": f"test images, held-out actions; {kind}: {why.get(str(kind))}",
        "rollout": "the same by repeating a training action",
        "knn": "the same read by 20 nearest neighbours instead of the probe",
    }
    rows = [(name.replace("_", "-"), value, notes.get(name, "")) for name, value in result["metrics"].items()]
    rows.append(("chance", result.get("chance"), ""))
    lines = [f"  {name:<10} {value:.4f}  {note}".rstrip() for name, value, note in rows if value is not None]
    if "evaluated" in result:
        left_out = [n.replace("_", "-") for n in result["metrics"] if n not in result["evaluated"]]
        lines.append(f"  (left out: {', '.join(left_out)}; brojepa eval adds them)")
    return [*lines, *_retrieval(result.get("retrieval") or {}), *_equivariance(result.get("equivariance") or {})]


def _equivariance(found: dict[str, Any]) -> list[str]:
    """How well latents encode the pose, whether they turn with it, and how much worse held-out actions are."""
    words = {
        "r2_linear": "R2 of the pose {:.3f} by a line", "r2_two_layer": "{:.3f} by two layers",
        "d_lsbd": "D_LSBD {:.4f}", "d_lsbd_of_action": "variance left by the model's action {:.4f}",
        "error_ratio": "held-out actions err {:.3g} times as much",
    }  # fmt: skip
    known = [text.format(found[name]) for name, text in words.items() if found.get(name) is not None]
    return [f"  ({', '.join(known)})"] if known else []


def _retrieval(found: dict[str, Any]) -> list[str]:
    """In a world of poses: what was found, and how far off."""
    lines: list[str] = []
    if not found:
        return lines
    if "candidates" in found:
        lines.append(f"  (the true next image found first among {found['candidates']} candidates)")
    else:
        things = f"{found['things']} things" if not found.get("by_steps") else f"{found['things']} episodes"
        lines.append(f"  (the true view found first among those of its thing; {things}, {_trained(found)})")
        if found.get("alike"):
            lines.append(
                f"  ({found['alike']:,} of {found['views']:,} views are the same picture as another of their thing in "
                "another pose; finding either is right)"
            )
        unseen = found.get("zero_shot") or {}
        alike = found.get("symmetric") or {}
        if alike.get("things") and unseen.get("hit1", 1.0) < CLEAR:
            lines.append(
                f"  ({alike['things']} of {alike['of']} things look more alike some steps apart than one step apart, "
                "as symmetric ones do: such poses may be impossible to tell apart)"
            )
    refined = found.get("refined") or {}
    nearest = refined.get("nearest_candidate") or {}
    for name in ("seen", "zero_shot"):
        if rest := refined.get(name):  # of the model alone; the candidates' own distances come after it
            where = name.replace("_", "-")
            lines.append(
                f"  {where:<10} error of the pose, refined between the candidates: median {rest['median_error']:.4g}, "
                f"mean {rest['mean_error']:.4g}"
            )
    for name in ("seen", "zero_shot", "on_grid", "off_grid", "ceiling"):
        if found.get(name):
            mrr, median, mean = (found[name][key] for key in ("mrr", "median_error", "mean_error"))
            five = f"hit@5 {found[name]['hit5']:.4f}, " if "hit5" in found[name] else ""
            where = f"{'pixels' if name == 'ceiling' else name.replace('_', '-'):<10}"
            pre = f", PRE {found[name]['pre']:.4f}" if "pre" in found[name] else ""
            best = f" (the nearest candidate's: {least['median_error']:.4g})" if (least := nearest.get(name)) else ""
            off = f"error of the {'candidate' if name in refined else 'pose'} found: median {median:.4g}{best}"
            lines.append(f"  {where} {five}MRR {mrr:.4f}, {off}, mean {mean:.4g}{pre}")
    if found.get("by_steps"):
        hits = " ".join(f"{steps}: {row['hit1']:.3f}" for steps, row in found["by_steps"].items())
        lines.append(f"  steps composed into one action, and how often the frame is found: {hits}")
    return lines


def _trained(found: dict[str, Any]) -> str:
    held = found["held_out_things"]
    return "none of which was trained on" if held else "all of which were trained on"
