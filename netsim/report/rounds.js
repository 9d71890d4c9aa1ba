// Rounds: one of them as a Gantt chart, the whole run as a timeline, and which round is open.

const PARTS = ["compute", "upload", "wait"];
// in runs with a downlink, computing that is slowed down, and a device that is away in mid-job, which counts as waiting
const SLICES = ["download", "compute", "throttled", "upload", "wait", "off"];
const keysOf = (source) => SLICES.filter((name) => PARTS.includes(name) || source.parts.includes(name)).map((name) => ({ name, colour: name }));

// What a page holds of a run's rounds, with what one needs to find things in it.
function roundsOf(source) {
  const fact = new Map(source.facts.job.map((job, at) => [job, at]));
  const named = (device) => source.names[device];
  const at = new Map(source.rounds.round.map((round, index) => [round, index]));
  const of = (round) => source.bars[round] || { device: [], job: [], part: [], t0: [], t1: [], energy_j: [] };
  const part = (bars, i) => source.parts[bars.part[i]];
  function told(bars, i) {           // what a slice tells when it is pointed at
    const known = fact.get(bars.job[i]), { facts } = source, name = part(bars, i);
    const lines = [named(bars.device[i])];
    if (!SLICES.includes(name)) lines.push(`dropped out after ${si(bars.t0[i], "s")}: ${name}`);
    else lines.push(`${name} ${si(bars.t1[i] - bars.t0[i], "s")}, from ${si(bars.t0[i], "s")} to ${si(bars.t1[i], "s")}`);
    if (known === undefined) return lines.concat(bars.energy_j[i] ? [`energy ${si(bars.energy_j[i], "J")}`] : []);
    const tell = (what, key, unit) => (facts[key][known] === null ? [] : [`${what} ${si(facts[key][known], unit, 4)}`]);
    return lines.concat(tell("band", "bandwidth_hz", "Hz"), tell("clock", "cpu_hz", "Hz"), tell("rate", "rate_bit_per_s", "bit/s"),
      facts.gain_db[known] === null ? [] : [`gain ${facts.gain_db[known].toFixed(1)} dB`], tell("power", "power_w", "W"),
      [`energy ${si(bars.energy_j[i], "J")}${facts.budget_j[known] === null ? "" : `, the whole job may take ${si(facts.budget_j[known], "J")}`}`],
      facts.outcome[known] === "arrived" ? [] : [`did not arrive: ${facts.outcome[known]}`]);
  }
  // [device, from, to] of what is outlined: the work of those who set the pace, or the critical path
  function outlined(round) {
    const pace = source.pace[round], path = source.path[round], bars = of(round);
    if (!pace) return path ? path.device.map((device, i) => [device, path.t0[i], path.t1[i]]) : [];
    return pace.devices.map((device) => {
      const work = range(bars.device.length).filter((i) => bars.device[i] === device && ["download", "compute", "throttled", "upload"].includes(part(bars, i)));
      return [device, Math.min(...work.map((i) => bars.t0[i])), Math.max(...work.map((i) => bars.t1[i]))];
    });
  }
  return { source, at, of, part, named, told, outlined };
}

