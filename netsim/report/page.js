// Draws the page from the data in it. Every number was computed by netsim; here they only get a shape.
"use strict";
(() => {
  const data = {};
  for (const part of document.querySelectorAll("script[type='application/json']"))
    data[part.id.replace("data-", "")] = JSON.parse(part.textContent);
  const compute = "compute", upload = "upload", wait = "wait", PARTS = [compute, upload, wait];
  const narrow = () => window.innerWidth < 600;

  // What is text in the data must stay text: Plotly reads some tags.
  const safe = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const series = (index) => colour(`s${((index % 10) + 10) % 10}`);
  const range = (count) => Array.from({ length: count }, (_, index) => index);

  const PREFIXES = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
  function si(value, unit) {
    if (value === null || value === undefined) return "";
    if (Math.abs(value) < 1e-12) return `0 ${unit}`;
    const steps = unit === "s" ? PREFIXES.slice(3) : PREFIXES;      // nobody reads kiloseconds
    const [size, prefix] = steps.find(([step]) => Math.abs(value) >= step * 0.9995) || steps[steps.length - 1];
    return `${Number((value / size).toPrecision(value >= 1000 * size ? 6 : 3)).toLocaleString("en")} ${prefix}${unit}`;
  }
  const percent = (share, digits = 1) => (share === null || share === undefined ? "" : `${(100 * share).toFixed(digits)} %`);

  function merge(base, more) {
    const joined = { ...base };
    for (const [key, value] of Object.entries(more))
      joined[key] = value && typeof value === "object" && !Array.isArray(value) ? merge(base[key] || {}, value) : value;
    return joined;
  }
  function layout(more) {
    const axis = { gridcolor: colour("grid"), linecolor: colour("line"), zerolinecolor: colour("line"), automargin: true,
      title: { standoff: 8 } };
    return merge({
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("text"), size: 12 },
      margin: { l: 48, r: 12, t: 8, b: 40 }, xaxis: axis, yaxis: axis, height: 340, bargap: 0.15,
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal" },
      hoverlabel: { bgcolor: colour("card"), font: { color: colour("text") }, bordercolor: colour("line") },
    }, more);
  }
  const SECONDS = { tickformat: "~s", ticksuffix: "s", hoverformat: ".4~s" };
  const clock = (end) => ({ title: { text: "simulated time" }, ...(end < 1000 ? SECONDS : { tickformat: ",", ticksuffix: " s" }) });
  const JOULES = { tickformat: "~s", ticksuffix: "J", hoverformat: ".4~s" };
  const HERTZ = { tickformat: "~s", ticksuffix: "Hz", hoverformat: ".4~s" };
  const SHARE = { tickformat: ".0%", hoverformat: ".2%" };

  // ---- one run ----

  const rounds = data.breakdown && data.breakdown.rounds;
  const chosen = { round: null, by: "kind" };

  function latency() {
    return [PARTS.map((part) => ({ type: "bar", name: part, x: rounds.round, y: rounds[`${part}_s`],
      marker: { color: colour(part) } })),
    { barmode: "stack", xaxis: { title: { text: "round" } }, yaxis: { ...SECONDS, rangemode: "tozero" },
      hovermode: "x unified" }];
  }

  function gantt() {
    const { bars, order, names } = data.gantt, table = data.gantt.rounds;
    const key = String(chosen.round), at = table.round.indexOf(chosen.round), began = table.t0[at];
    const devices = order[key] || [], rows = bars[key] || { device: [], kind: [], name: [], t0: [], t1: [], critical: [] };
    const place = new Map(devices.map((device, index) => [device, index]));
    const pick = (test) => range(rows.device.length).filter(test);
    const bar = (which, more) => ({ type: "bar", orientation: "h", width: 0.78, y: which.map((i) => place.get(rows.device[i])),
      base: which.map((i) => rows.t0[i] - began), x: which.map((i) => rows.t1[i] - rows.t0[i]),
      hovertemplate: which.map((i) => `${safe(names[rows.device[i]])}<br>${rows.name[i]} ${si(rows.t1[i] - rows.t0[i], "s")}` +
        "<extra></extra>"), ...more });
    const named = (name) => pick((i) => rows.kind[i] === "span" && rows.name[i] === name), away = named("off");
    const traces = PARTS.map((part) => bar(named(part), { name: part, marker: { color: colour(part) } }));
    if (away.length) traces.push(bar(away, { name: "off", marker: { color: colour("off") } }));
    traces.push(bar(pick((i) => rows.critical[i] && rows.kind[i] === "span"), { name: "critical path", hoverinfo: "skip",
      hovertemplate: null, marker: { color: "rgba(0,0,0,0)", line: { color: colour("outline"), width: 2.5 } } }));
    const drops = pick((i) => rows.kind[i] === "instant");
    if (drops.length) traces.push({ type: "scatter", mode: "markers", name: "dropped out",
      x: drops.map((i) => rows.t0[i] - began), y: drops.map((i) => place.get(rows.device[i])),
      hovertemplate: drops.map((i) => `${safe(names[rows.device[i]])}<br>${safe(rows.name[i])}<extra></extra>`),
      marker: { symbol: "x", size: 11, color: colour("critical") } });
    return [traces, { barmode: "overlay", height: Math.max(220, 110 + 24 * devices.length),
      xaxis: { ...SECONDS, title: { text: "time in the round" }, range: [0, table.round_s[at] * 1.02 || 1] },
      yaxis: { tickvals: range(devices.length), ticktext: devices.map((device) => safe(names[device])), autorange: "reversed",
        showgrid: false } }];
  }

  function ganttControls(box, redraw) {
    const all = data.gantt.rounds.round;
    chosen.round = all[0];
    const slider = make("input", { type: "range", min: 0, max: all.length - 1, value: 0, "aria-label": "round" });
    const field = make("input", { type: "number", min: all[0], max: all[all.length - 1], value: all[0], "aria-label": "round number" });
    const said = make("span", {}, "");
    const go = (index) => {
      const at = Math.min(Math.max(index, 0), all.length - 1);
      chosen.round = all[at];
      slider.value = at;
      field.value = chosen.round;
      const dropped = data.gantt.rounds.dropped[at];
      said.textContent = `${si(data.gantt.rounds.round_s[at], "s")}${dropped ? `, ${dropped} dropped out` : ""}`;
      redraw();
    };
    const nearest = (round) => all.reduce((best, each, at) => (Math.abs(each - round) < Math.abs(all[best] - round) ? at : best), 0);
    slider.addEventListener("input", () => go(Number(slider.value)));
    field.addEventListener("change", () => go(nearest(Number(field.value))));
    const step = (by, label, text) => {
      const button = make("button", { type: "button", "aria-label": label }, text);
      button.addEventListener("click", () => go(Number(slider.value) + by));
      return button;
    };
    box.append("round", step(-1, "round before", "◀"), field, step(1, "next round", "▶"), slider, said);
    go(0);
  }

  const WAYS = { kind: "kind", cluster: "cluster", class: "majority class", rounds: "rounds taken part in", energy_j: "energy",
    straggler_rounds: "rounds it was last in" };
  function map() {
    const devices = data.map.devices, by = chosen.by, values = devices[by];
    const about = range(devices.device.length).map((i) => `${safe(devices.name[i])}<br>` +
      `${si(Math.hypot(devices.x_m[i], devices.y_m[i]), "m")} away, gain ${devices.gain_db[i].toFixed(1)} dB<br>` +
      `${devices.rounds[i]} rounds, ${si(devices.energy_j[i], "J")}<extra></extra>`);
    const points = (which, more) => ({ type: "scatter", mode: "markers", x: which.map((i) => devices.x_m[i]),
      y: which.map((i) => devices.y_m[i]), hovertemplate: which.map((i) => about[i]), ...more });
    const traces = [];
    if (["kind", "cluster", "class"].includes(by)) {
      const groups = [...new Set(values)].sort((a, b) => (a > b ? 1 : -1));
      groups.forEach((group, at) => traces.push(points(range(values.length).filter((i) => values[i] === group), {
        name: by === "kind" ? safe(group) : group === null ? "none" : `${by} ${group}`,
        marker: { color: series(by === "kind" ? at : group), size: 9, line: { color: colour("card"), width: 1 } } })));
    } else {
      traces.push(points(range(values.length), { name: WAYS[by], showlegend: false, marker: { color: values, size: 9,
        colorscale: [[0, colour("wait")], [1, colour("compute")]], showscale: true,
        colorbar: { thickness: 12, len: 0.9, tickformat: "~s", outlinewidth: 0 }, line: { color: colour("card"), width: 1 } } }));
    }
    traces.push({ type: "scatter", mode: "markers", x: [0], y: [0], name: "base station", hoverinfo: "name",
      marker: { symbol: "triangle-up", size: 15, color: colour("text") } });
    const r = data.map.radius_m;
    return [traces, { height: 460, xaxis: { ticksuffix: " m", range: [-1.08 * r, 1.08 * r] },
      yaxis: { ticksuffix: " m", scaleanchor: "x", range: [-1.08 * r, 1.08 * r] },
      shapes: [{ type: "circle", x0: -r, x1: r, y0: -r, y1: r, line: { color: colour("soft"), dash: "dot", width: 1 } }] }];
  }
  function mapControls(box, redraw) {
    const select = make("select", { "aria-label": "colour by" });
    for (const [key, text] of Object.entries(WAYS))
      if (key in data.map.devices) select.append(make("option", { value: key }, text));
    chosen.by = "cluster" in data.map.devices ? "cluster" : "kind";
    select.value = chosen.by;
    select.addEventListener("change", () => { chosen.by = select.value; redraw(); });
    box.append("colour by", select);
    redraw();
  }

  function budgets() {
    const { name, budget_j, most_j } = data.budgets, x = range(name.length), labels = name.map(safe);
    const common = { x, customdata: labels };
    return [[
      { ...common, type: "bar", name: compute, y: data.budgets.compute_j, marker: { color: colour(compute) },
        hovertemplate: "%{customdata}<br>compute %{y}<extra></extra>" },
      { ...common, type: "bar", name: upload, y: data.budgets.upload_j, marker: { color: colour(upload) },
        hovertemplate: "%{customdata}<br>upload %{y}<extra></extra>" },
      { ...common, type: "scatter", mode: "markers", name: "largest round", y: most_j, marker: { color: colour("text"), size: 6 },
        hovertemplate: "%{customdata}<br>largest round %{y}<extra></extra>" },
      { ...common, type: "scatter", mode: "markers", name: "budget", y: budget_j, marker: { symbol: "line-ew-open",
        color: colour("critical"), size: x.length > 60 ? 7 : 12, line: { width: 2 } },
        hovertemplate: "%{customdata}<br>budget %{y}<extra></extra>" },
    ], { barmode: "stack", height: 460, yaxis: { ...JOULES, rangemode: "tozero" }, xaxis: x.length > (narrow() ? 14 : 40)
      ? { showticklabels: false, title: { text: "devices" } }
      : { tickvals: x, ticktext: labels, tickangle: -60, tickfont: { size: 10 } } }];
  }

  function spectrum() {
    const { t, hz } = data.band, whole = data.breakdown.bandwidth_hz;
    return [[
      { type: "scatter", mode: "lines", name: "in use", x: t, y: hz, line: { shape: "hv", color: colour(upload), width: 1.5 },
        fill: "tozeroy", fillcolor: `${colour(upload)}33` },
      { type: "scatter", mode: "lines", name: "whole band", x: [t[0], t[t.length - 1]], y: [whole, whole], hoverinfo: "skip",
        line: { color: colour("soft"), dash: "dash", width: 1 } },
    ], { xaxis: clock(t[t.length - 1]), yaxis: { ...HERTZ, rangemode: "tozero" } }];
  }

  function band() {
    return [[{ type: "scatter", mode: rounds.round.length > 1 ? "lines" : "markers", name: "band in use", x: rounds.round,
      y: rounds.band_used, line: { color: colour(upload), width: 1.5 } }],
    { xaxis: { title: { text: "round" } }, yaxis: { ...SHARE, range: [0, 1.03] } }];
  }

  function batteries() {
    const left = data.batteries.quantity === "left";
    return [data.batteries.lines.map((line, at) => ({ type: "scatter", mode: "lines", name: safe(line.name), x: line.t, y: line.y,
      line: { shape: "hv", color: series(at), width: 1.5 } })),
    { height: 380, xaxis: clock(data.band.t[data.band.t.length - 1]),
      yaxis: { ...(left ? SHARE : JOULES), rangemode: "tozero", title: { text: left ? "left" : "taken" } } }];
  }

  function accuracyOver(x, axis) {
    const found = data.accuracy, traces = [{ type: "scatter", mode: "lines+markers", name: "test accuracy", x: found[x],
      y: found.accuracy, line: { color: colour(compute), width: 2 }, marker: { size: found[x].length > 60 ? 3 : 6 } }];
    if (found.target) traces.push({ type: "scatter", mode: "lines", name: "target", x: [found[x][0], found[x][found[x].length - 1]],
      y: [found.target, found.target], line: { color: colour("soft"), dash: "dash", width: 1 } });
    return [traces, { xaxis: axis, yaxis: { ...SHARE, rangemode: "tozero" } }];
  }

  function classes() {
    const { names, counts, cluster } = data.classes, labels = names.map(safe), x = range(names.length);
    const shown = labels.map((label, at) => (cluster[at] === null ? label : `${label}, cluster ${cluster[at]}`));
    return [[{ type: "heatmap", x, y: data.classes.classes, z: counts, customdata: counts.map(() => shown), xgap: 1, ygap: 1,
      colorscale: [[0, colour("page")], [1, colour(compute)]], colorbar: { thickness: 12, outlinewidth: 0, title: { text: "samples" } },
      hovertemplate: "%{customdata}<br>class %{y}: %{z} samples<extra></extra>" }],
    { height: 120 + 22 * counts.length, yaxis: { type: "category", title: { text: "class" }, showgrid: false },
      xaxis: names.length > (narrow() ? 14 : 60) ? { showticklabels: false, title: { text: "devices" }, showgrid: false }
        : { tickvals: x, ticktext: labels, tickangle: -60, tickfont: { size: 10 }, showgrid: false } }];
  }

  function clusters() {
    const z = data.clusters.count;
    return [[{ type: "heatmap", z, x: z[0].map((_, i) => String(i)), y: z.map((_, i) => String(i)), xgap: 1, ygap: 1, showscale: false,
      colorscale: [[0, colour("page")], [1, colour(compute)]], text: z.map((row) => row.map((count) => count || "")),
      texttemplate: "%{text}", hovertemplate: "cluster %{y}, class %{x}: %{z} devices<extra></extra>" }],
    { height: 120 + 26 * z.length, xaxis: { type: "category", title: { text: "majority class" }, showgrid: false },
      yaxis: { type: "category", title: { text: "cluster" }, autorange: "reversed", showgrid: false } }];
  }

  // ---- several runs ----

  const runs = data.runs || [];
  const names = runs.map((run) => safe(run.label));
  const lines = (x, y, axes, from = (run) => run.rounds) => [range(runs.length).filter((at) => x in from(runs[at]))
    .map((at) => ({ type: "scatter", mode: from(runs[at])[x].length > 1 ? "lines" : "markers", name: names[at],
      x: from(runs[at])[x], y: from(runs[at])[y], line: { color: series(at), width: 2 } })), { ...axes, showlegend: true }];      // also where one run alone learns
  const stacked = (parts, suffix, per, axis) => [parts.map((part) => ({ type: "bar", name: part, x: names,
    y: runs.map((run) => run.totals[part + suffix] / per(run)), marker: { color: colour(part) } })),
  { barmode: "stack", xaxis: { type: "category" }, yaxis: { ...axis, rangemode: "tozero" } }];
  const ROUND = { title: { text: "round" } };
  const TIME = clock(Math.max(...(runs.length ? runs : [data.breakdown]).map((run) => run.totals.makespan_s)));

  const CHARTS = {
    gantt, latency, map, budgets, spectrum, band, batteries, classes, clusters,
    "accuracy-rounds": () => accuracyOver("round", ROUND),
    "accuracy-seconds": () => accuracyOver("t1", TIME),
    "compare-latency": () => stacked(PARTS, "_s", (run) => run.totals.rounds, SECONDS),
    "compare-energy": () => stacked([compute, upload], "_j", () => 1, JOULES),
    "compare-accuracy-rounds": () => lines("round", "accuracy", { xaxis: ROUND, yaxis: SHARE }, (run) => run.accuracy),
    "compare-accuracy-seconds": () => lines("t1", "accuracy", { xaxis: TIME, yaxis: SHARE }, (run) => run.accuracy),
    "compare-times": () => lines("round", "round_s", { xaxis: ROUND, yaxis: { ...SECONDS, rangemode: "tozero" } }),
    "compare-spent": () => lines("t1", "spent_j", { xaxis: TIME, yaxis: { ...JOULES, rangemode: "tozero" } }),
    "compare-band": () => lines("round", "band_used", { xaxis: ROUND, yaxis: { ...SHARE, range: [0, 1.03] } }),
  };
  const CONTROLS = { gantt: ganttControls, map: mapControls };

  // ---- tables ----

  function make(tag, attributes = {}, text) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }
  // columns: [heading, text of row i]
  function table(id, count, columns, title) {
    const box = document.getElementById(id);
    if (!box) return;
    const whole = make("table"), head = make("tr"), body = make("tbody");
    if (title) whole.append(make("caption", {}, title));
    columns.forEach(([heading]) => head.append(make("th", { scope: "col" }, heading)));
    range(count).forEach((i) => {
      const row = make("tr");
      columns.forEach(([, text]) => row.append(make("td", {}, text(i))));
      body.append(row);
    });
    const top = make("thead");
    top.append(head);
    whole.append(top, body);
    box.append(whole);
  }
  if (data.path) {
    const { causes, slack } = data.path, devices = data.breakdown.devices;
    table("causes", causes.device.length, [["on the path", (i) => `${causes.device_name[i]}: ${causes.part[i]}`],
      ["rounds", (i) => `${causes.rounds[i]} (${percent(causes.share_of_rounds[i], 0)})`], ["time", (i) => si(causes.seconds[i], "s")],
      ["of the run", (i) => percent(causes.share_of_time[i])], ["saves, same plan", (i) => si(causes.gain_s[i], "s")]]);
    table("slack", slack.device.length, [["least slack", (i) => slack.name[i]], ["rounds", (i) => slack.rounds[i]],
      ["on the path", (i) => slack.critical_rounds[i]], ["least", (i) => si(slack.least_s[i], "s")],
      ["mean", (i) => si(slack.mean_s[i], "s")]]);
    table("devices", devices.device.length, [["device", (i) => devices.name[i]], ["rounds", (i) => devices.rounds[i]],
      ["was last", (i) => devices.straggler_rounds[i]], ["dropped", (i) => devices.dropped[i]],
      ...PARTS.map((part) => [part, (i) => si(devices[`${part}_s`][i], "s")]),
      ["compute", (i) => si(devices.compute_j[i], "J")], ["upload", (i) => si(devices.upload_j[i], "J")],
      ["budget", (i) => si(devices.budget_j[i], "J")], ["largest round", (i) => si(devices.most_j[i], "J")],
      ["battery left", (i) => (devices.battery_j[i] ? percent(devices.left_j[i] / devices.battery_j[i], 2) : "mains")]]);
  }
  const rows = [["selection", (run) => run.selection], ["allocation", (run) => run.allocation], ["seed", (run) => run.seed],
    ["rounds", (run) => run.totals.rounds], ["simulated time", (run) => si(run.totals.makespan_s, "s")],
    ["a round, on average", (run) => si(run.totals.makespan_s / run.totals.rounds, "s")],
    ["energy", (run) => si(run.totals.energy_j, "J")], ["energy a round", (run) => si(run.totals.energy_j / run.totals.rounds, "J")],
    ["accuracy at the end", (run) => percent(run.last, 2)], ["best accuracy", (run) => percent(run.best, 2)],
    ...PARTS.map((part) => [part, (run) => percent(run.totals[`${part}_s`] / run.totals.makespan_s)]),
    ["band in use", (run) => percent(run.totals.band_used)], ["dropped out", (run) => run.totals.dropped]];
  table("comparison", rows.length, [["", (i) => rows[i][0]], ...runs.map((run) => [run.label, (i) => rows[i][1](run)])]);

  // ---- drawing ----

  const options = { responsive: true, displaylogo: false, displayModeBar: false };
  function redraw(place) {
    const [traces, more] = CHARTS[place.id]();
    return Plotly.react(place, traces, layout(more), options).then(() => { place.dataset.drawn = "yes"; });
  }
  const places = [...document.querySelectorAll(".chart")];
  for (const place of places) {
    const box = document.getElementById(`${place.id}-controls`);
    if (CONTROLS[place.id]) CONTROLS[place.id](box, () => redraw(place));
    else redraw(place);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => places.forEach(redraw));
})();
