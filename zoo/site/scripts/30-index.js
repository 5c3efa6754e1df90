/* --- the first page: filters that act on answer, plot and table, what the axes show, a selection to compare --- */
Zoo.encoders = () => ENCODERS.id.map((_, place) => Object.fromEntries(Object.entries(ENCODERS).map(([name, values]) => [name, values[place]])));
Zoo.pages.index = () => {
  const [filters, more, axes, count, bar, note, front, found, headline, subtitle, other, whole] = ["filters", "more", "axes", "count", "comparison", "score-note", "front", "found", "score", "drawn", "other", "whole"].map(id => document.getElementById(id));
  const figure = document.querySelector(".plot"), body = document.querySelector(".encoders tbody"), bestOf = document.querySelector(".best-of"), blank = bestOf?.tBodies[0].rows[0].cloneNode(true), most = 6, listed = body.rows.length;
  const all = Zoo.encoders(), byId = new Map(all.map(one => [one.id, one]));
  const { dataset } = figure.parentNode, kinds = new Map(dataset.kinds.split("|").map(pair => pair.split(":"))), kindNames = [...kinds.keys()], measured = ["100%", "30-shot", "1%", "5-shot", "3-shot"], isOther = name => name.startsWith("on ");
  const printed = [...axes.score.options].map(one => one.value).filter(name => name !== "expected" && !measured.includes(name) && !isOther(name)), equal = ["mode", "family", "commercial", "access", "kind"];
  const defaults = { score: axes.score.value, x: axes.x.value }, notes = { expected: note.textContent, ...note.dataset }, told0 = [headline.textContent, subtitle.textContent];
  const fills = Object.fromEntries(dataset.fills.split("|").map((words, place) => [["full", "half", "open"][place], words]));
  const fillOf = one => ({ "the study": "full", "this project": "full", "these images": "full", "another protocol": "half", "reported probe": "half" })[one.basis] ?? "open";
  const xs = { parameters: ["n_parameters", "count", "log"], dim: ["dim", "count", "log"], gflops: ["gflops", "number", "log"], released: ["released", "month", "linear"] };
  const plain = text => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim(), fold = text => plain(text).replaceAll(" ", "");
  for (const one of all) one.texts = [one.mode, one.method, one.card_family, one.network, one.licence?.replace(/[\d.]+/g, ""), one.domain, kinds.get(one.kind), ...one.image_sets ?? []].map(text => plain(text ?? "")).join("\n");
  const list = text => text ? text.split(",") : [];
  let choices = {}, chosen = [], kept = all, sorted = all, answered = all.map(one => one.id).join(), plot;

  const told = one => `${one.low == null ? "" : `90 % interval ${one.low.toFixed(1)} to ${one.high.toFixed(1)}; `}rests on: ${[one.basis, one.note].filter(Boolean).join(", ")}`, uses = { yes: "any use", no: "not commercial", conditions: "under conditions", unknown: "unknown" };
  const save = () => Zoo.state.write({ ...choices, e: chosen.join() }, defaults);
  function draw() {
    const { score, x } = axes, [field, format, kind] = xs[x.value] ?? xs.parameters, isMeasured = measured.includes(score.value) || isOther(score.value), isMonth = format === "month", isExpected = score.value === "expected";
    const points = [], labelOf = control => (control.selectedOptions[0]?.textContent ?? "").replace(/ \([\d,]+\)$/, ""), hidden = list(choices.off);
    for (const one of all) {
      const text = one.reported[score.value], at = isMonth && one[field] ? +one[field].slice(0, 4) + (one[field].slice(5) - 1) / 12 : one[field];
      const y = isExpected ? one.drawn && one.expected : isOther(score.value) ? one.elsewhere[score.value.slice(3)] : isMeasured ? one[score.value] : text && parseFloat(text), isFar = dataset.farthest && (one.kind === "none" || isExpected && y > dataset.farthest);
      if (!y || !at || isFar || hidden.includes(one.mode)) continue; // links of earlier sites name modes
      const what = [one.licence && `licence: ${one.licence.replace("LicenseRef-", "")}, ${uses[one.commercial]}`, one.released && `released ${one.released}`];
      points.push({ id: one.id, label: one.id, href: `encoders/${one.file ?? one.id}.html`, x: at, y, group: kindNames.indexOf(one.kind) + 1, fill: isExpected ? fillOf(one) : one.mine ? "open" : "full", beside: !one.ranked, range: isExpected && one.low != null && [one.low, one.high], note: [isExpected ? told(one) : !isMeasured && `printed: ${text}`, ...what, one.mine && "yours"] });
    }
    Zoo.spread(points, { kind, format });
    const here = new Set(kept), shown = points.filter(one => here.has(byId.get(one.id)));
    const zoom = list(choices.zoom).map(Number);
    note.textContent = notes[isExpected ? "expected" : isMeasured ? "measured" : "reported"];
    const changes = {
      points: shown, x: { label: labelOf(x), kind, format }, groups: [...kinds.values()], selected: chosen,
      y: { label: `${labelOf(score)}, %`, kind: isMeasured || isExpected ? "log" : "linear", format: "percent", better: isMeasured || isExpected ? "low" : "high" },
      front: isExpected && !isMonth, fills: isExpected ? fills : {},
      off: hidden.map(name => kindNames.indexOf(name) + 1).filter(Boolean), zoom: zoom.length === 4 && zoom.every(isFinite) ? zoom : null,
      onChange({ off, zoom }) { changes.off = off; nameBest(); choices.off = off.map(group => kindNames[group - 1]).join(); choices.zoom = zoom ? zoom.join() : ""; save(); },
    };
    const nameBest = () => {
      const best = changes.front ? Zoo.front(shown.filter(one => !changes.off.includes(one.group)), changes.x, changes.y) : [], [counted, names] = front.querySelectorAll("span");
      front.hidden = !best.length;
      counted.textContent = best.length;
      names.replaceChildren(...best.flatMap((one, place) => [place ? ", " : "", Zoo.element("a", { href: one.href }, one.id), ` (${Zoo.shown(one.x, changes.x)}, ${Zoo.shown(one.y, changes.y)} %)`]));
      const isWhole = shown.length === points.length && !hidden.length && [score, x].every(control => control.value === defaults[control.name]), unit = changes.x.label.split(" ")[0];
      const said = one => `${Zoo.shown(one.y, changes.y)} % at ${Zoo.shown(one.x, changes.x)}`, falls = best.length > 1 ? `The lowest expected error falls from ${said(best[0])} ${unit} to ${said(best.at(-1))}` : best.length ? `The lowest expected error is ${said(best[0])} ${unit}` : `${changes.y.label} against ${changes.x.label}`;
      [headline.textContent, subtitle.textContent] = isWhole ? told0 : [falls[0].toUpperCase() + falls.slice(1), `${shown.length.toLocaleString("en")} of ${points.length.toLocaleString("en")} encoders: ${labelOf(score)}, against ${changes.x.label}`];
    };
    nameBest();
    if (plot) plot.update(changes); else plot = Zoo.plot(figure, changes);
  }
  /* Whether an encoder answers to what was typed, as zoo/cards/search.py has it: words may stand anywhere in an id, and begin one elsewhere. */
  function search(typed) {
    let words = typed.toLowerCase().split(/\s+/).map(word => word.replace(/^(https:\/\/huggingface\.co\/|hf-hub:|hf:|timm[:/])+/, "")).filter(fold);
    if (all.some(one => one.called?.has(fold(words.join(""))))) words = [fold(words.join(""))];
    const meets = word => {
      const text = fold(word), begins = new RegExp(`(?:^|\\s)${[...text].join(" ?")}`, "m");
      return fold(word) !== word && all.some(one => one.id.toLowerCase().includes(word)) ? one => one.id.toLowerCase().includes(word) : one => fold(one.id).includes(text) || begins.test(one.texts);
    };
    const tests = words.flatMap(word => all.some(meets(word)) ? [meets(word)] : plain(word).split(" ").map(meets));
    return one => tests.every(test => test(one));
  }
  /* What encoders answer to, data sets and studies: loaded once somebody searches. */
  function loadNames() {
    if (loadNames.begun) return;
    loadNames.begun = true;
    const script = Zoo.element("script", { src: filters.q.dataset.names });
    script.onload = () => {
      loadNames.done = true;
      for (const [place, one] of all.entries()) {
        const [called, more = ""] = NAMES.encoders[place].split("\n\n");
        one.called = new Set(called.split("\n"));
        one.texts += `\n${called}\n${more}`;
      }
      if (choices.q) filter(); // a page drawn anew would take the focus from its parts
      suggest();
    };
    document.head.append(script);
  }
  function filter() {
    if (choices.q) loadNames();
    const meets = search(choices.q ?? ""), max = choices.max ? choices.max * 1e6 : Infinity;
    kept = all.filter(one => equal.every(name => !choices[name] || one[name] === choices[name]) && one.n_parameters <= max && (!choices.since || one.released >= choices.since) && (!choices.measured || measured.some(name => one[name] !== null)) && meets(one));
    fill();
    count.textContent = `${kept.length.toLocaleString("en")} of ${all.length.toLocaleString("en")} encoders`;
    answer();
    draw();
  }
  /* The best encoder up to every size among those that are kept, in rows like those that came with the page. */
  function answer() {
    const asked = kept.map(one => one.id).join();
    if (answered === asked) return; // rows that stay keep their focus
    answered = asked;
    const clamp = value => Math.max(5, Math.min(60, value)), across = value => 6 + Math.log(clamp(value) / 5) / Math.log(12) * 148;
    bestOf?.tBodies[0].replaceChildren(...bestOf.dataset.sizes.split("|").map(pair => {
      const [words, size] = pair.split(":"), [one, ...others] = kept.filter(one => one.ranked && one.n_parameters <= (size === "inf" ? Infinity : size));
      const row = blank.cloneNode(true), [head, name, count, error, interval, drawn, kind, use, year, reach] = row.cells, put = (node, text) => { node.textContent = text; };
      put(head, words);
      if (!one) { row.replaceChildren(head, Zoo.element("td", { colspan: 9, class: "missing" }, "none is ranked")); return row; }
      const group = kindNames.indexOf(one.kind) + 1, mark = kind.querySelector("path");
      name.firstChild.href = `encoders/${one.file ?? one.id}.html`;
      put(name.firstChild, one.id), put(count, Zoo.count(one.n_parameters)), put(error, `${Zoo.points(one.expected)}\u00a0%`), put(interval, `${Zoo.points(one.low)}-${Zoo.points(one.high)}`);
      drawn.querySelector(".interval").setAttribute("d", `M${across(one.low)},10H${across(one.high)}`), drawn.querySelector("circle").setAttribute("cx", across(one.expected)), drawn.querySelector("circle").setAttribute("class", fillOf(one));
      mark.setAttribute("class", `f${group}`), mark.setAttribute("d", `M8,8${Zoo.marks[group - 1]}`);
      put(kind.lastChild, kinds.get(one.kind)), put(use, uses[one.commercial] ?? "unknown"), put(year, one.released ?? "not published"), put(reach, others.filter(other => other.low <= one.expected).length.toLocaleString("en"));
      return row;
    }));
  }
  /* What is offered below the search field: encoders, called so first, then with the text in their id; data sets, studies; all in the table. */
  function suggest() {
    const asked = filters.q.value.trim().toLowerCase(), text = fold(asked), isFocused = filters.contains(document.activeElement);
    const link = (href, ...inside) => Zoo.element("li", {}, Zoo.element("a", { href }, ...inside)), faint = text => Zoo.element("span", {}, text);
    const rank = one => one.id.toLowerCase() === asked ? 0 : fold(one.id).startsWith(text) ? 1 : one.called?.has(text) ? 2 : fold(one.id).includes(text) ? 3 : 4;
    const named = asked ? kept.map((one, place) => [rank(one), place, one]).filter(([how]) => how < 4).sort((a, b) => a[0] - b[0] || a[1] - b[1]).slice(0, 6) : [];
    const other = (kind, pages, most) => pages.filter(([title]) => text && (` ${plain(title)}`.includes(` ${plain(asked)}`) || fold(title).startsWith(text))).slice(0, most).map(([title, href]) => link(href, title, faint(kind)));
    const encoders = named.map(([, , one]) => link(`encoders/${one.file ?? one.id}.html`, one.id, faint([one.expected == null ? "" : `${one.expected.toFixed(1)} %`, Zoo.count(one.n_parameters)].filter(Boolean).join(", "))));
    const rest = loadNames.done ? [...other("data set", NAMES.datasets, 3), ...other("study", NAMES.studies, 2)] : [];
    const whole = kept.length ? link("#encoders", kept.length === 1 ? "Show it in the table" : `Show all ${kept.length.toLocaleString("en")} in the table`) : rest.length ? null : Zoo.element("li", {}, "No encoder matches");
    whole?.setAttribute("class", "all");
    found.hidden = !asked || !isFocused;
    found.replaceChildren(...[...encoders, encoders.length ? null : whole, ...rest, encoders.length ? whole : null].filter(Boolean));
    if (kept.length) whole.firstChild.onclick = toTable;
  }
  const toTable = event => {
    event.preventDefault(); // the address holds the choices
    found.hidden = true;
    const heading = document.getElementById("encoders");
    heading.scrollIntoView();
    document.getElementById("table").focus({ preventScroll: true });
  };
  const finder = found.parentNode;
  finder.onkeydown = event => {
    const stops = [filters.q, ...found.querySelectorAll("a")], at = stops.indexOf(document.activeElement), step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape" && !found.hidden) { event.preventDefault(); filters.q.focus(); found.hidden = true; }
    if (event.key === "Enter" && event.target === filters.q) { event.preventDefault(); suggest(); (found.querySelector("a") ?? filters.q).click(); }
    if (!step || found.hidden && step < 0) return;
    event.preventDefault();
    if (found.hidden) suggest();
    stops[at + step]?.focus();
  };
  finder.onfocusout = event => { if (!finder.contains(event.relatedTarget)) found.hidden = true; };
  whole.onclick = () => { choices.all = 1; fill(), save(); };
  const controls = () => [...filters.elements, ...axes.elements].filter(control => control.name);
  function show(next) {
    choices = { ...next };
    delete choices.e;
    for (const control of controls()) {
      const value = choices[control.name] ?? defaults[control.name] ?? "";
      if (control.type === "checkbox") control.checked = !!value; else control.value = value;
      if (control.selectedIndex < 0) { control.value = defaults[control.name] ?? ""; delete choices[control.name]; } // a choice that is no more
    }
    other.open = controls().some(control => control.form === axes && control.value !== defaults[control.name]) || other.open;
    choose(list(next.e).filter(id => byId.has(id)));
    filter();
  }
  /* Shows the selection: in the boxes of the table, once these are there, and in the bar below it. */
  function choose(ids) {
    chosen = [...new Set(ids)].slice(0, most);
    for (const box of body.querySelectorAll("input")) box.checked = chosen.includes(box.value);
    bar.hidden = !chosen.length;
    const [told, link] = bar.children;
    told.textContent = `${ids.length > most ? "Not more than six: " : ""}${chosen.join(", ")}`;
    link.href = `compare.html#${new URLSearchParams({ e: chosen.join() })}`;
  }
  /* Rows as _cells() of first_page.py. */
  const row = one => {
    const cell = (text, missing) => Zoo.element("td", { class: text ? null : "missing" }, text || missing), known = one.expected != null, kind = printed.find(kind => one.reported[kind]), use = one.commercial && uses[one.commercial];
    return Zoo.element("tr", {}, Zoo.element("th", { scope: "row" }, Zoo.element("input", { type: "checkbox", value: one.id, "aria-label": `Compare ${one.id}`, checked: chosen.includes(one.id) }), Zoo.element("a", { href: `encoders/${one.file ?? one.id}.html` }, Zoo.name(one.id)), one.mine && [" ", Zoo.element("span", { class: "mine" }, "yours")]),
      cell([one.method, one.mode].filter(Boolean).join(", ").replaceAll("_", " "), one.missing.training), cell(one.network), cell(Zoo.count(one.n_parameters)), cell(`${one.dim}`),
      cell(known && Zoo.points(one.expected), "not expected"), cell(one.low != null && `${Zoo.points(one.low)}-${Zoo.points(one.high)}`, "none"), cell([one.basis, one.note].filter(Boolean).join(", "), "nothing known"),
      cell(kind && `${one.reported[kind]} ${kind}`, one.missing.reported), cell(one.licence && (use ? `${one.licence.replace("LicenseRef-", "")}: ${use}` : one.licence), one.missing.licence), cell(one.access, one.missing.access), cell(one.released, one.missing.released));
  };
  const sortedBy = (one, name) => {
    const kind = printed.findIndex(kind => one.reported[kind]);
    return { ...one, encoder: one.id.toLowerCase(), training: one.method ?? one.mode, parameters: one.n_parameters, error: one.expected, interval: one.low, basis: one.basis && fillOf(one) + one.basis, reported: kind < 0 ? null : kind * 1000 - parseFloat(one.reported[printed[kind]]) }[name] ?? null;
  };
  /* Shows the first of those that are kept, or all, in their order; what is missing comes last both ways. */
  function fill() {
    const [, name, way] = /^(.*)-(asc|desc)$/.exec(choices.order) ?? [], sign = way === "desc" ? -1 : 1, of = new Map(kept.map(one => [one, sortedBy(one, name)]));
    sorted = name ? [...kept].sort((one, other) => { const [a, b] = [of.get(one), of.get(other)]; return a === b ? 0 : a === null ? 1 : b === null ? -1 : a < b ? -sign : sign; }) : kept;
    const shown = choices.all ? sorted : sorted.slice(0, listed);
    if ([...body.rows].map(one => one.querySelector("input").value).join() !== shown.map(one => one.id).join()) body.replaceChildren(...shown.map(row));
    whole.hidden = shown.length === sorted.length;
    whole.textContent = `Show all ${sorted.length.toLocaleString("en")}`;
    showOrder(choices.order ?? "");
  }
  const showOrder = Zoo.headings(document.querySelectorAll(".encoders th[data-name]"), name => {
    choices.order = { [`${name}-asc`]: `${name}-desc`, [`${name}-desc`]: "" }[choices.order] ?? `${name}-asc`;
    fill(), save();
  });
  function changed(form) {
    for (const control of controls()) choices[control.name] = control.type === "checkbox" ? control.checked ? "1" : "" : control.value;
    if (form === axes) choices.zoom = "";
    save();
    if (form === axes) draw(); else filter();
  }
  filters.q.onfocus = loadNames;
  filters.onsubmit = axes.onsubmit = event => event.preventDefault();
  filters.oninput = event => { changed(filters); if (event.target === filters.q) suggest(); };
  more.oninput = () => changed(filters); // its controls are of the same form
  axes.oninput = () => changed(axes);
  body.onchange = event => { choose(event.target.checked ? [...chosen, event.target.value] : chosen.filter(id => id !== event.target.value)); save(); draw(); };
  bar.querySelector("button").onclick = () => { choose([]); save(); draw(); };
  document.getElementById("clear").onclick = () => { filters.reset(); choices.off = ""; changed(filters); };
  document.getElementById("download").onclick = () => {
    const fields = Object.keys(ENCODERS).filter(name => !["file", "ranked", "drawn", "reported", "elsewhere", "missing"].includes(name)), others = [...axes.score.options].map(one => one.value).filter(isOther), cell = value => Array.isArray(value) ? value.join("; ") : value;
    const heads = [...fields, ...others.map(name => `error_${name.replace(" ", "_")}`), ...printed.map(kind => `reported_${kind}`)];
    Zoo.download("encoders.csv", Zoo.csv([heads, ...sorted.map(one => [...fields.map(name => cell(one[name])), ...others.map(name => one.elsewhere[name.slice(3)]), ...printed.map(kind => one.reported[kind])])]));
  };
  Zoo.state.watch(show);
  const state = Zoo.state.read(), ticked = [...body.querySelectorAll("input:checked")].map(box => box.value);
  show({ ...state, e: [...list(state.e), ...ticked].join() }); // with what was ticked before the data were there
};
