// The page itself: images that a visitor chooses, three tabs, and what the server answers. `element`, `server` and
// `props` are given by gradio.
const facts = props.facts;
const $ = (id) => element.querySelector(`#bj-${id}`);
const both = () => $("both").checked;
const plainAction = facts.dials.length === 1;

function complain(text) {
  $("error").hidden = !text;
  $("error").textContent = text || "";
}

// Asks the server one thing at a time; of what was asked meanwhile only the last is asked next.
function asker(name, question, shown) {
  let busy = false,
    again = false;
  return async function ask() {
    if (busy) return void (again = true);
    const asked = question();
    if (!asked) return;
    busy = true;
    const begun = performance.now();
    const answer = (await server[name](asked).catch(() => null)) || {
      error: "The server does not answer: is 'brojepa demo' still running?",
    };
    try {
      complain(answer.error);
      if (!answer.error) shown(answer);
      element.dataset[`${name}Milliseconds`] = Math.round(performance.now() - begun);
      element.dataset[`${name}Answers`] = 1 + Number(element.dataset[`${name}Answers`] || 0);
    } finally {
      busy = false;
      if (again) ((again = false), ask());
    }
  };
}

// Act
const actDials = [];
const askAct = asker(
  "act",
  () =>
    actImage &&
    actImage.source &&
    actImage.source.drawn !== true && { source: actImage.source, k: actDials.map((dial) => dial.value), both: both() },
  (answer) => {
    const [main, other] = answer.sides;
    const said = facts.labelled ? ["read as ", bold(main.before), `, ${percent(main.before_chance)}`] : [];
    actImage.show(answer.image, answer.note ? [...said, ` (${answer.note})`] : said);
    prediction(fresh("act-answer"), answer, main, "act");
    const box = fresh("act-inside");
    if (other) inside(box, other, answer);
    inside(box, main);
  },
);

// Plan
const allowed = new Set(facts.allowed.filter((one) => one.chosen).map((one) => one.word));
const askPlan = asker(
  "plan",
  () =>
    planFrom &&
    planTo &&
    [planFrom, planTo].every((p) => p.source && p.source.drawn !== true) && {
      start: planFrom.source,
      goal: planTo.source,
      allowed: [...allowed],
      both: both(),
    },
  (answer) => {
    planFrom.show(answer.from, []);
    planTo.show(answer.to, []);
    const box = fresh("plan-answer");
    answer.sides.forEach((side, which) => {
      const card = make(box, "div", { class: "bj-card bj-wide" });
      if (which) make(card, "h2", {}, `Baseline ${side.label}`);
      const sum = make(card, "p", { class: "bj-sum" });
      sum.append("inferred action ");
      make(sum, "strong", { id: which ? "bj-plan-other" : "bj-plan-action" }, side.action);
      const stays = /^0/.test(side.action.replaceAll("0:", ""));
      make(
        sum,
        "span",
        { class: stays ? "" : side.trained ? "seen-text" : "new-text" },
        stays ? "stay" : side.trained ? "trained on" : "never trained on",
      );
      if (side.error) return void make(card, "p", { class: "bj-error" }, side.error);
      const way = make(card, "div", { class: "bj-way" });
      for (let i = 0; i < side.count; i++) {
        if (i) make(way, "div", { class: "arrow" }, `${side.words[i - 1]} →`);
        const step = make(way, "div", { class: "bj-step" });
        sprite(step, side.decoded || side.nearest, i, side.count, facts.shape, 64);
        step.append(side.names[i]);
      }
      make(way, "div", { class: "arrow" }, "goal");
      sprite(make(way, "div"), answer.to, 0, 1, facts.shape, 64);
      const far = `${Math.round(100 * side.distance)} % of the goal latent's length away`;
      make(
        card,
        "p",
        { class: "bj-hint" },
        `${side.reached ? "Arrived" : "Not arrived"}: ${far}. ` +
          (side.decoded ? "Pictures are decoded from predicted latents." : "Pictures are the nearest real images."),
      );
    });
  },
);