// `earliest` is below 0 where a job of the round began before it, as under servers that do not wait
function gantt(run, round, earliest, longest) {
  const { source } = run, bars = run.of(round), devices = source.order[round] || [];
  const row = new Map(devices.map((device, index) => [device, index]));
  const all = range(bars.device.length), outlined = run.outlined(round).filter(([device]) => row.has(device));
  const drops = all.filter((i) => !SLICES.includes(run.part(bars, i)));
  const set = new Set(outlined.map(([device]) => device)), pitch = devices.length > 30 ? 18 : 24;
  const boxOf = (i, x, y) => [x(bars.t0[i]), y(row.get(bars.device[i]) + 0.11), x(bars.t1[i]), y(row.get(bars.device[i]) + 0.89)];
  return {
    height: 52 + pitch * Math.max(devices.length, 3), near: "box",
    x: seconds("time in the round", { lo: earliest, hi: longest || 1 }),
    y: { lo: Math.max(devices.length, 3), hi: 0, bare: true, ticks: devices.map((device, at) => [at + 0.5, run.named(device)]),
      bold: (at) => set.has(devices[at - 0.5]) },
    legend: [...keysOf(source), ...(outlined.length ? [{ name: source.pace[round] ? "limits the round" : "critical path", colour: "pace", kind: "outline" }] : []),
      ...(drops.length ? [{ name: "dropped out", colour: "lost", kind: "cross" }] : []),
      ...(earliest < 0 ? [{ name: "the round begins", colour: "limit", kind: "line", dash: "5 4" }] : [])],
    layers: (x, y, view) => [
      ...SLICES.map((name) => barsPath(all.filter((i) => run.part(bars, i) === name).map((i) =>
        [bars.t0[i], bars.t1[i], row.get(bars.device[i]) + 0.11, row.get(bars.device[i]) + 0.89]), name, x, y, view, { "data-part": name })),
      ...outlined.map(([device, t0, t1]) => shape("path", { class: "outlined", "data-device": device, fill: "none", stroke: paint("pace"),
        "stroke-width": 3, d: box(x(t0) + 1, y(row.get(device) + 0.06), x(t1) - 1, y(row.get(device) + 0.94)) })),
      ...(earliest < 0 ? [linePath([0, 0], [0, Math.max(devices.length, 3)], "limit", x, y, { dash: "5 4", width: 1.5 })] : []),
      dotsPath(drops.map((i) => [x(bars.t0[i]), y(row.get(bars.device[i]) + 0.5)]), "cross", 5,
        { stroke: paint("lost"), "stroke-width": 3, fill: "none" }),
    ],
    marks: (x, y) => all.slice().sort((i, j) => row.get(bars.device[i]) - row.get(bars.device[j]) || bars.t0[i] - bars.t0[j]).map((i) => {
      const [x0, y0, x1, y1] = boxOf(i, x, y), drop = drops.includes(i), wide = drop ? 7 : 0;
      return { x: (x0 + x1) / 2, y: (y0 + y1) / 2, box: [x0 - wide, y0, x1 + wide, y1], lines: () => run.told(bars, i) };
    }),
  };
}

// All slices of a run that have a lane, lane by lane, in simulated time.
function slicesOf(run) {
  const { rounds, lanes } = run.source, row = new Map(lanes.map((device, index) => [device, index + 1]));
  const slices = rounds.round.flatMap((round, at) => {
    const bars = run.of(round), began = rounds.t0[at];
    return range(bars.device.length).filter((i) => row.has(bars.device[i])).map((i) => ({ round, bars, i, part: run.part(bars, i),
      t0: began + bars.t0[i], t1: began + bars.t1[i], row: row.get(bars.device[i]) }));
  });
  return { row, slices: slices.sort((one, other) => one.row - other.row || one.t0 - other.t0) };
}

