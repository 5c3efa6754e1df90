/* --- the page of choices: Python computes errors and noises (BUDGET); here candidates are filtered and ranked --- */
/* Ranks as rank_odds of zoo/analysis/label_budget.py draws them, for {error, alone, law} by rising error: adds low, high, best, tie. */
Zoo.odds = list => {
  const draws = Math.max(200, Math.min(2000, Math.floor(4e5 / list.length))), drawn = [], order = [], counts = list.map(() => new Int32Array(list.length));
  let next = 0;
  const normal = () => Zoo.normals[next++ % Zoo.normals.length], outside = (1 - BUDGET.level) / 2 * draws;
  for (let draw = 0; draw < draws; draw++) {
    const common = normal();
    list.forEach((one, place) => {
      const value = drawn[place] = one.error + common * one.law + normal() * one.alone;
      let to = place;
      while (to && drawn[order[to - 1]] > value) order[to] = order[--to];
      order[to] = place;
    });
    order.forEach((one, rank) => counts[one][rank]++);
  }
  list.forEach((one, place) => {
    const within = share => { let below = 0; return 1 + counts[place].findIndex(count => (below += count) >= share); };
    Object.assign(one, { low: within(outside), high: within(draws - outside), best: counts[place][0] / draws, tie: !Zoo.isWorse(one, list[0]) });
  });
};
/* As is_worse of zoo/choosing/budget_ranking.py: both errors are normal, with one factor of the law in common. */
Zoo.isWorse = (one, other) => one !== other && one.alone != null && other.alone != null && one.error - other.error >= BUDGET.quantile * Math.hypot(one.alone, other.alone, one.law - other.law);
/* Normal numbers, the same for everybody, by Marsaglia's xorshift and Box and Muller; a prime number of them, so that draws do not repeat. */
Zoo.drawNormals = () => {
  let state = 2463534242;
  const uniform = () => { state ^= state << 13; state ^= state >>> 17; state ^= state << 5; return ((state >>> 0) + .5) / 4294967296; };
  Zoo.normals = Float64Array.from({ length: 65521 }, () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()));
};

