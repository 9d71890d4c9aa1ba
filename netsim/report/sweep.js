// The page about a sweep: means over seeds, differences seed by seed, and what a target took, for a case and a target that
// the reader chooses. The intervals are Student's t; its quantiles, by the number of seeds, come with the data.

function sweepPage({ cases, keys, measures, quantiles, against }) {
  const DASHES = ["", "7 4", "2 3"], KINDS = { time: "s", energy: "J" };
  const look = (at) => ({ name: cases[at].label, colour: `g${at % 6}`, dash: DASHES[Math.floor(at / 6) % 3] });
  const sum = (list) => list.reduce((a, b) => a + b, 0);
  function estimate(values) {
    const count = values.length, mean = count ? sum(values) / count : null;
    const spread = count > 1 ? Math.sqrt(sum(values.map((each) => (each - mean) ** 2)) / (count - 1)) : null;
    const sorted = [...values].sort((a, b) => a - b), median = count ? (sorted[(count - 1) >> 1] + sorted[count >> 1]) / 2 : null;
    return { count, mean, median, half: spread === null ? null : quantiles[count] * spread / Math.sqrt(count) };
  }
  const say = (value, kind) => (kind === "share" ? percent(value, 2) : kind === "count"
    ? Number(value.toFixed(1)).toLocaleString("en") : si(value, KINDS[kind], 4));
  const sign = (value) => (value > 0 ? "+" : value < 0 ? "−" : "");
  const told = ({ mean, half, median }, kind) => (mean === null ? "" : say(mean, kind) + (half === null ? "" : ` ± ${say(half, kind)} (${say(median, kind)})`));
  const failures = ({ failed, seeds }) => (failed.length ? `${failed.length} of ${failed.length + seeds.length}` : "");
  const anyFailed = cases.some((each) => each.failed.length);
  const named = (each) => (keys.length ? each.settings : [each.label]);
  const heads = keys.length ? keys : ["scenario"], texts = heads.length;
  const ending = anyFailed ? ["failed"] : [];

  table("cases", [...heads, "seeds", ...ending, ...measures.map(([, word]) => word)], cases.map((each) => [...named(each), each.seeds.length,
    ...(anyFailed ? [failures(each)] : []), ...measures.map(([name, , kind]) => told(estimate(Object.values(each.values[name])), kind))]), texts);

  // ---- against a case ----
  function difference(each, name, kind) {
    const mine = each.values[name], theirs = cases[against].values[name], seeds = Object.keys(mine).filter((seed) => seed in theirs);
    const found = estimate(seeds.map((seed) => mine[seed] - theirs[seed])), base = estimate(seeds.map((seed) => theirs[seed])).mean;
    if (found.mean === null) return "";
    const size = `${sign(found.mean)}${say(Math.abs(found.mean), kind).replace(" %", kind === "share" ? " points" : " %")}`;
    const part = base && kind !== "share" && kind !== "count" ? ` (${sign(found.mean)}${Math.abs(100 * found.mean / base).toFixed(1)} %)` : "";
    const told = `${size}${found.half === null ? "" : ` ± ${say(found.half, kind).replace(" %", kind === "share" ? " points" : " %")}`}${part}`;
    return found.half !== null && Math.abs(found.mean) > found.half ? make("b", {}, told) : told;
  }
  function compare() {
    const base = cases[against];
    table("differences", [...heads, "common seeds", ...measures.map(([, word]) => word)], cases.map((each, at) => [...named(each),
      each.seeds.filter((seed) => base.seeds.includes(seed)).length,
      ...measures.map(([name, , kind]) => (at === against ? "" : difference(each, name, kind)))]), texts);
  }
  const chosen = make("select", { "aria-label": "compare with" }, ...cases.map((each, at) => make("option", { value: at }, each.label)));
  chosen.value = against;
  chosen.addEventListener("change", () => { against = Number(chosen.value); compare(); });
  place("differences-controls").append("compare with", chosen);
  compare();

  // ---- curves ----
  const shown = range(cases.length).filter((at) => cases[at].curves);
  // a mean of curves that step, steps: it keeps its value until the next place
  const corners = (curve, values, step) => curve.x.flatMap((at, i) => (step && i ? [[at, values[i - 1]], [at, values[i]]] : [[at, values[i]]]));
  const band = (curve, colour, x, y, step) => shape("path", { fill: paint(colour), "fill-opacity": 0.16, d: curve.low[0] === null ? "" :
    `M${[...corners(curve, curve.high, step), ...corners(curve, curve.low, step).reverse()]
      .map(([at, value]) => `${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("L")}Z` });
  function curves(key, xAxis, yAxis, tellX, tellY, step = false) {
    const drawn = shown.filter((at) => key in cases[at].curves), of = (at) => cases[at].curves[key];
    const found = lines(drawn.map((at) => ({ ...look(at), x: of(at).x, y: of(at).mean })), xAxis(Math.max(...drawn.map((at) => of(at).x[of(at).x.length - 1]))),
      yAxis(drawn.map((at) => of(at).high.map((value, i) => (value === null ? of(at).mean[i] : value)))), { tellX, tellY });
    return { ...found, layers: (x, y, view) => [...drawn.map((at) => band(of(at), look(at).colour, x, y, step)), ...found.layers(x, y, view)] };
  }
  const rounds = (hi) => plain("round", { lo: Math.min(1, hi - 1), hi, whole: true }), energy = (hi) => joules("energy of all devices", { hi });
  const accuracy = () => share("", { hi: 1 }), tellA = (y) => `mean ${percent(y, 2)}`;
  Object.assign(SPECS, {
    "sweep-rounds": () => curves("rounds", rounds, accuracy, tellRounds, tellA),
    "sweep-time": () => curves("time", time, accuracy, tellTime, tellA, true),
    "sweep-energy": () => curves("energy", energy, accuracy, (x) => si(x, "J", 4), tellA, true),
    "sweep-times": () => curves("times", rounds, (lists) => seconds("", { hi: top(lists) }), tellRounds, (y) => `mean ${si(y, "s", 4)}`),
    "sweep-parts": () => beside(PARTS, (part) => `${part}_s`, "round_s", seconds, "s"),
    "sweep-joules": () => beside(["energy"], () => "energy_j", "energy_j", joules, "J"),
  });
  function beside(parts, measure, whole, axis, unit) {
    const there = range(cases.length).filter((at) => cases[at].seeds.length), mean = (at, name) => estimate(Object.values(cases[at].values[name])).mean || 0;
    const ends = there.map((at) => estimate(Object.values(cases[at].values[whole])));
    const found = stacked(there.map((_, i) => i + 0.5), 0.6, parts, (part) => there.map((at) => mean(at, measure(part))),
      (i) => [cases[there[i]].label, `${si(ends[i].mean, unit, 4)}${ends[i].half === null ? "" : ` ± ${si(ends[i].half, unit, 3)}`}`,
        ...(parts.length > 1 ? parts.map((part) => `${part} ${si(mean(there[i], measure(part)), unit)}`) : [])]);
    return { ...found, height: 300, x: { lo: 0, hi: there.length, bare: true, ...names(there.map((at) => cases[at].label), 40, "cases") },
      y: axis("", { hi: top([ends.map((one) => one.mean + (one.half || 0))]) }),
      layers: (x, y, view) => [...found.layers(x, y, view), shape("path", { fill: "none", stroke: paint("limit"), "stroke-width": 1.5,
        d: ends.map(({ mean: at, half }, i) => (half ? `M${x(i + 0.5)} ${y(Math.max(at - half, 0))}V${y(at + half)}m-4 0h8M${x(i + 0.5) - 4} ${y(Math.max(at - half, 0))}h8` : "")).join("") })] };
  }

  // ---- to a target ----
  const learned = cases.flatMap((each) => each.records);
  if (!learned.length) return;
  const best = learned.map((seed) => seed.accuracy[seed.accuracy.length - 1]), all = Math.max(...best);
  let target = Math.floor(1000 * Math.min(...best)) / 1000;       // what every run has reached
  const slider = make("input", { type: "range", min: 0, max: Math.ceil(1000 * all) / 10, step: 0.1, "aria-label": "target accuracy in percent" });
  const number = make("input", { type: "number", min: 0, max: 100, step: 0.1, "aria-label": "target accuracy in percent, as a number" });
  function aim() {
    table("target", [...heads, "reached by", "rounds", "time", "energy"], cases.map((each) => {
      const found = each.records.map((seed) => seed.accuracy.findIndex((value) => value >= target)).map((at, i) => [each.records[i], at]).filter(([, at]) => at >= 0);
      const over = (key, kind) => told(estimate(found.map(([seed, at]) => seed[key][at])), kind);
      return [...named(each), `${found.length} of ${counted(each.records.length, "seed")}`, over("round", "count"), over("seconds", "time"), over("joules", "energy")];
    }), texts);
  }
  for (const input of [slider, number]) input.addEventListener("input", () => {
    if (input.value === "" || !(Number(input.value) >= 0)) return;
    target = Number(input.value) / 100;
    (input === slider ? number : slider).value = input.value;
    aim();
  });
  slider.value = number.value = (100 * target).toFixed(1);
  place("target-controls").append("accuracy", slider, number, "%");
  aim();
}