function timeline(run, { row, slices }, state) {
  const { source } = run, { rounds, lanes } = source, last = rounds.round.length - 1;
  const dropped = slices.some(({ part }) => !SLICES.includes(part));
  const pitch = lanes.length > 40 ? 9 : lanes.length > 16 ? 14 : 20, every = Math.ceil(12 / pitch);
  const start = rounds.t0[0], named = lanes.map((device, at) => [at + 1.5, run.named(device)]).filter((_, at) => at % every === 0);
  return {
    height: 60 + pitch * (lanes.length + 1), near: "box", zoom: true,
    x: seconds("simulated time", { lo: start, hi: Math.max(rounds.t1[last], start + 1e-9) }),
    y: { lo: lanes.length + 1, hi: 0, bare: true, ticks: [[0.5, "rounds"], ...named] },
    legend: [...keysOf(source), ...(Object.keys(source.pace).length ? [{ name: "limits the round", colour: "pace", kind: "outline" }] : []),
      ...(dropped ? [{ name: "dropped out", colour: "lost", kind: "cross" }] : []),
      { name: "round", colour: "round" }, { name: "the open one", colour: "open" }],
    layers: (x, y, view) => {
      const apart = (view.hi - view.lo) * 0.0008;
      const strip = (which) => which.map((at) => [rounds.t0[at], Math.max(rounds.t1[at] - apart, rounds.t0[at]), 0.1, 0.9]);
      const here = rounds.round.map((round, at) => at).filter((at) => rounds.t1[at] >= view.lo && rounds.t0[at] <= view.hi);
      const seen = slices.filter((slice) => slice.t1 >= view.lo && slice.t0 <= view.hi);
      const framed = here.filter((at) => x(rounds.t1[at]) - x(rounds.t0[at]) > 12 && source.pace[rounds.round[at]]).flatMap((at) => run.outlined(rounds.round[at])
        .filter(([device]) => row.has(device)).map(([device, t0, t1]) => [rounds.t0[at] + t0, rounds.t0[at] + t1, row.get(device)]));
      const lost = dropped ? seen.filter(({ part }) => !SLICES.includes(part)) : [];
      return [
        barsPath(strip(here.filter((at) => rounds.round[at] !== state.round)), "round", x, y, view),
        barsPath(strip(here.filter((at) => rounds.round[at] === state.round)), "open", x, y, view),
        ...here.filter((at) => x(rounds.t1[at]) - x(rounds.t0[at]) > 8 + 8 * String(rounds.round[at]).length).map((at) => shape("text", { class: "inside", "text-anchor": "middle",
          x: (x(Math.max(rounds.t0[at], view.lo)) + x(Math.min(rounds.t1[at], view.hi))) / 2, y: y(0.5) + 4 }, String(rounds.round[at]))),
        ...SLICES.map((name) => barsPath(seen.filter(({ part }) => part === name)
          .map((slice) => [slice.t0, slice.t1, slice.row + 0.1, slice.row + 0.9]), name, x, y, view, { "data-part": name })),
        shape("path", { d: framed.map(([t0, t1, at]) => box(x(t0), y(at + 0.08), x(t1), y(at + 0.92))).join(""), fill: "none",
          stroke: paint("pace"), "stroke-width": 2 }),
        dotsPath(lost.map((slice) => [x(slice.t0), y(slice.row + 0.5)]), "cross", 4, { stroke: paint("lost"), "stroke-width": 2.5, fill: "none" }),
      ];
    },
    marks: (x, y) => [
      ...rounds.round.map((round, at) => ({ x: (x(rounds.t0[at]) + x(rounds.t1[at])) / 2, y: y(0.5),
        box: [x(rounds.t0[at]), y(0), x(rounds.t1[at]), y(1)], act: () => state.open(round),
        lines: () => [`round ${round}`, `${si(rounds.round_s[at], "s")}, from ${si(rounds.t0[at], "s", 5)} to ${si(rounds.t1[at], "s", 5)}`,
          `energy ${si(rounds.energy_j[at], "J")}`, "Enter or a click opens it"] })),
      ...slices.map(({ round, bars, i, t0, t1, row: at }) => ({ x: (x(t0) + x(t1)) / 2, y: y(at + 0.5),
        box: [x(t0) - (t0 === t1 ? 5 : 0), y(at), x(t1) + (t0 === t1 ? 5 : 0), y(at + 1)], act: () => state.open(round),
        lines: () => { const [name, ...more] = run.told(bars, i); return [`${name}, round ${round}`, ...more]; } })),
    ],
  };
}