// Roll out
const rollDials = [];
const askRoll = asker(
  "roll",
  () =>
    rollImage &&
    rollImage.source &&
    rollImage.source.drawn !== true && {
      source: rollImage.source,
      k: rollDials.map((dial) => dial.value),
      steps: Number($("steps").value),
      both: both(),
    },
  (answer) => {
    rollImage.show(answer.image, []);
    const where = fresh("roll-chart"),
      box = fresh("roll-answer");
    make(
      where,
      "p",
      { class: "bj-hint" },
      "Distance from the truth after each step; 1 is the distance between two states.",
    );
    chart(where, answer.sides, answer.steps);
    answer.sides.forEach((side, which) => {
      const last = side.drift[side.drift.length - 1] ?? Infinity;
      const right = side.right.filter(Boolean).length,
        all = side.right.length;
      const card = make(box, "div", { class: "bj-card bj-wide" });
      const what = which ? `Baseline ${side.label} (orange)` : `${side.label}${both() ? " (blue)" : ""}`;
      make(
        card,
        "h2",
        {},
        `${what}: ${right} of ${all} right; drift ${last.toFixed(2)} after ${answer.steps}`,
      );
      const grid = make(card, "div", { class: "bj-grid" });
      for (let i = 0; i < all; i++) {
        const step = make(grid, "div", { class: side.right[i] ? "" : "off", title: `step ${i}` });
        sprite(step, side.decoded || side.nearest, i, all, facts.shape, 44);
        step.append(side.names[i]);
      }
    });
  },
);

// The page
let actImage, planFrom, planTo, rollImage;
const asks = { act: askAct, plan: askPlan, roll: askRoll };
let tab = "act";
const words = facts.trained.map((word) => word.replace("-", "\u2212") + (facts.labelled ? "" : "°"));
const listed = words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}` : words[0];
$("claim").append(
  "Trained on ",
  Object.assign(document.createElement("em"), { textContent: listed }),
  " only. Try any other action.",
);
$("sub").textContent = facts.labelled
  ? "The model never saw the other actions. It predicts in its latent space, where an action is a rotation."
  : "The model never saw other turns. It predicts in its latent space, where a turn is a rotation.";
$("title").textContent = facts.title;
$("both-label").hidden = !facts.baseline;
$("both-text").textContent = `compare with a baseline, ${facts.baseline}`;
$("steps").max = facts.steps;
element
  .querySelectorAll(".bj-draw-title")
  .forEach(
    (node) =>
      (node.textContent = !facts.ink
        ? "Choose an image"
        : facts.dials.length > 1
          ? "Draw two digits"
          : "Draw, or take an image"),
  );

const first = facts.first;
actImage = new Picker($("act-image"), () => askAct(), first[0]);
for (const dial of facts.dials)
  actDials.push(new Dial($("act-dials"), dial, dial.unit ? 60 : Math.min(3, Math.max(...dial.values)), askAct));
askAct();

const built = { act: true };
function build(name) {
  if (built[name]) return;
  built[name] = true;
  if (name === "plan") {
    for (const one of facts.allowed) {
      const chip = make(
        $("plan-allowed"),
        "button",
        { type: "button", class: one.trained ? "seen" : "", "aria-pressed": one.chosen },
        one.word.replaceAll("-", "\u2212"),
      );
      chip.onclick = () => {
        allowed[allowed.has(one.word) ? "delete" : "add"](one.word);
        chip.setAttribute("aria-pressed", allowed.has(one.word));
        askPlan();
      };
    }
    planFrom = new Picker($("plan-from"), () => askPlan(), first[0]);
    planTo = new Picker($("plan-to"), () => askPlan(), first[1]);
  } else {
    for (const dial of facts.dials)
      rollDials.push(
        new Dial($("roll-dials"), dial, dial.unit ? 60 : Math.min(3, Math.max(...dial.values)), () => askRoll()),
      );
    rollImage = new Picker($("roll-image"), () => askRoll(), first[0]);
    $("steps").oninput = () => (($("steps-text").textContent = `${$("steps").value} times`), askRoll());
    $("steps-text").textContent = `${$("steps").value} times`;
  }
  asks[name]();
}

element.querySelectorAll("nav button").forEach(
  (button) =>
    (button.onclick = () => {
      tab = button.dataset.tab;
      complain("");
      element.querySelectorAll("nav button").forEach((each) => each.setAttribute("aria-selected", each === button));
      for (const name of Object.keys(asks)) $(`tab-${name}`).hidden = name !== tab;
      build(tab);
    }),
);
$("both").onchange = () => Object.keys(built).forEach((name) => asks[name]());
element.dataset.ready = "yes";
