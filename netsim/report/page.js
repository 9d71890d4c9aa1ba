// The charts and tables of a page, from the data in it. Every number was computed by netsim; here they only get a shape.

const data = {};
for (const part of document.querySelectorAll("script[type='application/json']"))
  data[part.id.replace("data-", "")] = JSON.parse(part.textContent);
const place = (id) => document.getElementById(id);

// ---- building blocks ----

// series: { name, colour, dash, x, y }; a tip names the series, and says x and y
function lines(series, xAxis, yAxis, { step = false, zoom = false, limit, tellX, tellY }) {
  const drawn = series.filter((each) => each.x.length);
  return {
    height: 280, x: xAxis, y: yAxis, near: "xy", zoom, series: drawn,
    legend: [...drawn.map(({ name, colour, dash }) => ({ name, colour, dash, kind: "line" })),
      ...(limit ? [{ name: limit.name, colour: "limit", kind: "line", dash: "5 4" }] : [])],
    layers: (x, y, view) => [
      ...drawn.map((each) => (each.x.length > 1 ? linePath(each.x, each.y, each.colour, x, y, { step, dash: each.dash })
        : dotsPath([[x(each.x[0]), y(each.y[0])]], "dot", 4, { fill: paint(each.colour) }))),
      ...(limit ? [linePath([view.lo, view.hi], [limit.at, limit.at], "limit", x, y, { dash: "5 4", width: 1.5 })] : []),
    ],
    marks: (x, y) => drawn.flatMap((each) => each.x.map((at, i) => ({ x: x(at), y: y(each.y[i]),
      lines: () => [each.name, tellX(at), tellY(each.y[i])] }))),
  };
}

// bars of parts on top of each other, side by side at the places `at`
function stacked(at, wide, parts, values, tell, act) {
  const sums = at.map(() => 0), bars = {};
  for (const part of parts) bars[part] = at.map((each, i) => {
    const from = sums[i];
    sums[i] += values(part)[i];
    return [each - wide / 2, each + wide / 2, from, sums[i]];
  });
  return {
    sums, near: "x", series: parts.map((name) => ({ name, x: at, y: values(name) })), legend: parts.map((name) => ({ name, colour: name })),
    layers: (x, y, view) => parts.map((part) => barsPath(bars[part], part, x, y, view, { "data-part": part })),
    marks: (x, y) => at.map((each, i) => ({ x: x(each), y: y(sums[i] / 2), box: [x(each - wide / 2), y(sums[i]), x(each + wide / 2), y(0)],
      lines: () => tell(i), act: act && (() => act(i)) })),
  };
}

// a matrix as cells of one colour, the more the stronger
const LEVELS = 12;
function cells(count, tell, text) {
  const most = Math.max(1, ...count.map((row) => Math.max(...row))), wide = count[0].length;
  const levels = range(LEVELS + 1).map(() => []);
  count.forEach((row, j) => row.forEach((each, i) => levels[Math.ceil(LEVELS * each / most)].push([i, i + 1, j, j + 1])));
  return {
    near: "box", layers: (x, y, view) => [
      ...levels.map((bars, level) => barsPath(bars, "amount", x, y, view, { "fill-opacity": level / LEVELS, stroke: paint("card"), "stroke-width": wide > 200 ? 0 : 1 })),
      ...(text ? count.flatMap((row, j) => row.map((each, i) => (each ? shape("text", { x: x(i + 0.5), y: y(j + 0.5) + 4, "text-anchor": "middle",
        class: each > 0.75 * most ? "on-amount" : "" }, String(each)) : ""))) : []),
    ].filter(Boolean),
    marks: (x, y) => count.flatMap((row, j) => row.map((each, i) => ({ x: x(i + 0.5), y: y(j + 0.5), box: [x(i), y(j), x(i + 1), y(j + 1)],
      lines: () => tell(i, j, each) }))),
  };
}
// names below bars: all that fit, else none
const names = (list, most, title) => (list.length > (narrow() ? most / 3 : most) ? { ticks: [], title } : { turned: true,
  ticks: list.map((name, i) => [i + 0.5, name]) });
