/* --- compare.html: other encoders than the page came with, by the rules of compare_page.py --- */
Zoo.pages.compare = () => {
  const MOST = 6, { element } = Zoo, ids = FACTS.id, find = name => document.getElementById(name), table = find("compared"), said = find("said"), figure = find("curves");
  const drawn = find("drawn").content, places = new Map(ids.map((id, place) => [id, place])), own = [...table.querySelectorAll("thead a")].map(link => places.get(link.textContent)), words = said.textContent;
  const lines = FACTS.lines.map(([name, label, meaning, unit, section, best, colour, measured, texts, values, missing, out, reach, runs]) => {
    const at = [];
    for (let i = 0; i < runs.length; i += 2) for (let n = runs[i + 1]; n; n--) at.push(runs[i]);
    const cells = texts.map((text, n) => ({ text, value: values ? values[n] : null, missing: missing.includes(n), contends: values && values[n] != null && !out.includes(n), reach: reach && reach[n] }));
    return { name, label, meaning, unit, section, best, colour, measured, of: place => cells[at[place]] };
  });
  let chosen = [], everything = false, problem = "", sheet = [];

  const note = text => text ? [" ", element("span", { class: "note" }, text)] : null;
  const isShown = (line, cells) => line.measured ? cells.some(cell => !cell.missing) : everything || new Set(cells.map(cell => cell.text)).size > 1;
  function bestOf({ best }, cells) {
    const known = best ? cells.filter(cell => cell.contends) : [], sign = best === "lowest" ? 1 : -1;
    const top = known.reduce((a, b) => a && sign * b.value >= sign * a.value ? a : b, null);
    const first = known.filter(({ text, reach }) => text === top.text || (reach && top.reach && reach[0] <= top.reach[1] && top.reach[0] <= reach[1]));
    return first.length === known.length ? {} : { first, mark: best + (first.length > 1 ? ", tied" : "") };
  }
  function difference(line, first, cell, place) {
    if (!place || !line.measured || !first.contends || !cell.contends) return "";
    const text = (cell.value - first.value).toFixed(1).replace("-0.0", "0.0");
    return `(${/^(-|0\.0)/.test(text) ? "" : "+"}${text})`;
  }
  /* A bar of the page with another end. */
  function bar(colour, value) {
    const [left, right] = FACTS.scale, at = one => (Math.min(Math.max(one, left), right) - left) / (right - left) * 100;
    const made = drawn.querySelector(`[data-bar="${colour}${value > right ? "-cut" : ""}"] svg`).cloneNode(true), rect = made.querySelector("rect");
    rect.setAttribute("x", `${Math.min(at(0), at(value)).toFixed(2)}%`);
    rect.setAttribute("width", `${Math.abs(at(value) - at(0)).toFixed(2)}%`);
    return made;
  }
  const swatch = number => drawn.querySelectorAll(".mark svg")[number].cloneNode(true);
  function head(place, number) {
    const id = ids[place], remove = element("button", { type: "button", "aria-label": `Remove ${id}` }, "×");
    remove.onclick = () => { chosen = chosen.filter(one => one !== place); changed(""); find("add").focus(); };
    const link = element("a", { href: `encoders/${FACTS.file[place] ?? id}.html` }, id);
    return element("th", { scope: "col" }, swatch(number), link, FACTS.mine.includes(place) ? [" ", element("span", { class: "mine" }, "yours")] : null, " ", remove);
  }
  function row(line, cells) {
    const best = bestOf(line, cells);
    sheet.push([FACTS.sections[line.section][0], line.name, line.meaning, line.unit, ...cells.map(cell => line.measured && cell.contends ? cell.value : cell.text)]);
    return element("tr", {}, element("th", { scope: "row" }, line.label, note(line.unit && `(${line.unit})`), line.meaning ? [element("br"), note(line.meaning)[1]] : null), cells.map((cell, place) => {
      const isLink = /^https:\/\/\S*$/.test(cell.text), isBest = best.first?.includes(cell);
      return element("td", { class: cell.missing && "missing" }, isLink ? element("a", { href: cell.text }, cell.text) : cell.text, note(difference(line, cells[0], cell, place)),
        isBest ? [" ", element("span", { class: "best" }, best.mark)] : null, line.colour && cell.value != null ? bar(line.colour, cell.value) : null);
    }));
  }
  function draw() {
    sheet = [["section", "fact", "meaning", "unit", ...chosen.map(place => ids[place])]];
    table.tHead.replaceChildren(element("tr", {}, element("td"), chosen.map(head)));
    for (const old of [...table.tBodies]) old.remove();
    FACTS.sections.forEach(([title, words], section) => {
      const shown = lines.filter(line => line.section === section).map(line => [line, chosen.map(line.of)]).filter(([line, cells]) => chosen.length && isShown(line, cells));
      const heading = element("th", { scope: "rowgroup", colspan: chosen.length + 1 }, title, note(words));
      if (shown.length) table.append(element("tbody", {}, element("tr", { class: "section" }, heading), shown.map(([line, cells]) => row(line, cells))));
    });
    const curves = chosen.map(place => FACTS.curves[place] ?? []);
    table.parentElement.hidden = !chosen.length;
    figure.hidden = !curves.flat().length;
    figure.querySelectorAll(".curve").forEach((group, number) => {
      const [line, marks] = group.children, at = curves[number] ?? [];
      line.setAttribute("d", at.length ? `M${at.join("L")}` : "");
      marks.setAttribute("d", at.map(one => `M${one}${group.dataset.mark}`).join(""));
    });
    figure.querySelector("ul").replaceChildren(...chosen.map((place, number) => element("li", {}, swatch(number), ids[place], curves[number].length ? "" : " (not drawn)")));
    said.textContent = problem || (String(chosen) === String(own) ? words : chosen.length ? "" : "No encoder is chosen.");
    find("everything").checked = everything;
  }
  function changed(sentence) {
    problem = sentence;
    Zoo.state.write({ e: String(chosen) === String(own) ? "" : chosen.map(place => ids[place]).join() || "none", all: everything ? 1 : "" });
    draw();
  }
  function read({ e, all }) {
    const asked = [...new Set((e || "").split(",").map(one => one.trim()))].filter(one => one && one !== "none"), known = asked.map(one => places.get(one) ?? places.get(one.replaceAll(" ", "+")));
    const unknown = asked.filter((_, number) => known[number] == null), found = known.filter(one => one != null);
    everything = all === "1";
    chosen = e ? found.slice(0, MOST) : own;
    problem = (unknown.length ? `No encoder here has the id ${unknown.join(", ")}. ` : "") + (found.length > MOST ? `Of the ${found.length} that were asked for these are the first ${MOST}.` : "");
    draw();
  }
  find("ids").append(...ids.map(value => element("option", { value })));
  find("choice").addEventListener("submit", event => {
    event.preventDefault();
    const input = find("add"), text = input.value.trim().toLowerCase(), place = ids.findIndex(one => one.toLowerCase() === text);
    const refusal = place < 0 ? `No encoder here has the id ${text}.` : chosen.includes(place) ? `${ids[place]} is there already.` : chosen.length === MOST ? `There is room for ${MOST} encoders: remove one first.` : "";
    if (!refusal) { chosen = [...chosen, place]; input.value = ""; }
    if (text) changed(refusal);
  });
  find("everything").addEventListener("change", event => { everything = event.target.checked; changed(""); });
  find("csv").addEventListener("click", () => Zoo.download("comparison.csv", Zoo.csv(sheet)));
  Zoo.state.watch(read);
  read(Zoo.state.read());
};
