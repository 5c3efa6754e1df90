/* --- compare.html: the table and the curves of other encoders than the page came with; rules as in compare_page.py --- */
Zoo.pages.compare = () => {
  const MOST = 6, find = name => document.getElementById(name), table = find("compared"), drawn = find("drawn").content;
  const places = new Map(FACTS.id.map((id, place) => [id, place])), [left, right] = FACTS.scale;
  const lines = FACTS.lines.map(([name, label, meaning, unit, section, best, colour, texts, values, missing, out, runs]) => {
    const at = [];
    for (let i = 0; i < runs.length; i += 2) for (let n = 0; n < runs[i + 1]; n++) at.push(runs[i]);
    return { name, label, meaning, unit, section, best, colour, of: place => {
      const one = at[place];
      return { text: texts[one], value: values ? values[one] : null, missing: missing.includes(one), contends: !out.includes(one) };
    } };
  });
  const own = [...table.tHead.querySelectorAll("th a")].map(link => places.get(link.textContent)), words = find("said").textContent;
  let chosen = [], everything = false, problem = "", sheet = [];

  const note = text => Zoo.element("span", { class: "note" }, text);
  const points = value => { const text = value.toFixed(1); return text === "-0.0" ? "0.0" : text; };
  const measured = line => line.best && FACTS.sections[line.section][2];
  const isShown = (line, cells) => measured(line) ? cells.some(cell => !cell.missing) : new Set(cells.map(cell => cell.text)).size > 1 || (everything && line.name !== "result_errata");
  function bestOf(line, cells) {
    const known = cells.filter(cell => line.best && cell.value != null && cell.contends);
    if (new Set(known.map(cell => cell.text)).size < 2) return [];
    const sign = line.best === "lowest" ? 1 : -1, { text } = known.reduce((a, b) => sign * b.value < sign * a.value ? b : a);
    const mark = line.best + (known.filter(cell => cell.text === text).length > 1 ? ", tied" : "");
    return cells.map(cell => known.includes(cell) && cell.text === text ? mark : "");
  }
  const difference = (line, first, cell) => {
    if (first === cell || !measured(line) || [first, cell].some(one => one.value == null || !one.contends)) return null;
    const text = points(cell.value - first.value);
    return /^(-|0\.0)/.test(text) ? text : "+" + text;
  };
  /* A bar is one of the page's own with another end. */
  function bar(colour, value) {
    const place = one => (Math.min(Math.max(one, left), right) - left) / (right - left) * 100, zero = place(0), end = place(value);
    const made = drawn.querySelector(`[data-bar="${colour}${value > right ? "-cut" : ""}"] svg`).cloneNode(true), rect = made.querySelector("rect");
    rect.setAttribute("x", `${Math.min(zero, end).toFixed(2)}%`); rect.setAttribute("width", `${Math.abs(end - zero).toFixed(2)}%`);
    return made;
  }
  const swatch = place => drawn.querySelectorAll(".mark svg")[place].cloneNode(true);
  const page = place => `encoders/${FACTS.file[place] ?? FACTS.id[place]}.html`;

  function head() {
    return Zoo.element("tr", {}, Zoo.element("td"), chosen.map((place, number) => {
      const remove = Zoo.element("button", { type: "button", "aria-label": `Remove ${FACTS.id[place]}` }, "\u00d7");
      remove.onclick = () => { chosen = chosen.filter(one => one !== place); problem = ""; changed(); find("add").focus(); };
      return Zoo.element("th", { scope: "col" }, swatch(number), Zoo.element("a", { href: page(place) }, FACTS.id[place]),
        FACTS.mine.includes(place) ? [" ", Zoo.element("span", { class: "mine" }, "mine")] : null, " ", remove);
    }));
  }
  function body(section, number) {
    const [title, words] = section, rows = [];
    for (const line of lines) {
      if (line.section !== number) continue;
      const cells = chosen.map(line.of), best = bestOf(line, cells);
      if (!chosen.length || !isShown(line, cells)) continue;
      const heading = Zoo.element("th", { scope: "row" }, line.label, line.unit ? [" ", note(`(${line.unit})`)] : null, Zoo.element("br"), note(line.meaning));
      sheet.push([title, line.name, line.meaning, line.unit, ...cells.map(cell => cell.text)]);
      rows.push(Zoo.element("tr", {}, heading, cells.map((cell, place) => {
        const less = difference(line, cells[0], cell), isLink = cell.text.startsWith("https://") && !cell.text.includes(" ");
        return Zoo.element("td", { class: cell.missing ? "missing" : null }, isLink ? Zoo.element("a", { href: cell.text }, cell.text) : cell.text,
          less ? [" ", note(`(${less})`)] : null, best[place] ? [" ", Zoo.element("span", { class: "best" }, best[place])] : null,
          line.colour && cell.value != null ? bar(line.colour, cell.value) : null);
      })));
    }
    if (!rows.length) return null;
    const heading = Zoo.element("th", { scope: "rowgroup", colspan: chosen.length + 1 }, title, words ? [" ", note(words)] : null);
    return Zoo.element("tbody", {}, Zoo.element("tr", { class: "section" }, heading), rows);
  }
  function draw() {
    sheet = [["section", "fact", "meaning", "unit", ...chosen.map(place => FACTS.id[place])]];
    table.tHead.replaceChildren(head());
    for (const old of [...table.tBodies]) old.remove();
    table.append(...FACTS.sections.map(body).filter(one => one));
    table.parentElement.hidden = !chosen.length;
    const figure = find("curves"), curves = chosen.map(place => FACTS.curves[place] ?? []);
    figure.hidden = !curves.some(one => one.length);
    figure.querySelectorAll(".curve").forEach((group, number) => {
      const [line, marks] = group.children, at = curves[number] ?? [];
      line.setAttribute("d", at.length ? `M${at.join("L")}` : ""); marks.setAttribute("d", at.map(one => `M${one}${group.dataset.mark}`).join(""));
    });
    figure.querySelector(".legend").replaceChildren(...chosen.map((place, number) => Zoo.element("li", {}, swatch(number), FACTS.id[place], curves[number].length ? null : " (not measured)")));
    const isOwn = chosen.join() === own.join();
    find("said").textContent = [problem, isOwn ? words : chosen.length ? "" : "Nothing is chosen."].filter(one => one).join(" ");
    find("everything").checked = everything;
  }
  /* "none" is in the address when the visitor removed all. */
  const changed = () => {
    const same = chosen.join() === own.join();
    Zoo.state.write({ e: same ? "" : chosen.map(place => FACTS.id[place]).join() || "none", all: everything ? 1 : "" });
    draw();
  };
  function read({ e, all }) {
    everything = all === "1"; problem = "";
    const asked = [...new Set((e || "").split(",").map(one => one.trim()).filter(one => one && one !== "none"))];
    const known = asked.map(one => places.get(one) ?? places.get(one.replaceAll(" ", "+"))), unknown = asked.filter((_, number) => known[number] == null);
    const found = known.filter(one => one != null);
    chosen = e ? found.slice(0, MOST) : own;
    if (unknown.length) problem = `No encoder of this site has the id ${unknown.join(", ")}.`;
    if (found.length > MOST) problem += ` ${found.length} were asked for; these are the first ${MOST}.`;
    draw();
  }

  find("ids").append(...FACTS.id.map(value => Zoo.element("option", { value })));
  find("choice").addEventListener("submit", event => {
    event.preventDefault();
    const input = find("add"), text = input.value.trim(), near = FACTS.id.filter(id => id.toLowerCase().includes(text.toLowerCase()));
    const place = places.get(text) ?? places.get(near.find(id => id.toLowerCase() === text.toLowerCase()) ?? (near.length === 1 ? near[0] : null));
    problem = "";
    if (!text) return;
    if (place == null) problem = near.length ? `${near.length} ids hold \u201c${text}\u201d: choose one of them.` : `No encoder of this site has the id ${text}.`;
    else if (chosen.includes(place)) problem = `${FACTS.id[place]} is there already.`;
    else if (chosen.length === MOST) problem = `There is room for ${MOST} encoders: remove one first.`;
    else { chosen = [...chosen, place]; input.value = ""; }
    changed();
  });
  find("everything").addEventListener("change", event => { everything = event.target.checked; changed(); });
  find("csv").addEventListener("click", () => Zoo.download("comparison.csv", Zoo.csv(sheet)));
  Zoo.state.watch(read);
  read(Zoo.state.read());
};
