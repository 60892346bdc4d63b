// What the first tab shows of an answer: the prediction, and what happens inside of the latent.
const bold = (text) => Object.assign(document.createElement("b"), { textContent: text });
const fresh = (id) => (($(id).textContent = ""), $(id));
const percent = (share) => `${Math.round(100 * share)} %`;
const caption = (frequency) => {
  const parts = frequency.split(":").map(Number);
  if (parts.every((f) => f === 0)) return "still";
  const each = (f, i) => `${Math.round((10 * f * 360) / props.periods[i]) / 10}°`;
  const per = props.periods[0] === 360 ? "per degree" : "per +1";
  const words = parts.map((f, i) => f && (parts.length > 1 ? `${facts.dials[i].label} ` : "") + each(f, i));
  return `${words.filter(Boolean).join(", ")} ${per}`;
};

function prediction(parent, answer, side, key) {
  const sum = make(parent, "p", { class: "bj-sum" });
  const look = side.is_right ? "good" : "bad";
  if (facts.labelled) {
    sum.append(`${answer.start} ${plainAction ? answer.word : `and ${answer.word}`} is `);
    sum.append(
      Object.assign(document.createElement("strong"), {
        className: look,
        textContent: side.after,
        id: `bj-${key}-after`,
      }),
    );
    sum.append(`${percent(side.chance)}`);
    make(sum, "small", {}, side.is_right ? `right: ${answer.right}` : `wrong: ${answer.right} is right`);
  } else {
    sum.append("looks turned by ");
    sum.append(
      Object.assign(document.createElement("strong"), {
        className: look,
        textContent: side.after,
        id: `bj-${key}-after`,
      }),
    );
    make(
      sum,
      "small",
      {},
      side.is_right ? "right, to within 5°" : `wrong: ${answer.word} is right, ${Math.round(side.off)}° away`,
    );
  }
  if (side.bars) {
    const right = answer.right.split(" ");
    side.bars.forEach((rows, i) => {
      const best = rows.reduce((a, b) => (b.chance > a.chance ? b : a));
      bars(parent, rows, side.bars.length === 1 ? side.is_right : best.name === right[i]);
    });
  }
  const pictures = make(parent, "div", { class: "bj-pictures" });
  const tall = facts.shape[2] > facts.shape[1] ? 40 : 52;
  if (side.decoded) {
    const box = make(pictures, "div");
    make(box, "h3", {}, "decoded");
    sprite(box, side.decoded, 0, 1, facts.shape, tall);
  }
  if (answer.true_image) {
    const box = make(pictures, "div");
    make(box, "h3", {}, "truth");
    sprite(box, answer.true_image, 0, 1, facts.shape, tall);
  }
  const box = make(pictures, "div");
  make(box, "h3", {}, "nearest real images");
  const strip = make(box, "div", { class: "bj-strip" });
  side.nearest_names.forEach(
    (_, i) => i < (tall === 40 ? 3 : 5) && sprite(strip, side.nearest, i, side.nearest_names.length, facts.shape, tall),
  );
}

function inside(parent, side, which) {
  const card = make(parent, "div", { class: "bj-card bj-wide" });
  if (which) {
    make(card, "h2", {}, `Baseline ${side.label}: a network instead of rotations`);
    const two = make(card, "div", { class: "bj-inside" });
    const left = make(two, "div"),
      rightSide = make(two, "div");
    const circles = make(left, "div", { class: "bj-circles" });
    side.circles.forEach((one, i) => circle(circles, one, `other-${i}`));
    make(
      left,
      "p",
      { class: "bj-hint" },
      "Its states in the two directions in which they differ most, and where it jumps to.",
    );
    prediction(rightSide, which, side, "other");
    return;
  }
  make(card, "h2", {}, "Inside the latent");
  const two = make(card, "div", { class: "bj-inside" });
  const left = make(two, "div"),
    right = make(two, "div");
  make(
    left,
    "p",
    { class: "bj-hint" },
    facts.labelled
      ? "The mean latent of each state lies on a circle; the action moves the image's point around it."
      : "The image, truly turned all the way round, is a circle in the latent; the action moves its point along it.",
  );
  const circles = make(left, "div", { class: "bj-circles" });
  side.circles.forEach((one, i) => circle(circles, one, `circle-${i}`));
  if (!side.hands.length) return;
  make(
    right,
    "p",
    { class: "bj-hint" },
    "The latent is made of planes, each a clock hand. An action turns every hand by its own angle, and that is all.",
  );
  clocks(right, side.hands, caption, "clocks");
}