const time = (hi) => seconds("simulated time", { hi: hi || 1 });
const tellSpent = (spent) => `for ${si(spent, "J", 4)}`;
const tellTime = (t) => `at ${si(t, "s", 5)}`, tellRounds = (round) => `round ${round}`;

// ---- one run ----

if (data.breakdown) {
  const { rounds, devices, totals } = data.breakdown, run = roundsOf(data.gantt), first = rounds.round[0], last = rounds.round[rounds.round.length - 1];
  const roundAxis = (more) => plain("round", { lo: first - 0.6, hi: last + 0.6, whole: true, ...more });
  const lineAxis = roundAxis({ lo: Math.min(first, last - 1), hi: last });
  const state = roundState([data.gantt], { places: [place("gantt")], said: [place("gantt-said")], box: place("gantt-controls"),
    after: [place("timeline"), place("latency")] });
  SPECS.gantt = () => gantt(run, state.round, state.earliest(), state.longest());
  const slices = slicesOf(run);
  SPECS.timeline = () => timeline(run, slices, state);
  SPECS.latency = () => {
    const wide = 0.82 * Math.max(1, (last - first + 1) / rounds.round.length), opened = rounds.round.indexOf(state.round);
    const { parts } = data.breakdown, found = stacked(rounds.round, wide, parts, (part) => rounds[`${part}_s`], (i) => [`round ${rounds.round[i]}`,
      `${si(rounds.round_s[i], "s", 4)}, ${si(rounds.energy_j[i], "J")}`, ...parts.map((part) => `${part} ${si(rounds[`${part}_s`][i], "s")}`),
      ...(rounds.dropped[i] ? [`${rounds.dropped[i]} dropped out`] : []), "Enter or a click opens it"], (i) => state.open(rounds.round[i]));
    return { ...found, height: 280, zoom: true, x: roundAxis(), y: seconds("", { hi: top([found.sums]) }),
      legend: [...found.legend, { name: "the open round", colour: "open", kind: "triangle" }],
      layers: (x, y, view, area) => [...found.layers(x, y, view), dotsPath(opened < 0 ? []
        : [[x(state.round), Math.max(y(found.sums[opened]) - 8, area.top)]], "triangle", 4, { fill: paint("open"), class: "opened" })] };
  };
  const accuracyOver = (key, axis, tellX) => {
    const found = data.accuracy;
    return lines([{ name: "test accuracy", colour: "learned", x: found[key], y: found.accuracy }], axis, share("", { hi: 1 }),
      { limit: found.target && { name: "target", at: found.target }, tellX, tellY: (y) => percent(y, 2) });
  };
  if (data.accuracy) {
    SPECS["accuracy-rounds"] = () => accuracyOver("round", lineAxis, tellRounds);
    SPECS["accuracy-seconds"] = () => accuracyOver("t1", time(totals.makespan_s), tellTime);
    SPECS["accuracy-joules"] = () => accuracyOver("spent_j", joules("energy", { hi: top([data.accuracy.spent_j]) }), tellSpent);
  }
  if (data.staleness) SPECS.staleness = stale;
  if (data.delivered) SPECS.delivered = delivered;
  const WAYS = { kind: "kind", cluster: "cluster", class: "majority class", rounds: "rounds taken part in", energy_j: "energy",
    straggler_rounds: "rounds it was last in" };
  let by = "cluster" in data.map.devices ? "cluster" : "kind";
  SPECS.map = (place) => cellMap(place, by, WAYS);
  const select = make("select", { "aria-label": "colour by" });
  for (const [key, text] of Object.entries(WAYS)) if (key in data.map.devices) select.append(make("option", { value: key }, text));
  select.value = by;
  select.addEventListener("change", () => { by = select.value; redraw(place("map")); });
  place("map-controls").append("colour by", select);
  if (data.budgets) SPECS.budgets = budgets;
  SPECS.spectrum = () => {
    const { t, hz } = data.band, whole = data.breakdown.bandwidth_hz;
    return lines([{ name: "in use", colour: "upload", x: t, y: hz }], time(t[t.length - 1]), hertz("", { hi: top([hz, [whole]]) }),
      { step: true, limit: { name: "whole band", at: whole }, tellX: tellTime, tellY: (y) => si(y, "Hz"), zoom: true });
  };
  SPECS.band = () => lines([{ name: "band in use", colour: "upload", x: rounds.round, y: rounds.band_used }], lineAxis, share("", { hi: 1.03 }),
    { tellX: tellRounds, tellY: (y) => percent(y) });
  if (data.batteries) SPECS.batteries = () => {
    const left = data.batteries.quantity === "left", found = data.batteries.lines, dashes = ["", "8 3", "2 3", "8 3 2 3", "12 4", "4 4", "1 2", "12 3 2 3"];
    return lines(found.map((line, at) => ({ name: line.name, colour: "energy", dash: dashes[at % dashes.length], x: [...line.t, data.band.t[data.band.t.length - 1]],
      y: [...line.y, line.y[line.y.length - 1]] })), time(totals.makespan_s),
      left ? share("left", { hi: 1.03 }) : share("taken", { hi: top(found.map((line) => line.y)) }),
      { step: true, tellX: tellTime, tellY: (y) => (left ? `${percent(y)} left` : `${percent(y, 2)} taken`) });
  };
  if (data.classes) SPECS.classes = () => {
    const { names: who, counts, cluster, classes } = data.classes;
    return { ...cells(counts, (i, j, each) => [cluster[i] === null ? who[i] : `${who[i]}, cluster ${cluster[i]}`, `class ${classes[j]}: ${counted(each, "sample")}`]),
      height: 70 + 22 * counts.length, x: { lo: 0, hi: who.length, bare: true, ...names(who, 60, "devices") },
      y: { lo: counts.length, hi: 0, bare: true, ticks: classes.map((name, j) => [j + 0.5, name]) } };
  };
  if (data.clusters) SPECS.clusters = () => {
    const { count } = data.clusters;
    return { ...cells(count, (i, j, each) => [`cluster ${j}, class ${i}`, counted(each, "device")], true), height: 70 + 26 * count.length,
      x: { lo: 0, hi: count[0].length, bare: true, title: "majority class", ticks: count[0].map((_, i) => [i + 0.5, String(i)]) },
      y: { lo: count.length, hi: 0, bare: true, title: "cluster", ticks: count.map((_, j) => [j + 0.5, String(j)]) } };
  };
  const press = (label, text, go) => {
    const made = make("button", { type: "button", "aria-label": label }, text);
    made.addEventListener("click", () => go(place("timeline")));
    return made;
  };
  const shift = (by) => (chart) => { const { view } = chart.shown, span = view.hi - view.lo; pan(chart, view.lo + by * span, span); };
  place("timeline-controls").append(press("zoom in", "+", (chart) => zoom(chart, 0.5)), press("zoom out", "−", (chart) => zoom(chart, 2)),
    press("earlier", "◀", shift(-0.5)), press("later", "▶", shift(0.5)), press("show the whole run", "whole run", (chart) => pan(chart, 0, Infinity)),
    press("show the open round", "open round", (chart) => {
      const { rounds: table } = data.gantt, at = table.round.indexOf(state.round), span = (table.t1[at] - table.t0[at]) * 1.2;
      if (span > 0) pan(chart, table.t0[at] - span / 12, span);
    }));
  tables(data.path, devices);
}

