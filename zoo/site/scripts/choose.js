/* --- the page of choices: Python knows what encoders add to the difficulty of images (BUDGET); here they are filtered and ranked --- */
/* As expected_errors() of expectations.py: log odds of the error of the encoder in a row, their standard deviations, percents, and what they rest on. */
Zoo.expected = (row, kind, step) => {
  const one = Object.fromEntries(BUDGET.fields.map((name, place) => [name, BUDGET.rows[row][place]])), isImageNet = kind === BUDGET.kinds[0], { place } = BUDGET.steps[step], { floor } = kind;
  const basis = BUDGET.bases[one.basis[isImageNet ? 0 : 1]], own = isImageNet && one.own?.[step], percent = odds => 100 * (floor + (1 - floor) / (1 + Math.exp(-odds)));
  const scale = kind.scale / 100, added = scale * (kind.mean[row] + one.slope * place), share = own && (own[0] / 100 - floor) / (1 - floor);
  const odds = own ? Math.log(share / (1 - share)) : kind.level[step] + added, sd = own ? own[1] / 1e5 : scale * Math.hypot(kind.sd[row], one.slope_sd * place);
  const reach = BUDGET.reach * (kind.id === kind.domain ? Math.hypot(sd, scale * one.spread, BUDGET.scaleSd * added) : sd); /* on one data set of a kind of images */
  const n = one.shared.length - 2, [ofFamily, ofLabels] = one.shared.slice(n), parts = one.shared.slice(0, n).map(part => scale * part), all = Math.hypot(...parts), most = own || !all ? 0 : Math.min(1, sd / all); /* what is shared is no more than all */
  const shared = parts.map(part => most * part), kin = own ? 0 : Math.min(scale * Math.hypot(ofFamily, ofLabels * place), Math.sqrt(Math.max(sd ** 2 - (most * all) ** 2, 0)));
  return { odds, sd, shared, kin, family: one.family, error: own ? own[0] : percent(odds), low: percent(odds - reach), high: percent(odds + reach), basis, how: own ? BUDGET.hows[own[2]] : "expected" };
};
/* As is_worse() of ranking.py, with Expected.sd_from(). */
Zoo.isWorse = (one, other) => one.odds > other.odds && one.odds - other.odds >= BUDGET.deviates * Math.sqrt(Math.max(one.sd ** 2 + other.sd ** 2 - 2 * one.shared.reduce((sum, part, place) => sum + part * (other.shared[place] ?? 0), one.family === other.family ? one.kin * other.kin : 0), BUDGET.leastApart ** 2));

