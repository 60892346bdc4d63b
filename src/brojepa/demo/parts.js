// What the page draws: dials, circles, clocks, bars, strips of pictures and a chart. Each takes numbers and an element.
const SVG = "http://www.w3.org/2000/svg";

function add(parent, name, attributes = {}, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

function make(parent, name, attributes = {}, text) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

const signed = (value, unit = "") => (value > 0 ? "+" : value < 0 ? "\u2212" : "") + Math.abs(value) + unit;

// A dial that turns to one of its values, 0 on top and what is added to the right.
class Dial {
  constructor(parent, facts, start, changed) {
    this.facts = facts;
    this.changed = changed;
    this.value = start;
    const svg = (this.svg = add(parent, "svg", {
      viewBox: facts.unit ? "-175 -165 350 330" : "-160 -160 320 320",
      class: "bj-dial",
    }));
    add(svg, "circle", { r: 106, class: "face" });
    this.hand = add(svg, "line", { y1: -56, y2: -98, class: "hand" });
    this.big = add(svg, "text", { class: "big", y: 4 });
    this.said = add(svg, "text", { class: "said", y: 30 });
    if (facts.label) add(svg, "text", { class: "said", y: -34 }, facts.label);
    const top = Math.max(...facts.values);
    const room = facts.unit ? 180 : 180 * (top / (top + 0.75)); // the two ends do not touch
    this.angle = (value) => (value / top) * room;
    const many = facts.values.length > 25;
    const every = facts.unit ? 45 : Math.ceil(top / 5);
    this.ticks = new Map();
    for (const value of facts.values) {
      if (facts.unit && value === -top) continue;
      const seen = facts.trained.includes(value);
      const kind = `tick ${value === 0 ? "none" : seen ? "seen" : "new"} ${many ? "" : "large"}`;
      const word = signed(value, facts.unit);
      const tick = add(svg, "g", { class: kind, role: "button", tabindex: 0, "aria-label": word });
      const turn = (this.angle(value) * Math.PI) / 180;
      const [x, y] = [Math.sin(turn), -Math.cos(turn)];
      const labelled = !many || value % every === 0 || seen;
      add(tick, "circle", { cx: 126 * x, cy: 126 * y, r: many ? (labelled ? 5.5 : 3) : 16 });
      const out = many ? 147 : 126;
      if (labelled && !(many && seen && facts.unit)) add(tick, "text", { x: out * x, y: out * y }, word);
      tick.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") (event.preventDefault(), this.set(value));
      });
      this.ticks.set(value, tick);
    }
    svg.addEventListener("pointerdown", (event) => (svg.setPointerCapture(event.pointerId), this.follow(event)));
    svg.addEventListener("pointermove", (event) => event.buttons && this.follow(event));
    this.show();
  }

  follow(event) {
    const box = this.svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.x - box.width / 2, event.clientY - box.y - box.height / 2];
    if (Math.hypot(x, y) < box.width * 0.12) return;
    const at = (Math.atan2(x, -y) * 180) / Math.PI;
    const near = [...this.ticks.keys()].reduce((a, b) =>
      Math.abs(this.angle(b) - at) < Math.abs(this.angle(a) - at) ? b : a,
    );
    this.set(near);
  }

  set(value) {
    if (value === this.value) return;
    this.value = value;
    this.show();
    this.changed();
  }

  show() {
    for (const [value, tick] of this.ticks) tick.setAttribute("aria-pressed", value === this.value);
    this.hand.style.transform = `rotate(${this.angle(this.value)}deg)`;
    this.big.textContent = signed(this.value, this.facts.unit);
    const seen = this.facts.trained.includes(this.value);
    const words = this.value === 0 ? "stay" : seen ? "trained on" : "never trained on";
    this.said.textContent = words;
    this.said.setAttribute("class", `said ${this.value === 0 ? "" : seen ? "seen" : "new"}`);
  }
}

// Calls draw(share) from 0 to 1 over some time; a new motion of the same key ends the last.
const motions = new Map();
function animate(key, draw, milliseconds = 900) {
  const own = {};
  motions.set(key, own);
  const begin = performance.now();
  const frame = (now) => {
    if (motions.get(key) !== own) return;
    const t = Math.min(1, Math.max(0, (now - begin) / milliseconds));
    draw(t < 0.5 ? 2 * t * t : 1 - 2 * (1 - t) * (1 - t));
    if (t < 1) requestAnimationFrame(frame);
  };
  draw(0);
  requestAnimationFrame(frame);
}