function cellMap(chart, by, ways) {
  const { devices, radius_m: radius } = data.map, values = devices[by], grouped = ["kind", "cluster", "class"].includes(by);
  const reach = 1.08 * radius, kinds = grouped ? [...new Set(values)].sort((a, b) => (a > b ? 1 : -1)) : [];
  const look = (group) => ({ colour: `g${kinds.indexOf(group) % 6}`, kind: ["dot", "square", "diamond", "triangle"][Math.floor(kinds.indexOf(group) / 6) % 4] });
  const called = (group) => (by === "kind" ? String(group) : group === null ? `no ${ways[by]}` : `${ways[by]} ${group}`);
  const most = grouped ? 0 : Math.max(1e-30, ...values), all = range(devices.device.length);
  const side = Math.min(Math.max(chart.clientWidth, 240) - 60, 420);
  const spread = (Math.max(chart.clientWidth, 240) - 70) / side;        // a metre is as long from left to right as upwards
  const metres = (more) => axisOf((value) => si(value, "m"), "", { lo: -reach, hi: reach, ...more });
  return {
    height: side + 32, near: "xy", x: metres({ lo: -reach * spread, hi: reach * spread, bare: true }), y: metres({ bare: true }),
    legend: grouped ? [...kinds.map((group) => ({ name: called(group), ...look(group) })), { name: "base station", colour: "limit", kind: "triangle" }]
      : [{ name: `${ways[by]}, from few to many`, colour: "amount", kind: "dot" }, { name: "base station", colour: "limit", kind: "triangle" }],
    layers: (x, y) => {
      const at = (i) => [x(devices.x_m[i]), y(devices.y_m[i])], edge = { stroke: paint("card"), "stroke-width": 1 };
      const dots = grouped ? kinds.map((group) => { const { colour, kind } = look(group);
        return dotsPath(all.filter((i) => values[i] === group).map(at), kind, 5, { fill: paint(colour), ...edge }); })
        : all.map((i) => dotsPath([at(i)], "dot", 5, { fill: paint("amount"), "fill-opacity": 0.12 + 0.88 * values[i] / most, stroke: paint("amount") }));
      const round = shape("ellipse", { cx: x(0), cy: y(0), rx: x(radius) - x(0), ry: y(0) - y(radius), fill: "none", class: "edge" });
      return [round, ...dots, dotsPath([[x(0), y(0)]], "triangle", 6, { fill: paint("limit") })];
    },
    marks: (x, y) => all.map((i) => ({ x: x(devices.x_m[i]), y: y(devices.y_m[i]), lines: () => [devices.name[i],
      `${si(Math.hypot(devices.x_m[i], devices.y_m[i]), "m")} away, gain ${devices.gain_db[i] === null ? "unknown" : `${devices.gain_db[i].toFixed(1)} dB`}`,
      `${counted(devices.rounds[i], "round")}, ${si(devices.energy_j[i], "J")}`, ...(by === "kind" || !grouped ? [] : [called(values[i])])] })),
  };
}

