// An image that is drawn, taken from the test images, or uploaded.
class Picker {
  constructor(parent, changed, row) {
    this.changed = changed;
    const [, height, width] = facts.shape,
      wide = width > height;
    this.pad = make(parent, "div", {
      class: `bj-pad ${wide ? "wide" : ""}`,
      style: `aspect-ratio: ${width} / ${height}`,
    });
    this.canvas = make(this.pad, "canvas", { width: (280 * width) / height, height: 280, "aria-label": "draw here" });
    this.image = make(this.pad, "img", { alt: "the chosen image" });
    this.hint = make(this.pad, "span", {}, facts.ink ? "draw here" : "");
    const buttons = make(parent, "div", { class: "bj-buttons" });
    make(buttons, "button", { type: "button", class: "bj-test" }, "Test image").onclick = () => this.test();
    if (facts.ink) make(buttons, "button", { type: "button", class: "bj-clear" }, "Clear").onclick = () => this.clear();
    const label = make(buttons, "label", {}, "Upload");
    const input = make(label, "input", { type: "file", accept: "image/*", hidden: "" });
    input.onchange = () => (input.files[0] && this.upload(input.files[0]), (input.value = ""));
    this.read = make(parent, "p", { class: "bj-read" });
    if (facts.ink) this.drawing();
    else this.canvas.style.cursor = "default";
    this.use({ test: row });
  }

  use(source) {
    this.source = source;
    this.hint.hidden = true;
    this.changed();
  }

  test(row = Math.floor(Math.random() * facts.tests)) {
    this.use({ test: row });
  }

  clear() {
    const brush = this.canvas.getContext("2d");
    brush.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.image.hidden = true;
    this.hint.hidden = false;
    this.read.textContent = "";
    this.source = null;
  }

  upload(file) {
    if (file.size > facts.largest)
      return complain(`${file.name} has more than ${facts.largest / 1e6} MB: choose a smaller image`);
    const reader = new FileReader();
    reader.onload = () => this.use({ file: reader.result });
    reader.readAsDataURL(file);
  }

  drawing() {
    const brush = this.canvas.getContext("2d");
    let last = null,
      waiting = null;
    const point = (event) => {
      const box = this.canvas.getBoundingClientRect();
      const scale = this.canvas.width / box.width;
      return [(event.clientX - box.x) * scale, (event.clientY - box.y) * scale];
    };
    const line = (a, b) => {
      Object.assign(brush, { strokeStyle: "#fff", lineWidth: 24, lineCap: "round", lineJoin: "round" });
      (brush.beginPath(), brush.moveTo(...a), brush.lineTo(...b), brush.stroke());
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      if (!this.source || !this.source.drawn) this.clear();
      clearTimeout(waiting);
      this.hint.hidden = true;
      this.image.hidden = true;
      this.canvas.setPointerCapture(event.pointerId);
      last = point(event);
      line(last, last);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!last) return;
      const next = point(event);
      (line(last, next), (last = next));
    });
    const done = () => {
      if (!last) return;
      last = null;
      this.source = { drawn: true };
      waiting = setTimeout(() => this.use({ drawn: this.flat() }), 150); // a second stroke may follow
    };
    this.canvas.addEventListener("pointerup", done);
    this.canvas.addEventListener("pointercancel", done);
  }

  flat() {
    const page = document.createElement("canvas");
    [page.width, page.height] = [this.canvas.width, this.canvas.height];
    const brush = page.getContext("2d");
    brush.fillRect(0, 0, page.width, page.height);
    brush.drawImage(this.canvas, 0, 0);
    return page.toDataURL("image/png");
  }

  show(url, words) {
    if (!this.source || this.source.drawn === true) return; // another drawing was begun meanwhile
    this.image.hidden = Boolean(this.source.drawn);
    if (!this.source.drawn) this.image.src = url;
    this.read.innerHTML = "";
    this.read.append(...words);
  }
}
