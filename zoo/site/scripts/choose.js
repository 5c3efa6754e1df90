/* --- the page of choices: Python computes errors and noises (BUDGET); here candidates are filtered and ranked --- */
/* Normal numbers, the same on every machine (Marsaglia's xorshift, Box and Muller); their number is prime, so that no draw repeats another. */
Zoo.normals = (state = 2463534242) => {
  const uniform = () => { state ^= state << 13; state ^= state >>> 17; state ^= state << 5; return ((state >>> 0) + .5) / 2 ** 32; };
  return Float64Array.from({ length: 65521 }, () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()));
};
/* As rank_odds of label_budget.py: adds rank_low, rank_high, best and tie to each {error, alone, law}, which come by rising error. */
Zoo.odds = (list, normals) => {
  const n = list.length, draws = Math.max(200, Math.min(2000, Math.floor(4e5 / n))), drawn = new Float64Array(n), order = new Int32Array(n), counts = list.map(() => new Int32Array(n));
  const [error, alone, law] = ["error", "alone", "law"].map(name => Float64Array.from(list, one => one[name])), outside = (1 - BUDGET.level) / 2 * draws;
  let next = 0;
  const another = () => normals[next = next < 65520 ? next + 1 : 0];
  for (let draw = 0; draw < draws; draw++) {
    const common = another();
    for (let one = 0; one < n; one++) {
      const value = drawn[one] = error[one] + common * law[one] + another() * alone[one];
      let to = one;
      for (; to && drawn[order[to - 1]] > value; to--) order[to] = order[to - 1];
      order[to] = one;
    }
    for (let rank = 0; rank < n; rank++) counts[order[rank]][rank]++;
  }
  list.forEach((one, place) => {
    const within = share => { let below = 0; return 1 + counts[place].findIndex(count => (below += count) >= share); };
    Object.assign(one, { rank_low: within(outside), rank_high: within(draws - outside), best: counts[place][0] / draws, tie: !Zoo.isWorse(one, list[0]) });
  });
};
/* As is_worse of budget_ranking.py. */
Zoo.isWorse = (one, other) => one.alone != null && other.alone != null && one.error > other.error && (one.error - other.error) ** 2 >= BUDGET.quantile ** 2 * (one.alone ** 2 + other.alone ** 2 + (one.law - other.law) ** 2);

