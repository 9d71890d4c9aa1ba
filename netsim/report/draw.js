// A small drawing kit: axes, bars, lines, dots and cells as SVG, and a tip that follows pointer, finger and keyboard.
// Colours are names of the page's style, so that light and dark need no drawing anew.

const range = (count) => Array.from({ length: count }, (_, index) => index);
const narrow = () => window.innerWidth < 600;
const paint = (colour) => `var(--${colour})`;

function fill(element, attributes, inside) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside.map((each) => (each instanceof Node ? each : document.createTextNode(String(each)))));
  return element;
}
const make = (tag, attributes = {}, ...inside) => fill(document.createElement(tag), attributes, inside);
const shape = (tag, attributes = {}, ...inside) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, inside);

// ---- numbers for people ----

const PREFIXES = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
const CLOCK = [[86400, 3600, "d", "h"], [3600, 60, "h", "min"], [60, 1, "min", "s"]];
function duration(value) {      // as netsim.base.units.duration: "9 h 4 min"
  const [size, part, unit, smaller] = CLOCK.find(([step]) => Math.abs(value) >= step);
  const whole = Math.round(Math.abs(value) / part) * part, rest = (whole % size) / part;
  return `${value < 0 ? "-" : ""}${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${smaller}` : ""}`;
}
function si(value, unit, digits = 3) {
  if (value === null || value === undefined) return "";
  if (Math.abs(value) < 1e-12) return `0 ${unit}`;
  if (unit === "s" && Math.abs(value) >= 119.5) return duration(value);
  const steps = unit === "s" ? PREFIXES.slice(3) : PREFIXES;      // nobody reads kiloseconds
  const [size, prefix] = steps.find(([step]) => Math.abs(value) >= step * 0.9995) || steps[steps.length - 1];
  const shown = Number((value / size).toPrecision(Math.abs(value) >= 1000 * size ? 6 : digits));
  return `${shown.toLocaleString("en")} ${prefix}${unit}`;
}
const counted = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
const percent = (share, digits = 1) => (share === null || share === undefined ? "" : `${(100 * share).toFixed(digits)} %`);

// ---- axes ----

const CLOCK_STEPS = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];
function roundTicks(lo, hi, about, clock) {
  const rough = (hi - lo) / Math.max(about, 1);
  if (!(rough > 0)) return [lo];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = clock && hi >= 120 && rough > 10 ? CLOCK_STEPS.find((size) => size >= rough * 0.999) || 86400 * Math.ceil(rough / 86400)
    : power * [1, 2, 5, 10].find((size) => size * power >= rough * 0.999);
  const first = Math.ceil(lo / step - 1e-9), last = Math.floor(hi / step + 1e-9);
  return range(Math.max(last - first + 1, 1)).map((k) => Number(((first + k) * step).toPrecision(12)));
}
const ticksOf = (axis, lo, hi, about) => (axis.ticks || roundTicks(lo, hi, about, axis.clock).filter((at) => !axis.whole || Number.isInteger(at))
  .map((at) => [at, axis.text(at)])).filter(([at]) => (at - lo) * (at - hi) <= 1e-9 * (hi - lo) ** 2);
const axisOf = (text, title, more = {}) => ({ text, title, lo: 0, ...more });
const seconds = (title, more) => axisOf((value) => si(value, "s", 6), title, { clock: true, ...more });
const joules = (title, more) => axisOf((value) => si(value, "J", 6), title, more);
const hertz = (title, more) => axisOf((value) => si(value, "Hz", 6), title, more);
const share = (title, more) => axisOf((value) => percent(value, 0), title, more);
const plain = (title, more) => axisOf((value) => value.toLocaleString("en"), title, more);
const top = (lists, least = 1e-12) => lists.reduce((most, list) => list.reduce((a, b) => Math.max(a, b), most), least) * 1.04;
const cut = (text, most) => (text.length > most ? `${text.slice(0, Math.max(most - 5, 1))}…${text.slice(-4)}` : text);   // a number at the end tells devices apart

// ---- what layers are made of; x and y are scales ----

const box = (x0, y0, x1, y1) => `M${x0.toFixed(1)} ${y0.toFixed(1)}H${x1.toFixed(1)}V${y1.toFixed(1)}H${x0.toFixed(1)}Z`;
// bars: [x0, x1, y0, y1] each, in one path; what is thinner than a hair stays visible
function barsPath(bars, colour, x, y, view, more = {}) {
  const way = bars.filter(([x0, x1]) => x1 >= view.lo && x0 <= view.hi).map(([x0, x1, y0, y1]) => {
    const left = x(Math.max(x0, view.lo)), right = x(Math.min(x1, view.hi));
    return box(left, y(y0), Math.max(right, left + 0.5), y(y1));
  }).join("");
  return shape("path", { d: way, fill: paint(colour), ...more });
}
function linePath(xs, ys, colour, x, y, { step = false, dash = "", width = 2 } = {}) {
  const way = xs.map((each, i) => {
    const to = `${x(each).toFixed(1)} ${y(ys[i]).toFixed(1)}`;
    return i === 0 ? `M${to}` : step ? `H${x(each).toFixed(1)}V${y(ys[i]).toFixed(1)}` : `L${to}`;
  }).join("");
  return shape("path", { d: way, fill: "none", stroke: paint(colour), "stroke-width": width, "stroke-dasharray": dash,
    "stroke-linejoin": "round" });
}
const SHAPES = {
  dot: (r) => `m${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`,
  square: (r) => `m${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  diamond: (r) => `m0 ${-1.3 * r}l${1.3 * r} ${1.3 * r}l${-1.3 * r} ${1.3 * r}l${-1.3 * r} ${-1.3 * r}z`,
  triangle: (r) => `m0 ${-1.3 * r}l${1.2 * r} ${2.2 * r}h${-2.4 * r}z`,
  cross: (r) => `m${-r} ${-r}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}`,
  dash: (r) => `m${-r} 0h${2 * r}`,
};
const dotsPath = (points, kind, radius, attributes) => shape("path", {
  d: points.map(([px, py]) => `M${px.toFixed(1)} ${py.toFixed(1)}${SHAPES[kind](radius)}`).join(""), ...attributes });

// ---- legend ----

function legend(entries) {
  const list = make("ul", { class: "legend" });
  for (const { name, colour, kind = "square", dash = "" } of entries) {
    const key = shape("svg", { width: 22, height: 14, "aria-hidden": "true" });
    if (kind === "square") key.append(shape("path", { d: "M5 1h12v12h-12z", fill: paint(colour) }));
    else if (kind === "outline") key.append(shape("path", { d: "M4 2h14v10h-14z", fill: "none", stroke: paint(colour), "stroke-width": 2.5 }));
    else if (kind === "line") key.append(shape("path", { d: "M1 7h20", stroke: paint(colour), "stroke-width": 2.5, "stroke-dasharray": dash }));
    else key.append(dotsPath([[11, 7]], kind, 5, kind === "cross" || kind === "dash"
      ? { stroke: paint(colour), "stroke-width": 2.5, fill: "none" } : { fill: paint(colour) }));
    list.append(make("li", {}, key, name));
  }
  return list;
}

// ---- the tip ----

const tip = make("div", { id: "tip", role: "status", hidden: "" });
document.body.append(tip);
function showTip(lines, x, y) {
  tip.replaceChildren(...lines.map((line, at) => make(at ? "div" : "b", {}, line)));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - width - 6))}px`;
  tip.style.top = `${y + 18 + height > window.innerHeight ? Math.max(4, y - height - 14) : y + 18}px`;
}

// ---- a chart ----

// spec: { height, x, y, zoom, legend, layers: (x, y, view, area) => elements, marks: (x, y) => marks, near }
// A mark is what pointer and keyboard find: { x, y, box, lines, act }, places in pixels, lines a function. A pointer finds
// the one whose box it is in, else, by `near`: "x" the nearest along that axis, "xy" one that is close, "box" none.
const SPECS = {};
function draw(place) {
  const spec = SPECS[place.id](place), width = Math.max(place.clientWidth, 240);
  const labels = Boolean(spec.x.turned), height = (spec.height || 300) + (labels ? 50 : 0);
  const view = (spec.zoom && place.view) || { lo: spec.x.lo, hi: spec.x.hi };
  const yTicks = ticksOf(spec.y, spec.y.lo, spec.y.hi, height / 60), letter = spec.y.bold ? 7.5 : 6.6;      // bold ones are wider
  const most = Math.floor(width * (narrow() ? 0.3 : 0.22) / letter);
  const left = 12 + letter * Math.max(2, ...yTicks.map(([, text]) => Math.min(text.length, most)));
  const area = { left, right: width - 14, top: spec.y.title ? 22 : 8, bottom: height - (labels ? 90 : spec.x.title ? 40 : 24) };
  const x = (value) => area.left + (area.right - area.left) * (value - view.lo) / (view.hi - view.lo || 1);
  const y = (value) => area.bottom + (area.top - area.bottom) * (value - spec.y.lo) / (spec.y.hi - spec.y.lo || 1);
  const svg = shape("svg", { width, height, "aria-hidden": "true" });
  const clip = shape("clipPath", { id: `${place.id}-clip` }, shape("rect", {
    x: area.left - (spec.zoom ? 0 : 8), y: 0, width: area.right - area.left + (spec.zoom ? 0 : 16), height: area.bottom + 8 }));
  svg.append(clip, axes(spec, x, y, area, yTicks, view, most));
  svg.append(shape("g", { "clip-path": `url(#${place.id}-clip)` }, ...spec.layers(x, y, view, area)));
  const cursor = shape("rect", { class: "cursor", visibility: "hidden", rx: 3 });
  svg.append(cursor);
  place.replaceChildren(...(spec.legend ? [legend(spec.legend)] : []), svg);
  let marks = null;            // made when they are first asked for: a large chart is zoomed faster than they are listed
  Object.assign(place, { spec, shown: { svg, cursor, area, x, view } });
  Object.defineProperty(place, "marks", { get: () => (marks = marks || spec.marks(x, y)), configurable: true });
  place.classList.toggle("zoomable", Boolean(spec.zoom));
  place.dataset.drawn = "yes";
}