function stale() {
  const { from, wide, count, mean } = data.staleness, at = from.map((each) => each + (wide - 1) / 2), most = from[from.length - 1] + wide;
  const found = stacked(at, 0.9 * wide, ["amount"], () => count, (i) => [
    wide > 1 ? `staleness ${from[i]} to ${from[i] + wide - 1}` : `staleness ${from[i]}`, counted(count[i], "update")]);
  return { ...found, height: 280, x: plain("staleness", { lo: -0.5, hi: most - 0.5, whole: true, bare: true }), y: plain("", { hi: top([count]) }),
    legend: [{ name: `mean ${mean.toFixed(2)}`, colour: "limit", kind: "line", dash: "5 4" }],
    layers: (x, y, view, area) => [...found.layers(x, y, view), shape("path", { d: `M${x(mean).toFixed(1)} ${area.top}V${area.bottom}`,
      stroke: paint("limit"), "stroke-width": 1.5, "stroke-dasharray": "5 4" })] };
}

function delivered() {
  const { name, arrived, planned_s: planned, tenth, fast, slow } = data.delivered, at = name.map((_, i) => i + 0.5);
  const found = stacked(at, 0.8, ["amount"], () => arrived, (i) => [name[i], counted(arrived[i], "update"), `a job takes ${si(planned[i], "s")}`]);
  const who = tenth > 1 ? [`${tenth} fastest`, `${tenth} slowest`] : ["fastest", "slowest"];
  place("delivered-said").replaceChildren(make("p", {}, `The ${who[0]} delivered ${fast.toFixed(1)} updates${tenth > 1 ? " each" : ""}, the ${who[1]} ${slow.toFixed(1)}${
    slow > 0 ? `: ${(fast / slow).toFixed(1)} times as often` : ""}.`));
  return { ...found, legend: [], height: 280, x: { lo: 0, hi: name.length, bare: true, ...names(name, 40, "devices, fastest first") }, y: plain("", { hi: top([arrived]), whole: true }) };
}