Zoo.pages.choose = () => {
  const at = id => document.getElementById(id), form = at("choices");
  if (!form) return;
  const { steps, start, columns } = BUDGET, normals = Zoo.normals(), plots = {}, usual = "error-asc";
  const all = BUDGET.rows.map(row => Object.fromEntries(BUDGET.fields.map((name, place) => [name, row[place]])));
  const heads = [...document.querySelectorAll("#ranking [data-order]")], element = Zoo.element;
  const points = value => value % 1 === .25 ? `${Math.floor(value)}.2` : value.toFixed(1); /* halves to even, as in Python */
  const span = (low, high) => low == null ? "?" : low === high ? low : `${low}-${high}`, href = one => `encoders/${one.file}.html`, link = one => element("a", { href: href(one) }, one.id);
  let choices = {}, kept, step, ties;

  /* Filters and ranks; says who was left out, and which options ask for the same. */
  function rank() {
    const { parameters, dim } = choices, without = choices.without ? choices.without.split("|") : [], left = [], options = [];
    kept = all.map((one, place) => ({ ...one, error: step.error[place], alone: step.alone[place], law: step.law ? step.law[place] : 0, kind: BUDGET.kinds[step.kinds[place]] }));
    const ask = (reason, keeps, option = reason.startsWith("--") && reason) => {
      const n = kept.length;
      kept = kept.filter(keeps);
      if (kept.length < n) left.push(`${n - kept.length} (${reason})`);
      if (option) options.push(option);
    };
    ask("not measured with as many labels", one => one.error != null);
    for (const word of [choices.licence, choices.access]) if (word) ask(BUDGET.reasons[word], one => one.may.includes(word));
    if (parameters > 0) ask(`--max-parameters ${parameters}M`, one => one.parameters <= parameters * 1e6);
    if (dim > 0) ask(`--max-dim ${dim}`, one => one.dim <= dim);
    if (without.length) {
      ask("image sets not recorded", one => one.sets);
      ask(`trained on ${without.join(" or ")}`, one => !without.some(name => one.sets.includes(name)), `--where '${without.map(name => `${JSON.stringify(name)} not in image_sets`).join(" and ").replaceAll("'", `'"'"'`)}'`);
    }
    for (const word of ["gone", "wrong"]) if (!choices[word]) ask(BUDGET.reasons[word], one => !one[word]);
    kept.sort((a, b) => a.error - b.error || (a.id < b.id ? -1 : 1));
    const known = kept.filter(one => one.alone != null);
    Zoo.odds(known, normals);
    for (const one of known) {
      const { error } = one, reach = BUDGET.quantile * Math.hypot(one.alone, one.law);
      Object.assign(one, { interval_low: Math.max(error - reach, 0), interval_high: Math.min(error + reach, 100) });
    }
    ties = known.filter(one => one.tie).length;
    return { left, options };
  }
  const row = one => {
    const cell = (text, name = "n") => element("td", { class: name }, text), badge = (is, text, name) => is ? [" ", element("span", { class: name }, text)] : [];
    return element("tr", { class: one.tie && "tie" }, cell(span(one.rank_low, one.rank_high)),
      element("th", { scope: "row" }, link(one), badge(one.tie && ties > 1, "tie", "badge"), badge(one.mine, "yours", "mine"), badge(one.doubted, "erratum", "badge doubt")),
      cell(points(one.error)), cell(one.tie == null ? "?" : `${points(one.interval_low)}-${points(one.interval_high)}`),
      cell(one.tie == null ? "?" : one.best && one.best < .005 ? "<1%" : `${Math.round(one.best * 100)}%`), cell(one.kind, ""), cell(Zoo.count(one.parameters)), cell(one.dim), cell(one.licence, !one.licensed && "missing"));
  };
  /* Sorts and shows the table; returns all encoders in its order. */
  function list() {
    const [name, way] = (choices.order || usual).split("-"), sign = way === "desc" ? -1 : 1, of = one => name === "id" ? one.id.toLowerCase() : one[name];
    const sorted = [...kept].sort((a, b) => of(a) === of(b) ? 0 : of(a) < of(b) ? -sign : sign), shown = choices.all ? sorted : sorted.slice(0, 300);
    document.querySelector("#ranking tbody").replaceChildren(...shown.map(row));
    at("more").hidden = shown.length === sorted.length;
    for (const head of heads) head.setAttribute("aria-sort", head.dataset.order !== name ? "none" : sign > 0 ? "ascending" : "descending");
    return sorted;
  }
  function drawFront(name, label, format) {
    const x = { label, kind: "log", format, better: "low" }, marks = kept.map(one => {
      const isBeaten = other => other[name] <= one[name] && Zoo.isWorse(one, other), isOff = other => other[name] <= one[name] && other.error <= one.error && other[name] + other.error < one[name] + one.error;
      const group = kept.some(isBeaten) ? 3 : kept.some(isOff) ? 2 : 1;
      return { id: one.id, label: one.id, href: href(one), x: one[name], y: one.error, low: one.interval_low, high: one.interval_high, group, hollow: group > 2, note: `rank ${span(one.rank_low, one.rank_high)}, ${one.kind}`, one };
    });
    const front = marks.filter(mark => mark.group === 1).sort((a, b) => a.x - b.x), changes = { points: marks, x, y: { label: "error, %", kind: "linear", format: "percent", better: "low" }, groups: BUDGET.groups, front: true };
    at(`list-${name}`).replaceChildren(...front.flatMap(({ one, x: size, y }, place) => [place ? ", " : "", link(one), ` (${Zoo.shown(size, x)}, ${points(y)} %)`]));
    if (plots[name]) plots[name].update(changes); else plots[name] = Zoo.plot(at(`front-${name}`).firstElementChild, changes);
  }
  function draw() {
    const { left, options } = rank(), n = kept.length, words = [...step.words, ties > 1 ? BUDGET.ties.replace("{}", ties) : ties ? BUDGET.first : "", step.law ? BUDGET.extrapolation : ""];
    form.step.setAttribute("aria-valuetext", at("labels-text").textContent = `${step.text}: ${step.kind}`);
    at("answer").replaceChildren(element("strong", {}, `${n} encoder${n === 1 ? "" : "s"} with ${step.text}.`), left.length ? ` Left out: ${left.join(", ")}.` : "", n ? "" : " No encoder is left: relax the constraints.");
    at("words").replaceChildren(...words.filter(Boolean).map(line => element("p", {}, line)));
    drawFront("parameters", "parameters", "count"); drawFront("dim", "feature dimension", "number");
    list();
    at("recommend").textContent = ["zoo recommend --labels", step.labels, ...options, ...["wrong", "gone"].filter(word => choices[word]).map(word => `--include-${word}`)].join(" ");
    const next = [...new Set(kept.map(one => one.network))].slice(0, 3).map(network => kept.find(one => one.network === network).id);
    at("next").textContent = ["zoo choose IMAGES --encoders", next.join(","), ...options].join(" ");
    at("compare").href = `compare.html#e=${kept.slice(0, 6).map(one => encodeURIComponent(one.id)).join(",")}`;
  }
  const save = () => Zoo.state.write({ ...choices, labels: step.labels }, { labels: steps[start].labels, order: usual });
  function read() {
    const given = new FormData(form);
    choices = { order: choices.order, all: choices.all, ...Object.fromEntries(given), without: given.getAll("without").join("|") };
    step = steps[choices.step];
    delete choices.step;
    draw();
  }
  /* The address may hold anything: what the page does not offer is left out. */
  function open(state) {
    const far = one => Math.abs(Math.log(one.labels / (state.labels > 0 ? state.labels : steps[start].labels)));
    for (const control of form.elements) {
      const value = state[control.name] || "";
      if (control.type === "checkbox") control.checked = value.split("|").includes(control.value); else if (control.name) control.value = control.type === "number" && !(value > 0) ? "" : value;
      if (control.selectedIndex < 0) control.selectedIndex = 0;
    }
    form.step.value = steps.indexOf([...steps].sort((a, b) => far(a) - far(b))[0]);
    choices = { all: state.all, order: heads.some(head => (state.order || "").split("-")[0] === head.dataset.order) ? state.order : usual };
    read();
  }
  for (const head of heads) {
    const button = element("button", { type: "button" }, head.textContent), name = head.dataset.order;
    button.onclick = () => { choices.order = `${name}-${choices.order === `${name}-asc` ? "desc" : "asc"}`; list(); save(); };
    head.replaceChildren(button);
  }
  let waits = false;
  form.addEventListener("input", () => { if (!waits) { waits = true; requestAnimationFrame(() => { waits = false; read(); save(); }); } });
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", event => { event.preventDefault(); open({}); save(); });
  at("more").onclick = () => { choices.all = 1; list(); save(); };
  at("download").onclick = () => Zoo.download(`ranking-${step.labels}-labels.csv`, Zoo.csv([columns, ...list().map(one => columns.map(name => one[name]))]));
  Zoo.state.watch(open);
  open(Zoo.state.read());
};