function axes(spec, x, y, area, yTicks, view, most) {
  const all = shape("g", { class: "axes" }), grid = (d) => all.append(shape("path", { d, class: "grid" }));
  const write = (px, py, text, anchor, more = {}) => all.append(shape("text", { x: px, y: py, "text-anchor": anchor, ...more }, text));
  for (const [at, text] of yTicks) {
    if (!spec.y.bare) grid(`M${area.left} ${y(at).toFixed(1)}H${area.right}`);
    write(area.left - 6, y(at) + 4, cut(text, most), "end", spec.y.bold && spec.y.bold(at) ? { class: "bold" } : {});
  }
  for (const [at, text] of ticksOf(spec.x, view.lo, view.hi, (area.right - area.left) / (narrow() ? 70 : 100))) {
    if (!spec.x.bare) grid(`M${x(at).toFixed(1)} ${area.top}V${area.bottom}`);
    if (spec.x.turned) write(0, 0, cut(text, 14), "end", { transform: `translate(${x(at) + 4} ${area.bottom + 12}) rotate(-50)` });
    else write(Math.min(x(at), area.right + 10 - 3.2 * Math.min(text.length, 24)), area.bottom + 18, cut(text, 24), "middle");
  }
  if (spec.x.title) write((area.left + area.right) / 2, area.bottom + 34, spec.x.title, "middle", { class: "soft" });
  if (spec.y.title) write(4, 12, spec.y.title, "start", { class: "soft" });
  return all;
}

