/* --- plot: takes over a figure of drawing.py; hover, arrow keys, zoom by brushing, a legend that filters ---
 * Zoo.plot(figure, { points: [{id, label, href, x, y, group (1 to 8), low, high, fill ("full", "half" or "open"), beside, note: text or lines, range: [low, high] shown with its tooltip, at: the x it is drawn at, of Zoo.spread}], x and y: {label, kind, format, better},
 *   groups: [names], off: [groups], zoom: [x0, x1, y0, y1] or null, selected: [ids], fills: {fill: words} for a legend of fills,
 *   front: bool, the line of the points that no other one beats, but for those with beside, with names where there is room,
 *   onChange({off, zoom}) }) returns { update(changes) }; axes are as in drawing.py */
Zoo.ticks = (low, high, kind, most) => {
  const places = (step, first = Math.ceil(low / step), n = Math.floor(high / step) - first + 1) => n > most ? [] : Array.from({ length: n }, (_, place) => +((first + place) * step).toPrecision(9));
  const powers = Array.from({ length: 30 }, (_, place) => 10 ** (Math.floor(Math.log10(kind === "log" ? low : high - low)) - 2 + place));
  for (const factors of kind === "log" ? [[1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]] : []) {
    const found = powers.flatMap(power => factors.map(factor => +(factor * power).toPrecision(6))).filter(value => value >= low && value <= high);
    if (found.length > 1 && found.length <= most) return found;
  }
  return powers.flatMap(power => [power, 2 * power, 5 * power]).map(step => places(step)).find(found => found.length) ?? [];
};
Zoo.count = value => {
  const [size, letter] = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([size]) => value >= .9995 * size) ?? [1, ""];
  return +(value / size).toPrecision(letter ? 3 : 4) + letter;
};
Zoo.shown = (value, { format }) => {
  const months = Math.round(value * 12);
  return format === "percent" ? value.toFixed(1) : format === "month" ? `${Math.floor(months / 12)}-${String(months % 12 + 1).padStart(2, "0")}` : format === "count" ? Zoo.count(value) : String(+value.toPrecision(4));
};
Zoo.marks = ["m-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0z", "m-4.5,-4.5h9v9h-9z", "m0,-6l5.5,9.5h-11z", "m0,-6.2l6.2,6.2l-6.2,6.2l-6.2,-6.2z", "m0,6l5.5,-9.5h-11z",
  "m-2,-6h4v4h4v4h-4v4h-4v-4h-4v-4h4z", "m-6,-2.5l6,-3.5l6,3.5v5l-6,3.5l-6,-3.5z", "m-6,-3h12v6h-12z"];
