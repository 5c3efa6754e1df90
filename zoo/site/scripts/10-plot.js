/* --- plot: takes over a figure that scatter.py drew; hover, arrow keys, zoom by brushing, a legend that filters ---
 * Zoo.plot(figure, {
 *   points: [{id, label, href, x, y, group (1 to 8), low, high, hollow, note}],   low and high: interval of y; note: a further line of the tooltip
 *   x, y: {label, kind: "linear"|"log", format: "count"|"percent"|"number"|"month", better: "low"|"high"|""},
 *   groups: [name of group 1, ...], off: [groups that are hidden], zoom: [x0, x1, y0, y1] or null, selected: [ids],
 *   front: true draws the line of points that no other one beats; onHover(point or null), onPick(point), onChange({off, zoom}) })
 * returns {update(changes), state}. */
Zoo.ticks = (low, high, kind, most = 6) => {
  if (kind === "log") {
    const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
    for (const factors of [[1, 2, 5], [1, 3], [1]]) {
      const found = [];
      for (let power = from; power <= to; power++) for (const factor of factors) found.push(factor * 10 ** power);
      const inside = found.filter(value => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
      if (inside.length <= most && (inside.length > 1 || factors.length > 2)) return inside;
    }
    if (high / low > 10) return [0, 1, 2, 3, 4, 5].map(step => 10 ** (from + Math.ceil((to - from) * step / 5)));
  }
  for (let power = 10 ** (Math.floor(Math.log10(high - low)) - 2); ; power *= 10) for (const factor of [1, 2, 5]) {
    const step = factor * power, first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
    if (last - first < most) return Array.from({ length: last - first + 1 }, (_, place) => +((first + place) * step).toPrecision(12));
  }
};
Zoo.count = value => {
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (value >= .9995 * size) return +(value / size).toPrecision(3) + letter;
  return String(+value.toPrecision(4));
};
Zoo.shown = (value, axis) => {
  if (axis.format === "percent") return (Math.round(value * 10) / 10 + 0).toFixed(1);
  if (axis.format === "month") { const months = Math.round(value * 12); return `${Math.floor(months / 12)}-${String(months % 12 + 1).padStart(2, "0")}`; }
  return axis.format === "count" ? Zoo.count(value) : String(+value.toPrecision(4));
};
Zoo.marks = ["m-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0z", "m-4.5,-4.5h9v9h-9z", "m0,-6l5.5,9.5h-11z", "m0,-6.2l6.2,6.2l-6.2,6.2l-6.2,-6.2z",
  "m0,6l5.5,-9.5h-11z", "m-2,-6h4v4h4v4h-4v4h-4v-4h-4v-4h4z", "m-6,-2.5l6,-3.5l6,3.5v5l-6,3.5l-6,-3.5z", "m-6,-3h12v6h-12z"];
Zoo.swatch = group => Zoo.element("svg:svg", { class: "swatch", viewBox: "0 0 16 16", "aria-hidden": "true" }, Zoo.element("svg:path", { class: `f${group}`, d: "M8,8" + Zoo.marks[group - 1] }));

Zoo.plot = (figure, options) => {
  const svg = (name, attributes, ...children) => Zoo.element(`svg:${name}`, attributes, ...children);
  const state = { points: [], groups: [], off: [], zoom: null, selected: [], front: false, ...options };
  const name = figure.querySelector("svg")?.getAttribute("aria-label") || "";
  const drawing = svg("svg", { tabindex: 0, role: "application", "aria-roledescription": "plot", "aria-label": `${name} Arrow keys go from point to point, Enter opens one, plus and minus zoom, 0 shows all.` });
  const tip = Zoo.element("div", { class: "tip", hidden: true }), told = Zoo.element("output", { class: "sr" });
  const tool = (text, label, act) => { const made = Zoo.element("button", { type: "button", "aria-label": label, title: label }, text); made.onclick = act; return made; };
  const reset = tool("Reset zoom", "Reset zoom", () => zoomTo(null));
  const tools = Zoo.element("div", { class: "plot-tools" }, tool("+", "Zoom in", () => zoomBy(.6)), tool("−", "Zoom out", () => zoomBy(1 / .6)), reset);
  const legend = Zoo.element("ul", { class: "legend", "aria-label": "Groups of the plot; a button hides its group or shows it again" });
  const box = Zoo.element("div", { class: "plot-box" }, drawing, tip);
  figure.replaceChildren(tools, box, legend, told);
  let current = null, drawn = [], across, up, floor, width, left = 56, top = 12, brush = null;

  const scale = (low, high, start, end, kind) => {
    const map = kind === "log" ? Math.log : value => value, back = kind === "log" ? Math.exp : value => value, span = map(high) - map(low);
    const to = value => start + (map(value) - map(low)) / span * (end - start);
    return Object.assign(to, { low, high, back: place => back(map(low) + (place - start) / (end - start) * span) });
  };
  const reach = (values, kind) => {
    const low = Math.min(...values), high = Math.max(...values);
    if (kind === "log") { const factor = Math.max((high / low) ** .04, 1.1); return [low / factor, high * factor]; }
    const margin = (high - low) * .04 || Math.abs(high) * .04 || 1;
    return [low - margin, high + margin];
  };
  const inGroups = () => state.points.filter(one => !state.off.includes(one.group));

  function draw() {
    width = Math.max(box.clientWidth, 280);
    const height = width < 600 ? Math.min(width * 1.1, 420) : Math.min(width * .53, 520);
    floor = height - 46;
    drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const known = inGroups(), all = known.length ? known : state.points, { x, y } = state;
    const ends = all.flatMap(one => [one.y, one.low ?? one.y, one.high ?? one.y]);
    const [x0, x1, y0, y1] = state.zoom || (all.length ? [...reach(all.map(one => one.x), x.kind), ...reach(ends, y.kind)] : [1, 10, 1, 10]);
    across = scale(x0, x1, left, width - 14, x.kind); up = scale(y0, y1, floor, top, y.kind);
    const better = axis => axis.label + ({ low: ", lower is better", high: ", higher is better" }[axis.better] || "");
    const ticks = (to, axis) => Zoo.ticks(to.low, to.high, axis.kind, axis === x && width < 600 ? 5 : 6).filter(value => value >= to.low && value <= to.high && (axis.format !== "month" || value === Math.round(value)));
    const text = (value, axis) => axis.format === "month" ? String(value) : Math.abs(value) >= 1e4 ? Zoo.count(value) : String(+value.toPrecision(6));
    const axes = [
      ...ticks(across, x).flatMap(value => [svg("path", { class: "grid", d: `M${across(value)},${top}V${floor}` }), svg("text", { x: across(value), y: floor + 17, "text-anchor": "middle" }, text(value, x))]),
      ...ticks(up, y).flatMap(value => [svg("path", { class: "grid", d: `M${left},${up(value)}H${width - 14}` }), svg("text", { x: left - 6, y: up(value) + 4, "text-anchor": "end" }, text(value, y))]),
      svg("path", { class: "axis", d: `M${left},${top}V${floor}H${width - 14}` }),
      svg("text", { class: "name", x: (left + width - 14) / 2, y: height - 7, "text-anchor": "middle" }, better(x)),
      svg("text", { class: "name", transform: `translate(14 ${(top + floor) / 2}) rotate(-90)`, "text-anchor": "middle" }, better(y)),
    ];
    drawn = known.filter(one => one.x >= x0 && one.x <= x1 && one.y >= y0 && one.y <= y1).sort((a, b) => a.x - b.x || a.y - b.y);
    const inside = value => Math.max(top, Math.min(floor, up(value))), labels = [];
    const marks = drawn.flatMap(one => {
      const at = [across(one.x), up(one.y)], chosen = state.selected.includes(one.id);
      if (chosen) labels.push(svg("text", { class: "chosen", x: at[0] + (at[0] > width * .7 ? -9 : 9), y: at[1] - 7, "text-anchor": at[0] > width * .7 ? "end" : null }, one.label));
      const bar = one.low == null || one.high == null ? [] : [svg("path", { class: `interval s${one.group}`, d: `M${at[0]},${inside(one.low)}V${inside(one.high)}` })];
      return [...bar, svg("path", { class: (one.hollow ? "hollow s" : "f") + one.group + (chosen ? " selected" : ""), d: `M${at}${Zoo.marks[one.group - 1]}` })];
    });
    drawing.replaceChildren(...axes, ...(state.front ? frontOf(known) : []), svg("g", { class: "marks" }, ...marks), ...labels);
    if (!drawn.length) drawing.append(svg("text", { x: (left + width) / 2, y: floor / 2, "text-anchor": "middle" }, "Nothing to show: no encoder has both values."));
    const counts = new Map();
    for (const one of state.points) counts.set(one.group, (counts.get(one.group) || 0) + 1);
    if (counts.size < 2) legend.replaceChildren();
    else legend.replaceChildren(...[...counts].sort((a, b) => a[0] - b[0]).map(([group, n]) => {
      const button = Zoo.element("button", { type: "button", "aria-pressed": String(!state.off.includes(group)), "data-group": group }, Zoo.swatch(group), `${state.groups[group - 1]} (${n})`);
      button.onclick = () => {
        state.off = state.off.includes(group) ? state.off.filter(one => one !== group) : [...state.off, group].sort();
        changed();
        legend.querySelector(`[data-group="${group}"]`)?.focus();
      };
      return Zoo.element("li", {}, button);
    }));
    reset.disabled = !state.zoom;
    point(drawn.includes(current) ? current : null);
  }
  function frontOf(known) {
    const sign = axis => axis.better === "high" ? -1 : 1, best = [];
    for (const one of [...known].sort((a, b) => sign(state.x) * (a.x - b.x) || sign(state.y) * (a.y - b.y))) if (!best.length || sign(state.y) * (one.y - best.at(-1).y) < 0) best.push(one);
    const kept = (to, value) => Math.max(-1e4, Math.min(1e4, to(value)));
    return best.length ? [svg("path", { class: "front", d: `M${kept(across, best[0].x)},${kept(up, best[0].y)}` + best.slice(1).map(one => `H${kept(across, one.x)}V${kept(up, one.y)}`).join("") })] : [];
  }
  const changed = () => { draw(); state.onChange?.({ off: state.off, zoom: state.zoom }); };
  function zoomTo(zoom) { state.zoom = zoom && zoom.map(value => +value.toPrecision(5)); changed(); }
  function zoomBy(factor) {
    const at = current ? [across(current.x), up(current.y)] : [(left + width - 14) / 2, (top + floor) / 2];
    const x = [left, width - 14].map(end => across.back(at[0] + (end - at[0]) * factor)), y = [floor, top].map(end => up.back(at[1] + (end - at[1]) * factor));
    zoomTo([...x, ...y]);
  }
  /* Shows what one point is, or hides the tooltip. */
  function point(one, aloud = false) {
    if (one !== current || aloud) state.onHover?.(one);
    current = one;
    tip.hidden = !one;
    drawing.querySelector(".now")?.remove();
    if (!one) return;
    const at = [across(one.x), up(one.y)], interval = one.low == null || one.high == null ? "" : ` (${Zoo.shown(one.low, state.y)} to ${Zoo.shown(one.high, state.y)})`;
    const lines = [`${state.y.label}: ${Zoo.shown(one.y, state.y)}${interval}`, `${state.x.label}: ${Zoo.shown(one.x, state.x)}`, state.groups[one.group - 1], one.note].filter(Boolean);
    tip.replaceChildren(Zoo.element("strong", {}, one.label), ...lines.map(line => Zoo.element("div", {}, line)));
    drawing.append(svg("circle", { class: "now", cx: at[0], cy: at[1], r: 9 }));
    tip.style.left = `${Math.max(0, Math.min(at[0] + 12, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${at[1] > floor / 2 ? at[1] - tip.offsetHeight - 12 : at[1] + 14}px`;
    if (aloud) told.textContent = [one.label, ...lines].join(", ");
  }
  const open = one => { if (state.onPick) state.onPick(one); else if (one.href) location.href = one.href; };
  const place = event => { const area = drawing.getBoundingClientRect(), ratio = width / area.width; return [(event.clientX - area.left) * ratio, (event.clientY - area.top) * ratio]; };
  function nearest([x, y]) {
    let best = null, least = 26 ** 2;
    for (const one of drawn) { const away = (across(one.x) - x) ** 2 + (up(one.y) - y) ** 2; if (away < least) { best = one; least = away; } }
    return best;
  }
  drawing.addEventListener("pointerdown", event => {
    if (event.button) return;
    brush = { from: place(event), was: current };
    if (event.pointerType !== "touch") drawing.setPointerCapture(event.pointerId);
  });
  drawing.addEventListener("pointermove", event => {
    const at = place(event);
    if (!brush || event.pointerType === "touch") return point(nearest(at));
    const x = [brush.from[0], at[0]].map(value => Math.max(left, Math.min(width - 14, value))).sort((a, b) => a - b), y = [brush.from[1], at[1]].map(value => Math.max(top, Math.min(floor, value))).sort((a, b) => a - b);
    if (!brush.mark && x[1] - x[0] < 6 && y[1] - y[0] < 6) return;
    if (!brush.mark) { point(null); drawing.append(brush.mark = svg("rect", { class: "brush" })); }
    brush.area = [x, y];
    for (const [key, value] of Object.entries({ x: x[0], y: y[0], width: x[1] - x[0], height: y[1] - y[0] })) brush.mark.setAttribute(key, value);
  });
  drawing.addEventListener("pointerup", event => {
    const ended = brush;
    brush = null;
    if (!ended) return;
    if (ended.mark) {
      const [x, y] = ended.area;
      ended.mark.remove();
      if (x[1] - x[0] > 8 && y[1] - y[0] > 8) zoomTo([across.back(x[0]), across.back(x[1]), up.back(y[1]), up.back(y[0])]);
      return;
    }
    const one = nearest(place(event));
    if (one && (event.pointerType !== "touch" || one === ended.was)) open(one); else point(one);
  });
  const stop = () => { brush?.mark?.remove(); brush = null; };
  drawing.addEventListener("pointercancel", stop);
  drawing.addEventListener("pointerleave", event => { if (!brush && event.pointerType !== "touch") point(null); });
  drawing.addEventListener("blur", () => point(null));
  drawing.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = { ArrowRight: ["x", 1], ArrowLeft: ["x", -1], ArrowUp: ["y", 1], ArrowDown: ["y", -1] }[event.key];
    const order = by?.[0] === "y" ? [...drawn].sort((a, b) => a.y - b.y || a.x - b.x) : drawn;
    if (by) point(current ? order[Math.max(0, Math.min(order.length - 1, order.indexOf(current) + by[1]))] : order[0] ?? null, true);
    else if (event.key === "Home" || event.key === "End") point(drawn.at(event.key === "Home" ? 0 : -1) ?? null, true);
    else if (event.key === "Enter" && current) open(current);
    else if (event.key === "+" || event.key === "=") zoomBy(.6);
    else if (event.key === "-") zoomBy(1 / .6);
    else if (event.key === "0") zoomTo(null);
    else if (event.key === "Escape") { stop(); point(null); } else return;
    event.preventDefault();
  });
  new ResizeObserver(() => { if (Math.abs(box.clientWidth - width) > 1) draw(); }).observe(box);
  draw();
  return { state, update(changes) { Object.assign(state, changes); draw(); } };
};