function redraw(place) {
  const kept = tip.owner === place && !tip.hidden;
  draw(place);
  if (kept && place.marks[place.at]) ring(place, place.at);
}

// ---- pointing ----

function nearest(place, px, py) {
  const { marks, spec } = place;
  let best = -1, least = Infinity;
  marks.forEach((mark, at) => {
    const inside = mark.box && px >= mark.box[0] && px <= mark.box[2] && py >= mark.box[1] && py <= mark.box[3];
    const far = inside ? -1 : spec.near === "box" ? Infinity
      : spec.near === "x" ? Math.abs(mark.x - px) + 1e-3 * Math.abs(mark.y - py) : Math.hypot(mark.x - px, mark.y - py);
    if (far < least || (inside && far <= least)) { least = far; best = at; }
  });
  return spec.near !== "x" && least > 24 ? -1 : best;
}
function ring(place, at) {
  const mark = place.marks[at], [x0, y0, x1, y1] = mark.box || [mark.x - 5, mark.y - 5, mark.x + 5, mark.y + 5];
  const { cursor, area } = place.shown, left = Math.max(x0, area.left), right = Math.min(x1, area.right);
  const seen = right >= left - 6;
  fill(cursor, { x: left - 2, y: y0 - 2, width: Math.max(right - left, 0) + 4, height: Math.max(y1 - y0, 0) + 4,
    visibility: seen ? "visible" : "hidden" }, []);
  place.at = at;
}
function point(place, at, px, py) {
  if (tip.owner && tip.owner !== place) leave(tip.owner);
  tip.owner = place;
  ring(place, at);
  const frame = place.shown.svg.getBoundingClientRect(), mark = place.marks[at];
  showTip(mark.lines(), px === undefined ? frame.left + mark.x : px, py === undefined ? frame.top + mark.y : py);
}
function leave(place) {
  if (place.shown) place.shown.cursor.setAttribute("visibility", "hidden");
  if (tip.owner === place) tip.hidden = true;
}

