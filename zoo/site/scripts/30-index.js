/* --- the first page: filters that act on plot and table, what the axes show, a selection to compare --- */
Zoo.encoders = () => ENCODERS.rows.map(row => Object.fromEntries(ENCODERS.fields.map((name, place) => [name, row[place]])));
Zoo.pages.index = () => {
  const [filters, axes, count, bar, note, front] = ["filters", "axes", "count", "comparison", "score-note", "front"].map(id => document.getElementById(id));
  const figure = document.querySelector(".plot"), body = document.querySelector(".encoders tbody"), most = 6;
  const all = Zoo.encoders(), byId = new Map(all.map(one => [one.id, one])), words = text => text.replaceAll("_", " ");
  const modes = figure.parentNode.dataset.groups.split("|"), measured = ["100%", "30-shot", "1%", "5-shot", "3-shot"], isOther = name => name.startsWith("on ");
  const kinds = [...axes.score.options].map(one => one.value).filter(name => name !== "expected" && !measured.includes(name) && !isOther(name)), equal = ["mode", "family", "commercial", "access"];
  const defaults = { score: axes.score.value, x: axes.x.value }, notes = { expected: note.textContent, ...note.dataset };
  const fills = Object.fromEntries(figure.parentNode.dataset.fills.split("|").map((words, place) => [["full", "half", "open"][place], words]));
  const fillOf = one => ({ "measured here": "full", "these images": "full", "measured by others": "half" })[one.basis] ?? "open";
  const xs = { parameters: ["n_parameters", "count", "log"], dim: ["dim", "count", "log"], gflops: ["gflops", "number", "log"], released: ["released", "month", "linear"] };
  const textOf = one => one.text ??= [one.id, one.mode, one.method, one.card_family, one.network, one.licence, one.domain, ...one.image_sets ?? []].join(" ").toLowerCase();
  const list = text => text ? text.split(",") : [];
  let choices = {}, chosen = [], kept = all, plot;

  const told = one => `${one.low == null ? "" : `90 % interval ${one.low.toFixed(1)} to ${one.high.toFixed(1)}; `}rests on: ${[one.basis, one.note].filter(Boolean).join(", ")}`;
  const save = () => Zoo.state.write({ ...choices, e: chosen.join() }, defaults);
  function draw() {
    const { score, x } = axes, [field, format, kind] = xs[x.value] ?? xs.parameters, isMeasured = measured.includes(score.value) || isOther(score.value), isMonth = format === "month", isExpected = score.value === "expected";
    const points = [], labelOf = control => (control.selectedOptions[0]?.textContent ?? "").replace(/ \([\d,]+\)$/, "");
    for (const one of kept) {
      const printed = one.reported[score.value], y = isExpected ? one.drawn && one.expected : isOther(score.value) ? one.elsewhere[score.value.slice(3)] : isMeasured ? one[score.value] : printed && parseFloat(printed), at = isMonth && one[field] ? +one[field].slice(0, 4) + (one[field].slice(5) - 1) / 12 : one[field];
      if (y && at) points.push({ id: one.id, label: one.id, href: `encoders/${one.file}.html`, x: at, y, group: modes.indexOf(one.mode) + 1 || modes.length, fill: isExpected ? fillOf(one) : one.mine ? "open" : "full", beside: !one.ranked, note: [isExpected ? told(one) : !isMeasured && `printed: ${printed}`, one.mine && "yours"].filter(Boolean).join("; ") });
    }
    const zoom = list(choices.zoom).map(Number);
    note.textContent = notes[isExpected ? "expected" : isMeasured ? "measured" : "reported"];
    const changes = {
      points, x: { label: labelOf(x), kind, format }, groups: modes.map(words), selected: chosen,
      y: { label: `${labelOf(score)}, %`, kind: isMeasured || isExpected ? "log" : "linear", format: "percent", better: isMeasured || isExpected ? "low" : "high" },
      front: isExpected && !isMonth, fills: isExpected ? fills : {},
      off: list(choices.off).map(mode => modes.indexOf(mode) + 1), zoom: zoom.length === 4 && zoom.every(isFinite) ? zoom : null,
      onChange({ off, zoom }) { changes.off = off; nameBest(); choices.off = off.map(group => modes[group - 1]).join(); choices.zoom = zoom ? zoom.join() : ""; save(); },
    };
    const nameBest = () => {
      const best = changes.front ? Zoo.front(points.filter(one => !changes.off.includes(one.group)), changes.x, changes.y) : [], [counted, names] = front.querySelectorAll("span");
      front.hidden = !best.length;
      counted.textContent = best.length;
      names.replaceChildren(...best.flatMap((one, place) => [place ? ", " : "", Zoo.element("a", { href: one.href }, one.id), ` (${Zoo.shown(one.x, changes.x)}, ${Zoo.shown(one.y, changes.y)} %)`]));
    };
    nameBest();
    if (plot) plot.update(changes); else plot = Zoo.plot(figure, changes);
  }
  function filter() {
    const asked = (choices.q ?? "").toLowerCase().split(/\s+/), max = choices.max ? choices.max * 1e6 : Infinity;
    const keep = one => equal.every(name => !choices[name] || one[name] === choices[name]) && one.n_parameters <= max && (!choices.measured || measured.some(name => one[name] !== null)) && asked.every(word => !word || textOf(one).includes(word));
    const here = all.map(keep);
    kept = all.filter((_, place) => here[place]);
    count.textContent = `${table.filter(place => here[place]).toLocaleString("en")} of ${all.length.toLocaleString("en")} encoders`;
    draw();
  }
  const controls = () => [...filters.elements, ...axes.elements].filter(control => control.name);
  function show(next) {
    choices = { ...next };
    delete choices.e;
    for (const control of controls()) {
      const value = choices[control.name] ?? defaults[control.name] ?? "";
      if (control.type === "checkbox") control.checked = !!value; else control.value = value;
      if (control.selectedIndex < 0) { control.value = defaults[control.name] ?? ""; delete choices[control.name]; } // a choice that is no more
    }
    choose(list(next.e).filter(id => byId.has(id)));
    filter();
  }
  /* Shows the selection: in the boxes of the table, once these are there, and in the bar below it. */
  function choose(ids) {
    chosen = ids.slice(0, most);
    for (const box of body.querySelectorAll("input")) box.checked = chosen.includes(box.value);
    bar.hidden = !chosen.length;
    const [told, link] = bar.children;
    told.textContent = `${ids.length > most ? "Not more than six: " : ""}${chosen.join(", ")}`;
    link.href = `compare.html#${new URLSearchParams({ e: chosen.join() })}`;
  }
  const addBoxes = () => [...body.rows].forEach((row, place) => {
    const { id } = all[place];
    row.cells[0].prepend(Zoo.element("input", { type: "checkbox", value: id, "aria-label": `Compare ${id}`, checked: chosen.includes(id) }));
  });
  const table = Zoo.table(body.parentNode, {
    order: Zoo.state.read().order, before: addBoxes,
    onOrder(order) { choices.order = order; save(); },
    values(place, name) {
      const one = all[place], kind = kinds.findIndex(kind => one.reported[kind]);
      return { ...one, encoder: one.id.toLowerCase(), training: one.method ?? one.mode, parameters: one.n_parameters, error: one.expected, interval: one.low, basis: one.basis && fillOf(one) + one.basis, reported: kind < 0 ? null : kind * 1000 - parseFloat(one.reported[kinds[kind]]) }[name];
    },
  });
  for (const form of [filters, axes]) {
    form.onsubmit = event => event.preventDefault();
    form.oninput = () => {
      for (const control of controls()) choices[control.name] = control.type === "checkbox" ? control.checked ? "1" : "" : control.value;
      if (form === axes) choices.zoom = "";
      save();
      if (form === axes) draw(); else filter();
    };
  }
  body.onchange = event => { choose(event.target.checked ? [...chosen, event.target.value] : chosen.filter(id => id !== event.target.value)); save(); draw(); };
  bar.querySelector("button").onclick = () => { choose([]); save(); draw(); };
  document.getElementById("clear").onclick = () => { filters.reset(); filters.oninput(); };
  document.getElementById("download").onclick = () => {
    const fields = ENCODERS.fields.filter(name => !["file", "ranked", "drawn", "reported", "elsewhere"].includes(name)), others = [...axes.score.options].map(one => one.value).filter(isOther), cell = value => Array.isArray(value) ? value.join("; ") : value;
    const heads = [...fields, ...others.map(name => `error_${name.replace(" ", "_")}`), ...kinds.map(kind => `reported_${kind}`)];
    Zoo.download("encoders.csv", Zoo.csv([heads, ...table.shown().map(place => [...fields.map(name => cell(all[place][name])), ...others.map(name => all[place].elsewhere[name.slice(3)]), ...kinds.map(kind => all[place].reported[kind])])]));
  };
  Zoo.state.watch(next => { show(next); table.order(next.order ?? ""); });
  show(Zoo.state.read());
  performance.mark("zoo-interactive");
};
