/* --- compare.html: other encoders than the page came with, by the rules of compare_page.py --- */
Zoo.pages.compare = () => {
  const { id: ids, scale: [left, right], sections } = FACTS, { element } = Zoo, find = name => document.getElementById(name);
  const table = find("compared"), said = find("said"), figure = find("curves"), drawn = find("drawn").content, own = FACTS.own, words = said.textContent, MOST = 6;
  const lines = FACTS.lines.map(([label, meaning, unit, section, best, colour, measured, texts, values, missing, out, reach, runs]) => {
    const at = runs.flatMap((cell, n) => n % 2 ? [] : Array(runs[n + 1]).fill(cell));
    const cells = texts.map((text, n) => ({ text, value: values ? values[n] : null, missing: missing.includes(n), contends: values && values[n] != null && !out.includes(n), reach: reach && reach[n] }));
    return { label, meaning, unit, section, best, colour, measured, of: place => cells[at[place]] };
  });
  let chosen = [], everything = false, problem = "", sheet = [];

  const note = text => text && [" ", element("span", { class: "note" }, text)];
  const isShown = ({ measured }, cells) => measured > 1 ? cells.filter(cell => !cell.missing).length > 1 : measured ? cells.some(cell => !cell.missing) : everything || cells.some(cell => !cell.missing) && new Set(cells.map(cell => cell.text)).size > 1;
  function bestOf({ best }, cells) {
    const known = best ? cells.filter(cell => cell.contends) : [], sign = best === "lowest" ? 1 : -1;
    const top = known.reduce((a, b) => a && sign * b.value >= sign * a.value ? a : b, null);
    const first = known.filter(({ text, reach }) => text === top.text || (reach && top.reach && reach[0] <= top.reach[1] && top.reach[0] <= reach[1]));
    return first.length === known.length ? [] : [first, best + (first.length > 1 ? ", tied" : "")];
  }
  function difference(line, first, cell, place) {
    if (!place || !line.measured || !first.contends || !cell.contends) return "";
    const text = (cell.value - first.value).toFixed(1).replace("-0.0", "0.0");
    return `(${/^(-|0\.0)/.test(text) ? "" : "+"}${text})`;
  }
  /* A bar of the page with another end. */
  function bar(colour, value) {
    const at = one => (Math.min(Math.max(one, left), right) - left) / (right - left) * 100;
    const made = drawn.querySelector(`[data-bar="${colour}${value > right ? "-cut" : ""}"] svg`).cloneNode(true), rect = made.querySelector("rect");
    rect.setAttribute("x", `${Math.min(at(0), at(value)).toFixed(2)}%`);
    rect.setAttribute("width", `${Math.abs(at(value) - at(0)).toFixed(2)}%`);
    return made;
  }
  const swatch = number => drawn.querySelectorAll(".mark svg")[number].cloneNode(true);
  function head(place, number) {
    const remove = element("button", { type: "button", "aria-label": `Remove ${ids[place]}` }, "×");
    remove.onclick = () => { chosen = chosen.filter(one => one !== place); changed(""); find("add").focus(); };
    return element("th", { scope: "col" }, swatch(number), element("a", { href: `encoders/${FACTS.file[place] ?? ids[place]}.html` }, Zoo.name(ids[place])),
      FACTS.mine.includes(place) && [" ", element("span", { class: "mine" }, "yours")], " ", remove);
  }
  function row(line, cells) {
    const [first, mark] = bestOf(line, cells), { label, meaning, unit, colour } = line;
    sheet.push([sections[line.section][0], label, meaning, unit, ...cells.map(cell => line.measured && cell.contends ? cell.value : cell.text)]);
    return element("tr", {}, element("th", { scope: "row" }, label, note(unit && `(${unit})`), meaning && [element("br"), note(meaning)[1]]), cells.map((cell, place) =>
      element("td", { class: cell.missing && "missing" }, /^https:\/\/\S*$/.test(cell.text) ? element("a", { href: cell.text }, cell.text) : cell.text, note(difference(line, cells[0], cell, place)),
        first?.includes(cell) && [" ", element("span", { class: "best" }, mark)], colour && cell.value != null && bar(colour, cell.value))));
  }
  function draw() {
    sheet = [["section", "fact", "meaning", "unit", ...chosen.map(place => ids[place])]];
    table.tHead.replaceChildren(element("tr", {}, element("td"), chosen.map(head)));
    for (const old of [...table.tBodies]) old.remove();
    sections.forEach(([title, words], section) => {
      const rows = lines.filter(line => line.section === section).map(line => [line, chosen.map(line.of)]).filter(one => isShown(...one)).map(one => row(...one));
      if (chosen.length && rows.length) table.append(element("tbody", {}, element("tr", { class: "section" }, element("th", { scope: "rowgroup", colspan: chosen.length + 1 }, element("span", {}, title, note(words)))), rows));
    });
    const curves = chosen.map(place => FACTS.curves[place] ?? []);
    table.parentElement.hidden = !chosen.length;
    figure.hidden = !curves.flat().length;
    /* Names from the top down, none over another, as _spread_names(). */
    const heights = [];
    curves.map((at, number) => [at.length && +at.at(-1).split(",")[1], number]).filter(([height]) => height).sort((a, b) => a[0] - b[0]).reduce((last, [height, number]) => heights[number] = Math.max(height, last + 17), -Infinity);
    figure.querySelectorAll(".curve").forEach(({ children: [line, marks, name], dataset }, number) => {
      const at = curves[number] ?? [];
      name.textContent = at.length ? ids[chosen[number]] : "";
      name.setAttribute("x", 636), name.setAttribute("y", (heights[number] ?? 0) + 4);
      line.setAttribute("d", at.length ? `M${at.join("L")}` : "");
      marks.setAttribute("d", at.map(one => `M${one}${dataset.mark}`).join(""));
    });
    figure.querySelector("ul").replaceChildren(...chosen.map((place, number) => element("li", { class: !curves[number].length && "undrawn" }, swatch(number), ids[place], curves[number].length ? "" : " (not drawn)")));
    said.textContent = problem || (String(chosen) === String(own) ? words : chosen.length ? "" : "No encoder is chosen.");
    find("everything").checked = everything;
  }
  function changed(sentence) {
    problem = sentence;
    Zoo.state.write({ e: String(chosen) === String(own) ? "" : chosen.map(place => ids[place]).join() || "none", all: everything ? 1 : "" });
    draw();
  }
  function read({ e, all }) {
    const asked = e && e !== "none" ? [...new Set(e.split(","))] : [], place = id => [id, id.replaceAll(" ", "+")].map(one => ids.indexOf(one)).find(one => one >= 0);
    const unknown = asked.filter(id => place(id) == null), found = asked.map(place).filter(one => one != null);
    everything = all === "1";
    chosen = e ? found.slice(0, MOST) : own;
    problem = (unknown.length ? `No encoder here has the id ${unknown.join(", ")}. ` : "") + (found.length > MOST ? `Of the ${found.length} that were asked for these are the first ${MOST}.` : "");
    draw();
  }
  find("ids").append(...ids.map(value => element("option", { value })));
  find("choice").onsubmit = event => {
    event.preventDefault();
    const input = find("add"), text = input.value.trim().toLowerCase(), place = ids.findIndex(one => one.toLowerCase() === text);
    const refusal = place < 0 ? `No encoder here has the id ${text}.` : chosen.includes(place) ? `${ids[place]} is there already.` : chosen.length === MOST ? `There is room for ${MOST} encoders: remove one first.` : "";
    if (!refusal) { chosen = [...chosen, place]; input.value = ""; }
    if (text) changed(refusal);
  };
  find("everything").onchange = event => { everything = event.target.checked; changed(""); };
  find("csv").onclick = () => Zoo.download("comparison.csv", Zoo.csv(sheet));
  Zoo.state.watch(read);
  read(Zoo.state.read());
};