function zoom(place, factor, around) {
  const { spec, shown: { view } } = place, whole = spec.x.hi - spec.x.lo;
  const span = Math.min(Math.max((view.hi - view.lo) * factor, whole / 1e5), whole);
  const at = around === undefined ? (view.lo + view.hi) / 2 : around;
  pan(place, at - (at - view.lo) * span / (view.hi - view.lo), span);
}
function pan(place, lo, span) {
  const { spec } = place, from = Math.min(Math.max(lo, spec.x.lo), spec.x.hi - span);
  place.view = span >= (spec.x.hi - spec.x.lo) * 0.9999 ? null : { lo: from, hi: from + span };
  redraw(place);
}
function follow(place, at) {           // a mark that the keyboard reaches is brought into view
  const { x, area, view } = place.shown, mark = place.marks[at];
  if (!place.spec.zoom || (mark.x >= area.left && mark.x <= area.right)) return;
  const perPixel = (view.hi - view.lo) / (area.right - area.left);
  pan(place, view.lo + (mark.x - x(view.lo)) * perPixel - (view.hi - view.lo) / 2, view.hi - view.lo);
}

const aside = (marks, from, way) => {     // the nearest mark above or below
  const far = (mark) => (mark.y - from.y) * way;
  let best = -1, least = Infinity;
  marks.forEach((mark, at) => {
    const cost = far(mark) > 2 ? 20 * far(mark) + Math.abs(mark.x - from.x) : Infinity;
    if (cost < least) { least = cost; best = at; }
  });
  return best;
};

let scrolled = -1e9;         // a wheel that was scrolling the page goes on scrolling it
window.addEventListener("scroll", () => { scrolled = performance.now(); }, { passive: true });

let pointed = [];            // where the pointer was: a page that moves under a pointer at rest is not pointing

