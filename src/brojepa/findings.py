"""What `algebra.inspect` measured, in words: did it learn a cycle, of what length, does it tell states apart, does it
compose; then the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

OBEYS = 0.01  # errors of the law below this share of the spread are called small
LAWS = {
    "equivariance": "act(z, k) against the prototype of y + k, all images and actions",
    "composition": "act(act(z, a), b) against act(z, a + b)",
    "inverse": "act(act(z, k), -k) against z",
    "identity": "act(z, 0) against z",
    "commutation": "act(act(z, a), b) against act(act(z, b), a)",
    "return": "n times +1 against z",
}


def describe(found: dict[str, Any]) -> list[str]:
    """A page of lines."""
    lines = [f"{found['run']} on {found['world']}: {found['images']:,} test images of {found['states']} states", ""]
    lines += [*verdict(found), ""]
    if found["rotation"]:
        lines += [*_frequencies(found["rotation"], found["states"]), ""]
    each = found["law"]["images"]
    lines += [f"the law: squared error over the spread, 0 is exact (from composition on, {each:,} images)"]
    lines += [f"  {name:<13}{_number(found['law'][name]):>9}  {meaning}" for name, meaning in LAWS.items()]
    lines += ["", f"a rollout of +1 ({each:,} images)", f"  {'steps':>6}  accuracy  squared distance to the prototype"]
    lines += [f"  {r['steps']:>6,}  {r['accuracy']:>8.4f}  {_number(r['distance'])}" for r in found["drift"]]
    lines += ["", *_uses(found)]
    return lines


def verdict(found: dict[str, Any]) -> list[str]:
    """The short answers."""
    return [*_cycle(found["rotation"], found["states"]), _composes(found["law"])]


def _cycle(rotation: dict[str, Any] | None, n: int) -> list[str]:
    if rotation is None:
        return ["The latent action is a network: it has no angles to read a cycle from."]
    modulus, alike = rotation["modulus"], rotation["alike"]
    how = "learned" if rotation["learned"] else "fixed"
    count = 1 if len({plane["angle"] for plane in rotation["planes"]}) == 1 else len(rotation["planes"])
    told = f"{count} {how} angle{'' if count == 1 else 's'} alone"
    if modulus is None:
        sure = f"the best guess has confidence {rotation['confidence']:.3f}, 0.999 is asked"
        first = f"No finite cycle can be read off {told}: {sure}."
    else:
        sure = "above 0.9999" if rotation["confidence"] > 0.9999 else f"{rotation['confidence']:.4f}"
        first = f"A cycle of length {modulus} (the world has {n} states), read off {told}; confidence {sure}."
    if alike > 1:
        step = n // alike
        twins = f"y and y + {step}" if alike == 2 else f"states {step} apart"
        return [first, f"It cannot tell all states apart: {twins} look alike, {step} of {n} are distinguishable."]
    if rotation["settled"] < len(rotation["planes"]):
        off = len(rotation["planes"]) - rotation["settled"]
        return [first, f"{off} of {len(rotation['planes'])} angles are not near a multiple of 2π/{n}."]
    return [first, f"Its frequencies tell all {n} states apart."]


def _composes(law: dict[str, Any]) -> str:
    broken = [n for n in LAWS if n != "equivariance" and (law[n] is None or law[n] >= OBEYS)]
    if not broken:
        return f"It composes: every error of the group law is below {OBEYS:g} of the spread."
    return f"It does not compose: {', '.join(broken)} off by {OBEYS:g} of the spread or more."


def _frequencies(rotation: dict[str, Any], n: int) -> list[str]:
    lines = [f"frequencies, in turns of 2π/{n} a step; energy is the share of the prototypes' variance"]
    lines += [f"  {'frequency':>9}  {'planes':>6}  {'energy':>6}  farthest angle"]
    lines += [
        f"  {f['frequency']:>9}  {f['planes']:>6}  {f['energy']:.4f}  {_number(f['residual'])}"
        for f in rotation["frequencies"]
    ]
    return lines


def _uses(found: dict[str, Any]) -> Sequence[str]:
    ranked, inferred = found["retrieval"], found["inference"]
    hits = ", ".join(f"{name} {value:.4f}" for name, value in ranked.items() if name != "mrr")
    return [
        f"the next state's prototype, ranked by distance: MRR {ranked['mrr']:.4f}, {hits}",
        f"the action between two images: {inferred['right']:,} of {inferred['pairs']:,} pairs right "
        f"({inferred['accuracy']:.4f})",
        f"prototypes' cosines: circulant to {found['geometry']['circulant']:.4f} of 1",
    ]


def _number(value: float | None) -> str:
    if value is None:
        return "infinite"
    return f"{value:.4f}" if value == 0 or 1e-3 <= value < 1e3 else f"{value:.1e}"