Zoo.halves = ["m0,-5a5,5 0 0,1 0,10z", "m0,-4.5h4.5v9h-4.5z", "m0,-6l5.5,9.5h-5.5z", "m0,-6.2l6.2,6.2l-6.2,6.2z", "m0,6l5.5,-9.5h-5.5z", "m0,-6h2v4h4v4h-4v4h-2z", "m0,-6l6,3.5v5l-6,3.5z", "m0,-3h6v6h-6z"];
/* The points that no other one beats in both directions, the best x first; those with beside take no part. */
Zoo.front = (points, x, y) => {
  const [xWay, yWay] = [x, y].map(axis => axis.better === "high" ? -1 : 1);
  return points.filter(one => !one.beside).sort((a, b) => xWay * (a.x - b.x) || yWay * (a.y - b.y)).reduce((kept, one) => !kept.length || yWay * one.y < yWay * kept.at(-1).y ? [...kept, one] : kept, []);
};
/* Gives points of about the same x places side by side in a strip, as spread() of drawing.py. */
Zoo.spread = (points, { kind, format }) => {
  const strips = new Map(), strip = ({ x }) => Math.round(kind === "log" ? 30 * Math.log(x) : 12 * x);
  for (const one of [...points].sort((a, b) => a.y - b.y || (a.id < b.id ? -1 : 1))) strips.set(strip(one), [...strips.get(strip(one)) ?? [], one]);
  const ends = points.map(({ x }) => Math.log(x)), half = Math.min(Math.log(1.08), .02 * (Math.max(...ends) - Math.min(...ends)));
  for (const some of strips.values()) if (some.length > 1) some.forEach((one, place) => {
    const share = 4 * place / (1 + Math.sqrt(5)) % 2 - 1;
    one.at = kind === "log" ? one.x * Math.exp(half * share) : format === "month" ? one.x + share * .03 : one.x;
  });
};
/* Where a name may be below a mark of the front, the nearest first: how far down its foot is, how far aside its end. */
Zoo.namePlaces = [4, 14, ...Array.from({ length: 6 }, (_, step) => 24 + 12 * step)].flatMap(down => [9, 22, 40, 64].map(aside => [down, aside])).sort((a, b) => Math.hypot(...a) - Math.hypot(...b));
Zoo.plot = (figure, options) => {
  const { element } = Zoo, svg = (name, attributes, ...inside) => element(`svg:${name}`, attributes, ...inside), clamp = (value, low, high) => Math.max(low, Math.min(high, value));
  const path = (name, d) => svg("path", { class: name, d }), text = (words, x, y, anchor, name) => svg("text", { x, y, "text-anchor": anchor, class: name }, words);
  const mark = (at, group, fill, name = "") => path(`${{ half: `half f${group} s`, open: "hollow s" }[fill] ?? "f"}${group}${name}`, `M${at}${Zoo.marks[group - 1]}${fill === "half" ? `M${at}${Zoo.halves[group - 1]}` : ""}`);
  const swatch = (group, fill) => svg("svg", { class: "swatch", viewBox: "0 0 16 16", "aria-hidden": "true" }, mark("8,8", group, fill));
  const state = { points: [], groups: [], off: [], selected: [], zoom: null, ...options }, left = 48, top = 30;
  const drawing = svg("svg", { tabindex: 0, role: "application", "aria-roledescription": "plot", "aria-label": `${figure.querySelector("svg")?.getAttribute("aria-label") ?? ""} Arrow keys visit points, Enter opens one, plus and minus zoom, 0 shows all.` });
  const button = (act, attributes, ...inside) => { const made = element("button", { type: "button", ...attributes }, ...inside); made.onclick = act; return made; };
  const tip = element("div", { class: "tip", hidden: true }), told = element("output", { class: "sr" }), legend = element("ul", { class: "legend" }), fills = element("ul", { class: "legend fills" }), box = element("div", { class: "plot-box" }, drawing, tip);
  const reset = button(() => zoom(null), {}, "Reset zoom"), tools = element("div", { class: "plot-tools" }, button(() => zoomBy(.6), { "aria-label": "Zoom in" }, "+"), button(() => zoomBy(1.6), { "aria-label": "Zoom out" }, "−"), reset);
  figure.replaceChildren(legend, fills, box, tools, told);
  let current, drawn, across, up, right, floor, brush, front = [], width = box.clientWidth;

  const scaled = (values, ends, start, end, kind, room = 0) => {
    const [to, from] = kind === "log" ? [Math.log, Math.exp] : [Number, Number], known = values.length ? values.map(to) : [0, 1];
    let [low, high] = ends?.map(to) ?? [Math.min(...known), Math.max(...known)];
    if (!ends) { const margin = (high - low) * .04 || Math.abs(low) * .04 || 1; low -= margin + room * (high - low); high += margin; }
    const back = place => from(low + (place - start) / (end - start) * (high - low));
    return Object.assign(value => start + (to(value) - low) / (high - low) * (end - start), { low: from(low), high: from(high), back });
  };
  function draw() {
    const { x, y, points, off, zoom: ends, selected } = state, known = points.filter(one => !off.includes(one.group)), marks = svg("g", { class: points.length > 300 ? "marks crowded" : "marks" }), labels = [];
    right = width - 14; floor = (width < 600 ? Math.min(width * 1.1, 420) : Math.min(width * .53, 520)) - 42;
    drawing.setAttribute("viewBox", `0 0 ${width} ${floor + 42}`);
    front = state.front ? Zoo.front(known, x, y) : [];
    across = scaled(known.flatMap(one => [one.x, one.at ?? one.x]), ends?.slice(0, 2), left, right, x.kind, front.length && x.better !== "high" ? .06 : 0);
    up = scaled(known.flatMap(one => [one.y, one.low ?? one.y, one.high ?? one.y]), ends?.slice(2), floor, top, y.kind, front.length ? .12 : 0);
    drawn = known.filter(one => atX(one) >= across.low && atX(one) <= across.high && one.y >= up.low && one.y <= up.high).sort((a, b) => a.x - b.x || a.y - b.y);
    const name = ({ label, better }) => label + (better ? `, ${better}er is better` : "");
    const parts = [path("axis", `M${left},${top}V${floor}H${right}`), text(name(y), 2, 14, "start", "name"), text(name(x), right, floor + 36, "end", "name")];
    for (const [axis, scale] of [[x, across], [y, up]]) for (const value of Zoo.ticks(scale.low, scale.high, axis.kind, width < 600 ? 5 : 7)) {
      const isMonth = axis.format === "month", at = scale(value), words = isMonth || Math.abs(value) < 1e4 ? value : Zoo.count(value);
      if (isMonth && value % 1) continue;
      if (axis === x) parts.push(path("grid", `M${at},${top}V${floor}`), text(words, at, floor + 18, "middle"));
      else parts.push(path("grid", `M${left},${at}H${right}`), text(words, left - 6, at + 4, "end"));
    }
    const level = one => front.includes(one) ? 3 : ["open", "half", "full"].indexOf(one.fill ?? "full");
    if (front.length) parts.push(path("front", front.map((one, n) => n ? `H${place(one)[0]}V${place(one)[1]}` : `M${place(one)}`).join("")));
    for (const one of [...drawn].sort((a, b) => level(a) - level(b))) {
      const at = [across(atX(one)), up(one.y)], chosen = selected.includes(one.id), side = at[0] > width * .7;
      if (one.low != null && one.high != null) marks.append(path(`interval s${one.group}`, `M${at[0]},${clamp(up(one.low), top, floor)}V${clamp(up(one.high), top, floor)}`));
      marks.append(mark(at, one.group, one.fill, (front.includes(one) ? " first" : "") + (chosen ? " selected" : "")));
      if (chosen) labels.push(text(one.label, at[0] + (side ? -9 : 9), at[1] - 7, side ? "end" : "start", "chosen"));
    }
    drawing.replaceChildren(...parts, marks, ...namesOf(front.filter(one => drawn.includes(one) && !selected.includes(one.id))), ...labels, ...drawn.length ? [] : [text("No encoder to show", width / 2, floor / 2, "middle")]);
    const groups = [...new Set(points.map(one => one.group))].sort();
    legend.replaceChildren(...groups.length < 2 ? [] : groups.map(group => element("li", {}, button(() => {
      state.off = off.includes(group) ? off.filter(one => one !== group) : [...off, group];
      changed();
      legend.querySelector(`[data-group="${group}"]`).focus();
    }, { "aria-pressed": String(!off.includes(group)), "data-group": group },
    swatch(group), `${state.groups[group - 1]} (${points.filter(one => one.group === group).length})`))));
    fills.replaceChildren(...Object.entries(state.fills ?? {}).map(([fill, words]) => element("li", {}, swatch(1, fill), words)));
    reset.disabled = !ends;
    show(drawn.find(one => one.id === current?.id));
  }
  const place = ({ x, y }) => [clamp(across(x), left, right), clamp(up(y), top, floor)], atX = one => front.includes(one) ? one.x : one.at ?? one.x;
  /* Names of the front below it, where no ranked mark is, with lines to those that stand apart; the best first, as _names() of drawing.py. */
  function namesOf(front) {
    const side = state.x.better === "high" ? 1 : -1, taken = front.slice(1).flatMap((one, n) => { const [x0, y0] = place(front[n]), [x, y] = place(one); return [[Math.min(x0, x), y0, Math.max(x0, x), y0], [x, y0, x, y]]; }), marks = new Map(front.map(one => [one, place(one)]).map(([one, [x, y]]) => [one, [x - 6, y - 6, x + 6, y + 6]])), letter = width < 600 ? 5.9 : 6.6;
    const meet = (a, b) => a[0] <= b[2] && b[0] <= a[2] && a[1] <= b[3] && b[1] <= a[3];
    return front.reverse().flatMap(one => {
      const [x, y] = place(one), others = [...front.filter(other => other !== one).map(other => marks.get(other)), ...taken];
      for (const [down, aside] of Zoo.namePlaces) {
        const end = x + aside * side, foot = y + down, start = end + letter * one.label.length * side, box = [Math.min(start, end), foot - 11, Math.max(start, end), foot + 3], isFar = down > 14 || aside > 9;
        const line = isFar ? Array.from({ length: 16 }, (_, part) => [end + (x - end) * part / 16, foot - 4 + (y + 8 - foot) * part / 16]).map(([x, y]) => [x - 2, y - 2, x + 2, y + 2]) : [], boxes = [box, ...line];
        if (isFar && width < 600 || box[0] < left + 2 || box[2] > right || box[3] > floor - 1 || boxes.some(one => others.some(other => meet(one, other)))) continue;
        taken.push(...boxes);
        return [isFar && path("leader", `M${end - 2 * side},${foot - 4}L${x + 4 * side},${y + 5}`), text(one.label, end, foot, side < 0 ? "end" : "start", "top")].filter(Boolean);
      }
      return [];
    });
  }
  const changed = () => { draw(); state.onChange?.({ off: state.off, zoom: state.zoom }); };
  const zoom = ends => { state.zoom = ends && ends.map(value => +value.toPrecision(5)); changed(); };
  const zoomBy = factor => {
    const [x, y] = current ? [across(atX(current)), up(current.y)] : [(left + right) / 2, (top + floor) / 2], ends = (scale, at, ...places) => places.map(place => scale.back(at + (place - at) * factor));
    zoom([...ends(across, x, left, right), ...ends(up, y, floor, top)]);
  };
  /* Shows what a point is, or hides the tooltip; aloud: to a screen reader too. */
  function show(one, aloud) {
    current = one;
    tip.hidden = !one;
    for (const mark of drawing.querySelectorAll(".now")) mark.remove();
    if (!one) return;
    const x = across(atX(one)), y = up(one.y), range = one.low != null && one.high != null ? ` (${Zoo.shown(one.low, state.y)} to ${Zoo.shown(one.high, state.y)})` : "";
    const lines = [`${state.y.label}: ${Zoo.shown(one.y, state.y)}${range}`, `${state.x.label}: ${Zoo.shown(one.x, state.x)}`, state.groups[one.group - 1], one.note].flat().filter(Boolean);
    tip.replaceChildren(element("strong", {}, one.label), ...lines.map(line => element("div", {}, line)));
    if (one.range) drawing.append(path("now", `M${x},${clamp(up(one.range[0]), top, floor)}V${clamp(up(one.range[1]), top, floor)}`));
    drawing.append(svg("circle", { class: "now", cx: x, cy: y, r: 7 }));
    tip.style.left = `${clamp(x + 12, 0, width - tip.offsetWidth - 4)}px`;
    tip.style.top = `${y > floor / 2 ? y - tip.offsetHeight - 12 : y + 14}px`;
    if (aloud) told.textContent = [one.label, ...lines].join(", ");
  }
  const open = one => { location.href = one.href; };
  const pointed = event => { const area = drawing.getBoundingClientRect(); return [event.clientX - area.left, event.clientY - area.top].map(at => at * width / area.width); };
  const nearest = ([x, y]) => {
    const away = one => Math.hypot(across(atX(one)) - x, up(one.y) - y);
    return drawn.reduce((best, one) => away(one) < (best ? away(best) : 26) ? one : best, undefined);
  };
  const stop = () => { brush?.mark?.remove(); brush = null; };
  const heard = {
    pointerdown(event) {
      if (event.button) return;
      brush = { from: pointed(event), was: current };
      if (event.pointerType !== "touch") drawing.setPointerCapture(event.pointerId); // a finger scrolls the page
    },
    pointermove(event) {
      const at = pointed(event);
      if (!brush || event.pointerType === "touch") return show(nearest(at));
      const [x, y] = [[left, right], [top, floor]].map((ends, side) => [brush.from[side], at[side]].map(value => clamp(value, ...ends)).sort((a, b) => a - b));
      if (!brush.mark && x[1] - x[0] + y[1] - y[0] < 8) return;
      show();
      brush.mark?.remove();
      Object.assign(brush, { x, y, mark: path("brush", `M${x[0]},${y[0]}H${x[1]}V${y[1]}H${x[0]}z`) });
      drawing.append(brush.mark);
    },
    pointerup(event) {
      const ended = brush, one = nearest(pointed(event));
      stop();
      if (!ended?.mark) ended && one && (event.pointerType !== "touch" || one === ended.was) ? open(one) : show(one);
      else if (ended.x[1] - ended.x[0] > 8 && ended.y[1] - ended.y[0] > 8) zoom([...ended.x.map(across.back), ...ended.y.map(up.back).reverse()]);
    },
    pointercancel: stop, pointerleave() { if (!brush) show(); }, blur() { show(); },
    keydown(event) {
      const { key } = event, [axis, step] = { ArrowRight: ["x", 1], ArrowLeft: ["x", -1], ArrowUp: ["y", 1], ArrowDown: ["y", -1] }[key] ?? [], order = axis === "y" ? [...drawn].sort((a, b) => a.y - b.y) : drawn;
      const acts = { Enter() { if (current) open(current); }, "+"() { zoomBy(.6); }, "-"() { zoomBy(1.6); }, 0() { zoom(null); }, Escape() { stop(); show(); }, Home() { show(drawn[0], true); }, End() { show(drawn.at(-1), true); } };
      if (event.ctrlKey || event.metaKey || event.altKey || !step && !Object.hasOwn(acts, key)) return;
      event.preventDefault();
      if (step) show(order[current ? clamp(order.indexOf(current) + step, 0, order.length - 1) : 0], true); else acts[key]();
    },
  };
  for (const [name, act] of Object.entries(heard)) drawing.addEventListener(name, act);
  new ResizeObserver(() => { if (Math.abs(box.clientWidth - width) > 1) { width = box.clientWidth; draw(); } }).observe(box);
  draw();
  return { update(changes) { Object.assign(state, changes); draw(); } };
};