function keys(place, event) {
  const { marks } = place, at = place.at === undefined ? -1 : place.at;
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (place.spec.zoom && ["+", "=", "-", "0"].includes(event.key)) {
    const { area, view } = place.shown, mark = marks[at];
    const around = mark && view.lo + (mark.x - area.left) / (area.right - area.left) * (view.hi - view.lo);
    if (event.key === "0") pan(place, place.spec.x.lo, Infinity);
    else zoom(place, event.key === "-" ? 2 : 0.5, around);
    if (mark) point(place, at);
  } else if (event.key === "Escape") leave(place);
  else if (!marks.length) return;
  else if (step || way || event.key === "Home" || event.key === "End") {
    const to = event.key === "Home" ? 0 : event.key === "End" ? marks.length - 1
      : at < 0 ? 0 : step ? Math.min(Math.max(at + step, 0), marks.length - 1) : aside(marks, marks[at], way);
    if (to < 0) return;
    follow(place, to);
    point(place, to);
    place.shown.cursor.scrollIntoView({ block: "nearest" });
  } else if ((event.key === "Enter" || event.key === " ") && marks[at] && marks[at].act) marks[at].act();
  else return;
  event.preventDefault();
}

function pointers(place) {
  const down = new Map();
  let dragged = 0, last = null;
  const local = (event) => { const frame = place.shown.svg.getBoundingClientRect(); return [event.clientX - frame.left, event.clientY - frame.top]; };
  const perPixel = () => (place.shown.view.hi - place.shown.view.lo) / (place.shown.area.right - place.shown.area.left);
  place.addEventListener("pointerdown", (event) => { down.set(event.pointerId, event.clientX); dragged = 0; last = null; });
  for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, (event) => down.delete(event.pointerId));
  place.addEventListener("pointermove", (event) => {
    if (event.clientX === pointed[0] && event.clientY === pointed[1]) return;
    pointed = [event.clientX, event.clientY];
    if (place.spec.zoom && down.has(event.pointerId)) {
      const before = [...down.values()], moved = event.clientX - down.get(event.pointerId), { view } = place.shown;
      down.set(event.pointerId, event.clientX);
      dragged += Math.abs(moved);
      if (down.size === 2) {                                     // two fingers
        const after = [...down.values()], wide = (pair) => Math.max(Math.abs(pair[0] - pair[1]), 10);
        zoom(place, wide(before) / wide(after));
      } else if (place.view) pan(place, view.lo - moved * perPixel(), view.hi - view.lo);
      if (dragged > 4) return leave(place);
    }
    const [px, py] = local(event), at = nearest(place, px, py);
    if (at < 0) leave(place); else point(place, at, event.clientX, event.clientY);
  });
  place.addEventListener("pointerleave", () => { if (document.activeElement !== place) leave(place); });
  place.addEventListener("click", (event) => {
    const [px, py] = local(event), at = nearest(place, px, py);
    if (dragged > 4 || at < 0) return;
    point(place, at, event.clientX, event.clientY);
    if (place.marks[at].act) place.marks[at].act();
  });
  place.addEventListener("wheel", (event) => {
    const out = event.deltaY > 0;
    if (!place.spec.zoom || performance.now() - scrolled < 250 || (out && !place.view && !event.ctrlKey)) return;
    event.preventDefault();
    const { view, area } = place.shown;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(place, view.lo + event.deltaX * perPixel(), view.hi - view.lo);
    else zoom(place, Math.exp(Math.sign(event.deltaY) * Math.min(Math.abs(event.deltaY), 100) * 0.004),
      view.lo + (local(event)[0] - area.left) * perPixel());
  }, { passive: false });
  place.addEventListener("dblclick", () => { if (place.spec.zoom && place.view) pan(place, place.spec.x.lo, Infinity); });
}

function open(place) {
  draw(place);
  const title = place.dataset.name || place.closest("section").querySelector("h2").textContent;
  fill(place, { tabindex: 0, role: "application", "aria-roledescription": "chart",
    "aria-label": `${title}: arrow keys go from value to value${place.spec.zoom ? ", plus and minus zoom" : ""}` }, []);
  place.addEventListener("keydown", (event) => keys(place, event));
  place.addEventListener("focus", () => {
    if (place.matches(":focus-visible") && place.marks[place.at]) point(place, place.at);
  });
  place.addEventListener("blur", () => leave(place));
  pointers(place);
}