function circle(parent, facts, key) {
  const svg = add(parent, "svg", { viewBox: "-150 -150 300 300", class: "bj-circle", role: "img" });
  const far = Math.max(...[...facts.ring, ...facts.path].map(([x, y]) => Math.hypot(x, y)), 1e-9);
  const small = facts.ring.length > 30 || facts.names.some((name) => name.length > 3);
  const size = small ? 112 : 128;
  const at = ([x, y]) => [(size * x) / far, (-size * y) / far];
  const line = (points) =>
    points
      .map((p) =>
        at(p)
          .map((v) => v.toFixed(1))
          .join(","),
      )
      .join(" ");
  add(svg, "polygon", { points: line(facts.ring), class: "ring" });
  const every = facts.names.every(Boolean) ? Math.ceil(facts.ring.length / 30) : 1;
  facts.ring.forEach((point, i) => {
    const [x, y] = at(point);
    if (small) {
      if (!facts.names[i] || i % every) return;
      add(svg, "circle", { cx: x, cy: y, r: 3, class: "state" });
      const out = 1 + 16 / Math.max(Math.hypot(x, y), 16);
      add(svg, "text", { x: x * out, y: y * out }, facts.names[i].slice(0, 12));
    } else {
      add(svg, "circle", { cx: x, cy: y, r: 13, class: "state" });
      add(svg, "text", { x, y }, facts.names[i]);
    }
  });
  const trail = add(svg, "polyline", { class: "trail" });
  const point = add(svg, "circle", { r: 8, class: "point" });
  if (facts.title) add(svg, "text", { x: 0, y: 0 }, facts.title);
  const last = facts.path.length - 1;
  animate(key, (share) => {
    const whole = Math.floor(share * last),
      rest = share * last - whole;
    const [a, b] = [facts.path[whole], facts.path[Math.min(whole + 1, last)]];
    const now = [a[0] + rest * (b[0] - a[0]), a[1] + rest * (b[1] - a[1])];
    const [x, y] = at(now);
    (point.setAttribute("cx", x), point.setAttribute("cy", y));
    trail.setAttribute("points", line([...facts.path.slice(0, whole + 1), now]));
  });
}

// A small clock for each plane of the latent; its hand turns with the action.
function clocks(parent, hands, caption, key) {
  const box = make(parent, "div", { class: "bj-clocks" });
  const groups = new Map();
  const drawn = hands.map((hand) => {
    if (!groups.has(hand.frequency)) {
      const figure = make(box, "figure");
      make(figure, "figcaption", {}, caption(hand.frequency));
      groups.set(hand.frequency, make(figure, "div"));
    }
    const svg = add(groups.get(hand.frequency), "svg", { viewBox: "-20 -20 40 40", class: "bj-clock" });
    add(svg, "circle", { r: 18 });
    const long = 4 + 13 * hand.size;
    const aim = (line, angle) => {
      (line.setAttribute("x2", long * Math.cos(angle)), line.setAttribute("y2", -long * Math.sin(angle)));
    };
    aim(add(svg, "line", { class: "ghost" }), hand.at);
    return [hand, add(svg, "line"), aim];
  });
  animate(key, (share) => drawn.forEach(([hand, line, aim]) => aim(line, hand.at + share * hand.turn)));
}

function bars(parent, rows, right) {
  const box = make(parent, "div", { class: "bj-bars", role: "img" });
  const best = rows.reduce((a, b) => (b.chance > a.chance ? b : a));
  for (const row of rows) {
    const bar = make(box, "div", { title: `${row.name}: ${(100 * row.chance).toFixed(1)} %` });
    if (row === best) bar.className = `best ${right ? "" : "wrong"}`;
    make(bar, "i", { style: `height: ${(70 * row.chance).toFixed(1)}px` });
    bar.append(row.name);
  }
}

// One picture of a strip, of the size asked for.
function sprite(parent, url, index, count, shape, height) {
  const width = (height * shape[2]) / shape[1];
  const look =
    `width:${width}px;height:${height}px;background-image:url(${url});` +
    `background-size:${width * count}px ${height}px;background-position:${-index * width}px 0`;
  return make(parent, "div", { class: "bj-sprite", style: look });
}

function chart(parent, sides, steps) {
  const svg = add(parent, "svg", { viewBox: "0 0 360 190", class: "bj-chart", role: "img" });
  const top = Math.max(
    1.1,
    ...sides
      .flatMap((side) => side.drift)
      .filter(Number.isFinite)
      .map((v) => Math.min(v, 3)),
  );
  const at = (i, v) => `${(40 + (310 * i) / steps).toFixed(1)},${(160 - (145 * Math.min(v, top)) / top).toFixed(1)}`;
  for (const v of [0, 0.5, 1, ...(top > 2 ? [2] : [])]) {
    const y = 160 - (145 * v) / top;
    add(svg, "line", { x1: 40, x2: 350, y1: y, y2: y, class: "axis" });
    add(svg, "text", { x: 34, y: y + 4, "text-anchor": "end" }, v);
  }
  for (const i of [0, Math.round(steps / 2), steps])
    add(svg, "text", { x: 40 + (310 * i) / steps, y: 178, "text-anchor": "middle" }, i);
  sides.forEach((side, which) => {
    const points = side.drift.map((v, i) => at(i, Number.isFinite(v) ? v : top)).join(" ");
    add(svg, "polyline", { points, class: which ? "other" : "mine" });
  });
}