Zoo.pages.choose = () => {
  const at = id => document.getElementById(id), form = at("choices");
  if (!form) return;
  Zoo.drawNormals();
  const { steps, quantile } = BUDGET, defaults = { labels: steps[BUDGET.start].labels, licence: "any", access: "any", order: "error-asc" }, plots = {};
  const all = BUDGET.rows.map(row => Object.fromEntries(BUDGET.fields.map((name, place) => [name, row[place]])));
  const heads = [...document.querySelectorAll("#ranking [data-order]")], body = document.querySelector("#ranking tbody");
  const points = value => value % 1 === .25 ? `${Math.floor(value)}.2` : value.toFixed(1); /* halves to even, as in Python */
  const span = (low, high) => low == null ? "?" : low === high ? low : `${low}-${high}`, href = one => `encoders/${one.file}.html`;
  const link = one => Zoo.element("a", { href: href(one) }, one.id);
  let choices, kept, step;

  function rank() {
    const { parameters, dim, without } = choices, left = [], options = [];
    kept = all.map((one, place) => ({ ...one, error: step.error[place], alone: step.alone[place], law: step.law ? step.law[place] : 0, kind: BUDGET.kinds[step.kinds[place]] }));
    const ask = (reason, keeps, option) => {
      const after = kept.filter(keeps);
      if (after.length < kept.length) left.push(`${kept.length - after.length} (${reason})`);
      if (option) options.push(option);
      kept = after;
    };
    const limit = (option, keeps) => ask(option, keeps, option);
    ask("not measured with as many labels", one => one.error != null);
    for (const word of [choices.licence, choices.access]) if (word !== "any") limit(BUDGET.reasons[word], one => one.may.includes(word));
    if (parameters) limit(`--max-parameters ${parameters}M`, one => one.parameters <= parameters * 1e6);
    if (dim) limit(`--max-dim ${dim}`, one => one.dim <= dim);
    if (without.length) {
      ask("image sets not recorded", one => one.sets);
      const asked = without.map(name => `${JSON.stringify(name)} not in image_sets`).join(" and ").replaceAll("'", `'"'"'`);
      ask(`trained on ${without.join(" or ")}`, one => !without.some(name => one.sets.includes(name)), `--where '${asked}'`);
    }
    for (const word of ["gone", "wrong"]) if (!choices[word]) ask(BUDGET.reasons[word], one => !one[word]);
    kept.sort((a, b) => a.error - b.error || (a.id < b.id ? -1 : 1));
    const known = kept.filter(one => one.alone != null);
    Zoo.odds(known);
    for (const one of known) {
      const reach = quantile * Math.hypot(one.alone, one.law);
      Object.assign(one, { from: Math.max(one.error - reach, 0), to: Math.min(one.error + reach, 100) });
    }
    return { ties: known.filter(one => one.tie).length, left, options };
  }

  const badge = (is, text, name) => is ? [" ", Zoo.element("span", { class: name }, text)] : [];
  const row = one => Zoo.element("tr", { class: one.tie && "tie" },
    ...[[span(one.low, one.high), "n"], null, [points(one.error), "n"], [one.from == null ? "?" : `${points(one.from)}-${points(one.to)}`, "n"],
      [one.best == null ? "?" : one.best && one.best < .005 ? "<1%" : `${Math.round(one.best * 100)}%`, "n"], [one.kind], [Zoo.count(one.parameters), "n"], [one.dim, "n"], [one.licence, !one.licensed && "missing"],
    ].map(cell => cell ? Zoo.element("td", { class: cell[1] }, cell[0]) : Zoo.element("th", { scope: "row" }, link(one), badge(one.tie, "tie", "badge"), badge(one.mine, "yours", "mine"), badge(one.doubted, "erratum", "badge doubt"))));

  /* Sorts and shows the table; returns everybody in its order. */
  function list() {
    const [name, way] = choices.order.split("-"), sign = way === "desc" ? -1 : 1, of = one => name === "encoder" ? one.id.toLowerCase() : one[name];
    const sorted = [...kept].sort((a, b) => of(a) === of(b) ? 0 : of(a) < of(b) ? -sign : sign), shown = choices.all ? sorted : sorted.slice(0, 300);
    body.replaceChildren(...shown.map(row));
    at("more").hidden = shown.length === sorted.length;
    for (const head of heads) head.setAttribute("aria-sort", head.dataset.order !== name ? "none" : sign > 0 ? "ascending" : "descending");
    return sorted;
  }

  function drawFront(name, words) {
    const no = (one, other) => other[name] <= one[name] && other.error <= one.error && (other[name] < one[name] || other.error < one.error);
    const marks = kept.map(one => {
      const off = kept.filter(other => no(one, other)), group = off.length ? off.some(other => Zoo.isWorse(one, other)) ? 3 : 2 : 1;
      return { id: one.id, label: one.id, href: href(one), x: one[name], y: one.error, low: one.from, high: one.to, group, hollow: group > 2, note: `rank ${span(one.low, one.high)}, ${one.kind}`, one };
    });
    const front = marks.filter(mark => mark.group === 1).sort((a, b) => a.x - b.x);
    at(`list-${name}`).replaceChildren(...front.flatMap(({ one, x, y }, place) => [place ? ", " : "", link(one), ` (${Zoo.count(x)}, ${points(y)} %)`]));
    const changes = { points: marks, x: { label: words, kind: "log", format: "count", better: "low" }, y: { label: `error with ${step.labels.toLocaleString("en")} labels, %`, kind: "linear", format: "percent", better: "low" } };
    if (plots[name]) plots[name].update(changes);
    else plots[name] = Zoo.plot(at(`front-${name}`).firstElementChild, { ...changes, groups: BUDGET.groups, front: true });
  }

  function draw() {
    const { ties, left, options } = rank(), n = kept.length, networks = new Set(), next = kept.filter(one => !networks.has(one.network) && networks.add(one.network)).slice(0, 3);
    form.step.value = steps.indexOf(step);
    form.step.setAttribute("aria-valuetext", at("labels-text").textContent = step.text);
    at("answer").replaceChildren(Zoo.element("strong", {}, `${n} encoder${n === 1 ? "" : "s"} with ${step.text}.`), left.length ? ` Left out: ${left.join(", ")}.` : "", n ? "" : " Nobody is left: allow more.");
    at("words").replaceChildren(...[...step.words, ties > 1 ? BUDGET.ties.replace("{}", ties) : ties ? BUDGET.first : "", step.kind === "extrapolated" ? BUDGET.extrapolation : ""].filter(Boolean).map(line => Zoo.element("p", {}, line)));
    list();
    drawFront("parameters", "parameters");
    drawFront("dim", "feature dimension");
    at("recommend").textContent = ["zoo recommend --labels", step.labels, ...options, ...["wrong", "gone"].filter(word => choices[word]).map(word => `--include-${word}`)].join(" ");
    at("next").textContent = n ? ["zoo choose IMAGES --encoders", next.map(one => one.id).join(","), ...options].join(" ") : "";
    at("compare").href = `compare.html#e=${kept.slice(0, 6).map(one => encodeURIComponent(one.id)).join(",")}`;
  }
  const save = () => Zoo.state.write({ ...choices, labels: step.labels, without: choices.without.join("|") }, defaults);

  /* The address may hold anything: what the form does not offer is left out. */
  function open(state) {
    const wanted = Math.log(state.labels > 0 ? state.labels : defaults.labels), far = one => Math.abs(Math.log(one.labels) - wanted), without = (state.without || "").split("|");
    step = steps.reduce((best, one) => far(one) < far(best) ? one : best);
    for (const control of form.elements) {
      const value = state[control.name];
      if (control.type === "checkbox") control.checked = control.name === "without" ? without.includes(control.value) : value === "1";
      else if (control.name && control.name !== "step") control.value = value ?? defaults[control.name] ?? "";
      if (control.selectedIndex < 0) control.selectedIndex = 0;
    }
    form.step.value = steps.indexOf(step);
    choices = { order: /^(error|encoder|parameters|dim)-(asc|desc)$/.test(state.order) ? state.order : defaults.order, all: state.all };
    read();
  }
  function read() {
    const given = new FormData(form), number = name => given.get(name) > 0 ? +given.get(name) : "";
    step = steps[given.get("step")];
    choices = { ...choices, parameters: number("parameters"), dim: number("dim"), licence: given.get("licence"), access: given.get("access"), without: given.getAll("without"), wrong: given.get("wrong"), gone: given.get("gone") };
    draw();
  }

  for (const head of heads) {
    const button = Zoo.element("button", { type: "button" }, head.textContent), name = head.dataset.order;
    button.onclick = () => { choices.order = `${name}-${choices.order === `${name}-asc` ? "desc" : "asc"}`; list(); save(); };
    head.replaceChildren(button);
  }
  let waits = false;
  form.addEventListener("input", () => { if (!waits) { waits = true; requestAnimationFrame(() => { waits = false; read(); save(); }); } });
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", event => { event.preventDefault(); open({}); save(); });
  at("more").onclick = () => { choices.all = 1; list(); save(); };
  at("download").onclick = () => {
    const columns = { rank_low: "low", rank_high: "high", encoder: "id", error: "error", interval_low: "from", interval_high: "to", probability_best: "best", ties_with_first: "tie", kind: "kind", n_parameters: "parameters", z_dim: "dim", licence: "licence" };
    Zoo.download(`ranking-${step.labels}-labels.csv`, Zoo.csv([["n_labels", ...Object.keys(columns)], ...list().map(one => [step.labels, ...Object.values(columns).map(name => one[name])])]));
  };
  Zoo.state.watch(open);
  open(Zoo.state.read());
};