Zoo.pages.choose = () => {
  const at = id => document.getElementById(id), form = at("choices");
  if (!form) return;
  const { steps, start, kinds, devices } = BUDGET, { points } = Zoo, usual = "error-asc", element = Zoo.element;
  const all = BUDGET.rows.map((row, place) => ({ place, ...Object.fromEntries(BUDGET.fields.map((name, field) => [name, row[field]])) }));
  const heads = [...document.querySelectorAll("#ranking [data-name]")], sizes = { parameters: ["parameters", "count", "low"], dim: ["feature dimension", "number", "low"], speed: ["images per second", "number", "high"] };
  const href = one => `encoders/${one.file ?? one.id}.html`, link = one => element("a", { href: href(one) }, Zoo.name(one.id)), rounded = value => (+value.toPrecision(3)).toLocaleString("en");
  const speedOf = ({ speeds }) => speeds && (speeds[1] ? `~${rounded(speeds[0])}` : rounded(speeds[0])), spread = ({ speeds }) => speeds?.[1] && `${rounded(speeds[1])} to ${rounded(speeds[2])}, expected`;
  const restsOn = one => ["interpolated", "extrapolated"].includes(one.how) ? `${one.basis}, ${one.how}` : one.basis;
  const caption = document.querySelector("#ranking caption span"), ranked = caption.textContent;
  let choices = {}, kept, beside, step, kind, device, plot;

  /* Filters and ranks, as ranking() of ranking.py; says who was left out, and which options ask for the same. */
  function rank() {
    const { parameters, dim, speed } = choices, without = choices.without ? choices.without.split("|") : [], left = [], options = [];
    kept = all.map(one => {
      const speeds = device?.speed[one.place];
      return { ...one, ...Zoo.expected(one.place, kind, +choices.step), speeds, speed: speeds?.[0] };
    });
    const ask = (reason, keeps, option = reason.startsWith("--") && reason) => {
      const n = kept.length;
      kept = kept.filter(keeps);
      if (kept.length < n) left.push(`${n - kept.length} (${reason})`);
      if (option) options.push(option);
    };
    for (const word of [choices.licence, choices.access]) if (word) ask(BUDGET.reasons[word], one => one.may.includes(word));
    if (parameters > 0) ask(`--max-parameters ${parameters}M`, one => one.parameters <= parameters * 1e6);
    if (dim > 0) ask(`--max-dim ${dim}`, one => one.dim <= dim);
    if (device && speed > 0) { ask("speed not known", one => one.speed); ask(`--min-images-per-second ${speed}`, one => one.speed >= speed); }
    if (without.length) {
      ask("image sets not recorded", one => one.sets);
      ask(`trained on ${without.join(" or ")}`, one => !without.some(name => one.sets.includes(name)), `--where '${without.map(name => `${JSON.stringify(name)} not in image_sets`).join(" and ").replaceAll("'", `'"'"'`)}'`);
    }
    if (!choices.gone) ask(BUDGET.reasons.gone, one => !one.gone);
    ask(BUDGET.reasons.untold, one => BUDGET.fillOf[one.basis] === "full" || steps[choices.step].place <= one.farthest); /* as Expected.is_untold */
    kept.sort((a, b) => a.odds - b.odds || (a.id < b.id ? -1 : 1));
    const whyNot = one => one.gated ? "gated" : one.domains && !one.domains.includes(kind.domain) && (one.domains.length ? `for ${one.domains.join(" or ").replace(/s$/, "")} images` : "for special images");
    beside = kept.map(one => ({ ...one, why: whyNot(one) })).filter(one => one.why);
    if (beside.length < kept.length) kept = kept.filter(one => !whyNot(one)); else beside = [];
    kept.forEach((one, place) => Object.assign(one, { rank: place + 1, tie: !place || one.basis !== "similar encoders" && !Zoo.isWorse(one, kept[0]) }));
    return { left, options };
  }
  const row = one => {
    const cell = (text, name = "n") => element("td", { class: name }, text ?? "?"), count = (text, label, title) => element("td", { class: "n", title, "data-label": label }, text ?? "?");
    return element("tr", { class: one.tie && "tie" }, cell(one.rank + (one.tie ? "=" : "")),
      element("th", { scope: "row" }, link(one), one.mine ? [" ", element("span", { class: "mine" }, "yours")] : []),
      cell(points(one.error)), cell(`${points(one.low)}-${points(one.high)}`), cell(restsOn(one), ""), device && count(speedOf(one), "images/s", spread(one)),
      count(Zoo.count(one.parameters), "parameters"), count(one.dim, "dimensions"), cell(one.licence, !one.licensed && "missing"));
  };
  /* Sorts and shows the table; returns all encoders in its order. */
  function list() {
    const [name, way] = (choices.order || usual).split("-"), sign = way === "desc" ? -1 : 1, of = one => name === "id" ? one.id.toLowerCase() : name === "error" ? one.rank : one[name] ?? -1;
    const sorted = [...kept].sort((a, b) => of(a) === of(b) ? 0 : of(a) < of(b) ? -sign : sign), shown = choices.all ? sorted : sorted.slice(0, BUDGET.listed);
    document.querySelector("#ranking tbody").replaceChildren(...shown.map(row));
    at("more").hidden = shown.length === sorted.length;
    at("more").textContent = `Show all ${sorted.length}`;
    for (const head of heads) head.hidden = head.dataset.name === "speed" && !device;
    showOrder(`${name}-${way}`);
    return sorted;
  }
  function drawFront() {
    const [label, format, better] = sizes[form.against.value], name = form.against.value, sign = better === "high" ? -1 : 1, x = { label: name === "speed" ? `images per second on ${device.name}` : label, kind: "log", format, better };
    const marks = kept.filter(one => one[name]).map((one, place, known) => {
      const smaller = known.slice(0, place).filter(other => sign * other[name] <= sign * one[name]), group = !smaller.length ? 1 : smaller.some(other => Zoo.isWorse(one, other)) ? 3 : 2;
      return { id: one.id, label: one.id, href: href(one), x: one[name], y: one.error, low: group === 1 ? one.low : null, high: group === 1 ? one.high : null, group, fill: BUDGET.fillOf[one.basis] === "full" && ["extrapolated", "expected"].includes(one.how) ? "half" : BUDGET.fillOf[one.basis], one,
        note: [group > 1 && `90 % interval ${points(one.low)} to ${points(one.high)}`, `rank ${one.rank}${one.tie ? ", tied with the first" : ""}`, restsOn(one)].filter(Boolean).join("; ") };
    });
    const front = marks.filter(mark => mark.group === 1).sort((a, b) => sign * (a.x - b.x)), changes = { points: marks, x, y: { label: "expected error, %", kind: "log", format: "percent", better: "low" }, groups: BUDGET.groups, fills: BUDGET.fills, front: true };
    at("list").replaceChildren(...front.flatMap(({ one, x: size, y }, place) => [place ? ", " : "", link(one), ` (${Zoo.shown(size, x)}, ${points(y)} %)`]));
    if (plot) plot.update(changes); else plot = Zoo.plot(at("front").firstElementChild, changes);
  }
  function draw() {
    form.speed.disabled = !device;
    const fast = form.against.querySelector("[value=speed]");
    fast.hidden = fast.disabled = !device;
    if (!device && form.against.value === "speed") form.against.value = "parameters";
    const { left, options } = rank(), n = kept.length, ties = kept.filter(one => one.tie).length, { labels } = steps[choices.step], [first] = kept;
    form.step.setAttribute("aria-valuetext", at("labels-text").textContent = steps[choices.step].text);
    /* As select_racers() of ranking.py. */
    const racers = ties <= Math.max(BUDGET.racers, BUDGET.tooMany * n) ? [] : kept.filter(one => one.tie).sort((a, b) => (BUDGET.fillOf[a.basis] === "open") - (BUDGET.fillOf[b.basis] === "open")).filter((one, place, tied) => tied.findIndex(other => other.family === one.family) === place).slice(0, BUDGET.racers);
    const many = n.toLocaleString("en"), where = `on ${kind.words} with ${steps[choices.step].text}.`;
    at("answer").replaceChildren(...racers.length ? [element("strong", {}, `Too uncertain to rank: ${ties.toLocaleString("en")} of ${many} encoders share the first place ${where}`), ` Race these ${racers.length} on your images: `, ...racers.flatMap((one, place) => [place ? ", " : "", link(one)]), "."]
      : [element("strong", {}, `${many} encoder${n === 1 ? "" : "s"} by the error to expect ${where}`), ties > 1 ? ` ${ties} are statistically tied with the first (=).` : ""], left.length || BUDGET.never.length ? ` Left out: ${[...left, ...BUDGET.never].join(", ")}.` : "", n ? "" : " No encoder is left: relax the constraints.");
    const lines = [...new Set(beside.map(one => one.why))].sort().map(why => {
      const some = beside.filter(one => one.why === why);
      return `Without a rank, ${why}: ${some.slice(0, BUDGET.beside).map(one => `${one.id} (${points(one.error)} %)`).join(", ")}${some.length > BUDGET.beside ? ` and ${some.length - BUDGET.beside} more` : ""}.`;
    });
    caption.textContent = ranked + (device ? ` Images per second on ${device.name} (${device.how}) as timm's author measured them, without decoding of images; ~ expected of the network's cost.` : "");
    at("words").replaceChildren(...lines.map(line => element("p", {}, line)));
    drawFront();
    list();
    /* The command counts labels of the user's classes: those of the data set, or ten of a kind of images. */
    const classes = kind.option ? kind.classes ?? 10 : 1000, asked = kind.option ? [`--labels ${Math.max(classes, Math.round(labels * classes / 1000))}`, ...kind.classes ? [] : ["--classes 10"], kind.option] : [`--labels ${labels}`];
    at("recommend").textContent = ["zoo recommend", ...asked, ...options, ...device ? [`--device "${device.name}"`] : [], ...choices.gone ? ["--include-gone"] : []].join(" ");
    const next = racers.length ? racers.map(one => one.id) : [...new Set(kept.map(one => one.network))].slice(0, 3).map(network => kept.find(one => one.network === network).id);
    at("next").textContent = ["zoo choose IMAGES --encoders", next.join(","), ...options.filter(one => !one.startsWith("--min-images"))].join(" ");
    at("compare").href = `compare.html#e=${kept.slice(0, 6).map(one => encodeURIComponent(one.id)).join(",")}`;
  }
  const defaults = { labels: steps[start].labels, order: usual, images: kinds[0].id, against: "parameters" };
  const save = () => { const { step, ...others } = choices; Zoo.state.write({ ...others, labels: steps[step].labels }, defaults); };
  function read() {
    const given = new FormData(form);
    choices = { order: choices.order, all: choices.all, ...Object.fromEntries(given), without: given.getAll("without").join("|") };
    kind = kinds.find(one => one.id === choices.images);
    device = devices.find(one => one.name === choices.device);
    if (!device && choices.order.startsWith("speed")) choices.order = usual;
    draw();
  }
  /* The address may hold anything: what the page does not offer is left out. */
  function open(state) {
    const far = one => Math.abs(Math.log(one.labels / (state.labels > 0 ? state.labels : steps[start].labels)));
    form.against.querySelector("[value=speed]").disabled = form.speed.disabled = false;
    for (const control of form.elements) {
      const value = state[control.name] || "";
      if (control.type === "checkbox") control.checked = value.split("|").includes(control.value); else if (control.name) control.value = control.type === "number" && !(value > 0) ? "" : value;
      if (control.selectedIndex < 0) control.selectedIndex = 0;
    }
    form.step.value = steps.indexOf([...steps].sort((a, b) => far(a) - far(b))[0]);
    choices = { all: state.all, order: heads.some(head => (state.order || "").split("-")[0] === head.dataset.name) ? state.order : usual };
    read();
  }
  const showOrder = Zoo.headings(heads, name => { choices.order = `${name}-${choices.order === `${name}-asc` || name === "speed" && choices.order !== "speed-desc" ? "desc" : "asc"}`; list(); save(); });
  let waits = false;
  form.addEventListener("input", () => { if (!waits) { waits = true; requestAnimationFrame(() => { waits = false; read(); save(); }); } });
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", event => { event.preventDefault(); open({}); save(); });
  at("more").onclick = () => { choices.all = 1; list(); save(); };
  const columns = ["rank", "id", "error", "low", "high", "tie", "basis", "how", "speed", "parameters", "dim", "licence"];
  at("download").onclick = () => Zoo.download(`ranking-${kind.id}-${steps[choices.step].labels}-labels.csv`, Zoo.csv([columns, ...list().map(one => columns.map(name => one[name]))]));
  Zoo.state.watch(open);
  open(Zoo.state.read());
};