function budgets() {
  const { name, budget_j: budget, most_j: most } = data.budgets, at = name.map((_, i) => i + 0.5);
  const found = stacked(at, 0.8, ["compute", "upload"], (part) => data.budgets[`${part}_j`], (i) => [name[i],
    `compute ${si(data.budgets.compute_j[i], "J")}, upload ${si(data.budgets.upload_j[i], "J")}`, `its largest round ${si(most[i], "J")}`, budget[i] === null ? "no budget" : `its budget ${si(budget[i], "J")}`]);
  return { ...found, height: narrow() ? 280 : 380, x: { lo: 0, hi: name.length, bare: true, ...names(name, 40, "devices") }, y: joules("", { hi: top([most, budget.filter((each) => each !== null)]) }),
    legend: [...found.legend, { name: "largest round", colour: "energy", kind: "dot" }, { name: "budget", colour: "limit", kind: "dash" }],
    layers: (x, y, view) => { const size = Math.max(1.5, Math.min(7, (x(1) - x(0)) * 0.45));
      return [...found.layers(x, y, view), dotsPath(at.map((each, i) => [x(each), y(most[i])]), "dot", Math.min(3.5, size), { fill: paint("energy") }),
        dotsPath(at.map((each, i) => [x(each), y(budget[i])]).filter((_, i) => budget[i] !== null), "dash", size, { stroke: paint("limit"), "stroke-width": 2.5 })]; } };
}

// ---- several runs ----

if (data.runs) {
  const { runs } = data, DASHES = ["", "7 4", "2 3"];
  const look = (at) => ({ name: runs[at].label, colour: `g${at % 6}`, dash: DASHES[Math.floor(at / 6) % 3] });
  const end = Math.max(...runs.map((run) => run.totals.makespan_s)), rounds = Math.max(...runs.map((run) => run.totals.rounds));
  const over = (x, y, xAxis, yAxis, tellX, tellY, from = (run) => run.rounds, step = false) => lines(
    range(runs.length).filter((at) => x in from(runs[at])).map((at) => ({ ...look(at), x: [...(step ? [0] : []), ...from(runs[at])[x]], y: [...(step ? [0] : []), ...from(runs[at])[y]] })),
    xAxis, yAxis(runs.map((run) => from(run)[y] || [])), { tellX, tellY, step });
  const roundAxis = plain("round", { lo: Math.min(1, rounds - 1), hi: rounds, whole: true }), whole = (axis) => (lists) => axis("", { hi: top(lists) });
  const tellJ = (y) => si(y, "J", 4), tellS = (y) => si(y, "s", 4), learned = (run) => run.accuracy;
  const received = runs.some((run) => "download_s" in run.totals) ? ["download"] : [];
  const beside = (parts, per, axis, unit) => () => {
    const of = (part, run) => (run.totals[`${part}_${unit.toLowerCase()}`] || 0) / per(run);
    const found = stacked(runs.map((_, at) => at + 0.5), 0.6, parts, (part) => runs.map((run) => of(part, run)),
      (i) => [runs[i].label, ...parts.map((part) => `${part} ${si(of(part, runs[i]), unit)}`)]);
    return { ...found, height: 280, x: { lo: 0, hi: runs.length, bare: true, ticks: runs.map((run, at) => [at + 0.5, cut(run.label, narrow() ? 12 : 22)]) },
      y: axis("", { hi: top([found.sums]) }) };
  };
  Object.assign(SPECS, {
    "compare-latency": beside([...received, ...PARTS], (run) => run.totals.rounds, seconds, "s"),
    "compare-energy": beside([...received, "compute", "upload"], () => 1, joules, "J"),
    "compare-accuracy-rounds": () => over("round", "accuracy", roundAxis, () => share("", { hi: 1 }), tellRounds, (y) => percent(y, 2), learned),
    "compare-accuracy-seconds": () => over("t1", "accuracy", time(end), () => share("", { hi: 1 }), tellTime, (y) => percent(y, 2), learned),
    "compare-accuracy-joules": () => over("spent_j", "accuracy", joules("energy", { hi: top(runs.map((run) => run.accuracy.spent_j || [])) }), () => share("", { hi: 1 }), tellSpent, (y) => percent(y, 2), learned),
    "compare-updates": () => over("t1", "updates", time(end), (lists) => plain("", { hi: top(lists) }), tellTime, (y) => counted(y, "update"), undefined, true),
    "compare-done": () => over("t1", "round", time(end), (lists) => plain("", { hi: top(lists) }), tellTime, (y) => `${counted(y, "round")} done`, undefined, true),
    "compare-times": () => over("round", "round_s", roundAxis, whole(seconds), tellRounds, tellS),
    "compare-spent": () => over("t1", "spent_j", time(end), whole(joules), tellTime, tellJ, undefined, true),
    "compare-band": () => over("round", "band_used", roundAxis, () => share("", { hi: 1.03 }), tellRounds, (y) => percent(y)),
  });
  const charts = data.gantts.map((_, at) => place(`compare-gantt-${at}`));
  const state = roundState(data.gantts, { places: charts, said: data.gantts.map((_, at) => place(`compare-gantt-${at}-said`)), box: place("compare-gantts-controls") });
  data.gantts.forEach((source, at) => { const run = roundsOf(source); SPECS[`compare-gantt-${at}`] = () => gantt(run, state.round, state.earliest(), state.longest()); });
  const heads = runs.flatMap((run, at) => (at ? [run.label, runs.length > 2 ? `against ${cut(runs[0].label, 24)}` : "difference"] : [run.label]));
  table("comparison", ["", ...heads], data.numbers);
  if (data.changed.length) table("changed", ["key", ...runs.map((run) => run.label)], data.changed);
}