// Which round is open: the slowest at first, or the one in the address (#round=7). `places` are redrawn with it.
function roundState(sources, { places, said, box: controls, after }) {
  const all = sources[0].rounds.round, longest = (at) => Math.max(...sources.map((source) => source.rounds.round_s[at]));
  const slowest = sources.length === 1 ? sources[0].slowest
    : all[range(all.length).reduce((best, at) => (longest(at) > longest(best) ? at : best), 0)];
  const nearest = (round) => all.reduce((best, each) => (Math.abs(each - round) < Math.abs(best - round) ? each : best), all[0]);
  const asked = () => { const found = /(?:^#|&)round=(\d+)/.exec(location.hash); return found ? Number(found[1]) : null; };
  const slider = make("input", { type: "range", min: 0, max: all.length - 1, "aria-label": "round" });
  const field = make("input", { type: "number", min: all[0], max: all[all.length - 1], "aria-label": "round number" });
  const link = make("a", {}, "link to this round"), note = make("span", { role: "status" });
  said.forEach((element) => element.setAttribute("aria-live", "polite"));
  const earliest = (round) => Math.min(0, ...sources.flatMap((source) => (source.bars[round] || { t0: [] }).t0));
  const state = { round: null, slowest, longest: () => longest(all.indexOf(state.round)), earliest: () => earliest(state.round) };
  function set(round) {
    const to = nearest(round), at = all.indexOf(to);
    state.round = to;
    slider.value = at;
    slider.setAttribute("aria-valuetext", `round ${to}`);
    field.value = to;
    link.setAttribute("href", `#round=${to}`);
    note.textContent = `${to === slowest ? "the slowest" : ""}${round === to ? "" : `; round ${round} is not in this page, this is the nearest`}`.replace(/^; /, "");
    said.forEach((element, i) => tellRound(element, sources[i], to, at));
    places.forEach((place) => { place.at = undefined; if (place.spec) redraw(place); });
    (after || []).forEach((place) => { if (place.spec) redraw(place); });
  }
  state.open = (round, show = true) => {
    set(round);
    history.replaceState(null, "", `#round=${state.round}`);
    if (show) places[0].closest("section").scrollIntoView({ block: "nearest" });
  };
  const button = (label, text, go) => {
    const made = make("button", { type: "button", "aria-label": label }, text);
    made.addEventListener("click", go);
    return made;
  };
  const step = (by) => () => state.open(all[Math.min(Math.max(all.indexOf(state.round) + by, 0), all.length - 1)], false);
  slider.addEventListener("input", () => state.open(all[Number(slider.value)], false));
  field.addEventListener("change", () => state.open(Number(field.value) || slowest, false));
  controls.append("round", button("round before", "◀", step(-1)), field, button("next round", "▶", step(1)), slider,
    button("open the slowest round", "slowest", () => state.open(slowest, false)), link, note);
  window.addEventListener("hashchange", () => { const round = asked(); if (round !== null) set(round); });
  set(asked() === null ? slowest : asked());
  return state;
}

function tellRound(element, source, round, at) {
  const { rounds, pace } = source, found = pace[round], dropped = rounds.dropped[at];
  const lines = [make("p", {}, `Round ${round} took ${si(rounds.round_s[at], "s", 4)} and ${si(rounds.energy_j[at], "J", 4)}; ${rounds.arrived[at]} arrived${
    dropped ? `, ${dropped} dropped out` : ""}.`)];
  if (!found && Object.keys(pace).length) lines.push(make("p", {}, `The device that limits this round was not computed: use netsim explain RUN --round ${round}.`));
  if (found) lines.push(make("p", { class: "sentence" }, found.sentence));
  if (found && found.changes.length > 1) {
    const list = make("ul");
    found.changes.slice(1).forEach(([change, saves]) => list.append(make("li", {}, `${change}: saves ${si(saves, "s")}`)));
    lines.push(make("details", {}, make("summary", {}, "What else would help"), list));
  }
  element.replaceChildren(...lines);
}