// ---- tables ----

function table(id, heads, rows, texts = 1) {
  const head = make("tr", {}, ...heads.map((heading, at) => make("th", { scope: "col", ...(at < texts ? { class: "text" } : {}) }, heading)));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell, at) => (at < texts ? make("th", { scope: "row" }, cell) : make("td", {}, cell)))));
  const into = place(id);
  into.replaceChildren();
  fill(into, { tabindex: 0, role: "region", "aria-label": into.closest("section").querySelector("h2").textContent },
    [make("table", {}, make("thead", {}, head), make("tbody", {}, ...body))]);
}
function tables(path, devices) {
  const { causes, slack } = path, rows = (columns, ...cells) => range(columns.device.length).map((i) => cells.map((cell) => cell(i)));
  table("causes", ["on the path", "rounds", "time", "of the run", "saves, same plan"], rows(causes,
    (i) => `${causes.device_name[i]}: ${causes.part[i]}`, (i) => `${causes.rounds[i]} (${percent(causes.share_of_rounds[i], 0)})`,
    (i) => si(causes.seconds[i], "s"), (i) => percent(causes.share_of_time[i]), (i) => si(causes.gain_s[i], "s")));
  table("slack", ["least slack", "rounds", "on the path", "least", "mean"], rows(slack, (i) => slack.name[i], (i) => slack.rounds[i],
    (i) => slack.critical_rounds[i], (i) => si(slack.least_s[i], "s"), (i) => si(slack.mean_s[i], "s")));
  table("devices", ["device", "rounds", "was last", "dropped", ...data.breakdown.parts, "compute energy", "upload energy", "budget", "largest round", "battery left"], rows(devices,
    (i) => devices.name[i], (i) => devices.rounds[i], (i) => devices.straggler_rounds[i], (i) => devices.dropped[i],
    ...data.breakdown.parts.map((part) => (i) => si(devices[`${part}_s`][i], "s")), (i) => si(devices.compute_j[i], "J"), (i) => si(devices.upload_j[i], "J"),
    (i) => si(devices.budget_j[i], "J"), (i) => si(devices.most_j[i], "J"),
    (i) => (devices.battery_j[i] ? percent(devices.left_j[i] / devices.battery_j[i], 2) : "mains")));
}

if (data.sweep) sweepPage(data.sweep);

// ---- drawing ----

const places = [...document.querySelectorAll(".chart")];
places.forEach(open);
let drawnAt = window.innerWidth;
window.addEventListener("resize", () => { if (window.innerWidth !== drawnAt) { drawnAt = window.innerWidth; places.forEach(redraw); } });
