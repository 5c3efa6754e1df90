/* --- plot: takes over a figure that scatter.py drew; hover, arrow keys, zoom by brushing, a legend that filters ---
 * Zoo.plot(figure, { points: [{id, label, href, x, y, group (1 to 8), low, high, hollow, note}], x and y: {label, kind, format, better} as in scatter.py,
 *   groups: [names], off: [hidden groups], zoom: [x0, x1, y0, y1] or null, selected: [ids], front: true for the line of unbeaten points,
 *   onHover(point or null), onPick(point), onChange({off, zoom}) }) returns { state, update(changes) } */
Zoo.ticks = (low, high, kind, most) => {
  if (kind === "log") for (const factors of [[1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const found = [];
    for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) for (const factor of factors) found.push(+(factor * power).toPrecision(6));
    const inside = found.filter(value => value >= low && value <= high);
    if (inside.length > 1 && inside.length <= most) return inside;
  }
  for (let power = 10 ** (Math.floor(Math.log10(high - low)) - 2); ; power *= 10) for (const step of [power, 2 * power, 5 * power]) {
    const first = Math.ceil(low / step), n = Math.floor(high / step) - first + 1;
    if (n < most) return Array.from({ length: n }, (_, place) => +((first + place) * step).toPrecision(9));
  }
};
Zoo.count = value => {
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (value >= .9995 * size) return +(value / size).toPrecision(3) + letter;
  return String(+value.toPrecision(4));
};
Zoo.shown = (value, { format }) => {
  const months = Math.round(value * 12);
  return format === "percent" ? value.toFixed(1) : format === "count" ? Zoo.count(value) : format === "month" ? `${Math.floor(months / 12)}-${String(months % 12 + 1).padStart(2, "0")}` : String(+value.toPrecision(4));
};
Zoo.marks = ["m-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0z", "m-4.5,-4.5h9v9h-9z", "m0,-6l5.5,9.5h-11z", "m0,-6.2l6.2,6.2l-6.2,6.2l-6.2,-6.2z", "m0,6l5.5,-9.5h-11z",
  "m-2,-6h4v4h4v4h-4v4h-4v-4h-4v-4h4z", "m-6,-2.5l6,-3.5l6,3.5v5l-6,3.5l-6,-3.5z", "m-6,-3h12v6h-12z"];
Zoo.plot = (figure, options) => {
  const make = Zoo.element, svg = (name, attributes, text) => make(`svg:${name}`, attributes, text), clamp = (value, low, high) => Math.max(low, Math.min(high, value));
  const state = { points: [], groups: [], off: [], selected: [], zoom: null, ...options };
  const drawing = svg("svg", { tabindex: 0, role: "application", "aria-roledescription": "plot", "aria-label": `${figure.querySelector("svg")?.getAttribute("aria-label") ?? ""} Arrow keys visit points, Enter opens one, plus and minus zoom, 0 shows all.` });
  const tip = make("div", { class: "tip", hidden: true }), told = make("output", { class: "sr" }), legend = make("ul", { class: "legend" }), box = make("div", { class: "plot-box" }, drawing, tip);
  const button = (act, attributes, ...inside) => { const made = make("button", { type: "button", ...attributes }, ...inside); made.onclick = act; return made; };
  const reset = button(() => zoom(null), {}, "Reset zoom");
  figure.replaceChildren(box, make("div", { class: "plot-tools" }, button(() => zoomBy(.6), { "aria-label": "Zoom in" }, "+"), button(() => zoomBy(1.6), { "aria-label": "Zoom out" }, "−"), reset), legend, told);
  const left = 48, top = 30;
  let current, drawn, across, up, width, right, floor, brush;

  const scaled = (values, zoomed, start, end, kind) => {
    const to = kind === "log" ? Math.log : Number, from = kind === "log" ? Math.exp : Number;
    let [low, high] = zoomed.map(to);
    if (!zoomed.length) {
      [low, high] = values.length ? [Math.min(...values), Math.max(...values)].map(to) : [0, 1];
      const margin = (high - low) * .04 || Math.abs(low) * .04 || 1;
      low -= margin; high += margin;
    }
    return Object.assign(value => start + (to(value) - low) / (high - low) * (end - start), { low: from(low), high: from(high), back: place => from(low + (place - start) / (end - start) * (high - low)) });
  };
  const titled = axis => axis.label + ({ low: ", lower is better", high: ", higher is better" }[axis.better] ?? "");
  const inside = one => one.x >= across.low && one.x <= across.high && one.y >= up.low && one.y <= up.high;
  function draw() {
    const { x, y, points, off, zoom: area, selected } = state, known = points.filter(one => !off.includes(one.group));
    width = Math.max(box.clientWidth, 280); right = width - 14; floor = (width < 600 ? Math.min(width * 1.1, 420) : Math.min(width * .53, 520)) - 42;
    drawing.setAttribute("viewBox", `0 0 ${width} ${floor + 42}`);
    across = scaled(known.map(one => one.x), area?.slice(0, 2) ?? [], left, right, x.kind);
    up = scaled(known.flatMap(one => [one.y, one.low ?? one.y, one.high ?? one.y]), area?.slice(2) ?? [], floor, top, y.kind);
    drawn = known.filter(inside).sort((a, b) => a.x - b.x || a.y - b.y);
    const parts = [svg("path", { class: "axis", d: `M${left},${top}V${floor}H${right}` }), svg("text", { class: "name", x: 2, y: 14 }, titled(y)), svg("text", { class: "name", x: right, y: floor + 36, "text-anchor": "end" }, titled(x))];
    for (const [axis, scale] of [[x, across], [y, up]]) for (const value of Zoo.ticks(scale.low, scale.high, axis.kind, width < 600 ? 5 : 7)) {
      const at = scale(value), text = axis.format === "month" ? value : Math.abs(value) < 1e4 ? value : Zoo.count(value);
      if (axis.format !== "month" || value % 1 === 0) parts.push(svg("path", { class: "grid", d: axis === x ? `M${at},${top}V${floor}` : `M${left},${at}H${right}` }), svg("text", axis === x ? { x: at, y: floor + 18, "text-anchor": "middle" } : { x: left - 6, y: at + 4, "text-anchor": "end" }, text));
    }
    if (state.front) parts.push(frontOf(known));
    const marks = svg("g", { class: "marks" }), labels = [];
    for (const one of drawn) {
      const at = [across(one.x), up(one.y)], chosen = selected.includes(one.id), ends = [one.low, one.high].map(end => clamp(up(end), top, floor)), side = at[0] > width * .7;
      if (one.low != null && one.high != null) marks.append(svg("path", { class: `interval s${one.group}`, d: `M${at[0]},${ends[0]}V${ends[1]}` }));
      marks.append(svg("path", { class: `${one.hollow ? "hollow s" : "f"}${one.group}${chosen ? " selected" : ""}`, d: `M${at}${Zoo.marks[one.group - 1]}` }));
      if (chosen) labels.push(svg("text", { class: "chosen", x: at[0] + (side ? -9 : 9), y: at[1] - 7, "text-anchor": side ? "end" : null }, one.label));
    }
    if (!drawn.length) parts.push(svg("text", { x: width / 2, y: floor / 2, "text-anchor": "middle" }, "No encoder to show"));
    drawing.replaceChildren(...parts, marks, ...labels);
    const groups = [...new Set(points.map(one => one.group))].sort();
    legend.replaceChildren(...groups.length < 2 ? [] : groups.map(group => make("li", {}, button(() => {
      state.off = off.includes(group) ? off.filter(one => one !== group) : [...off, group];
      changed();
      legend.querySelector(`[data-group="${group}"]`).focus();
    }, { "aria-pressed": String(!off.includes(group)), "data-group": group }, make("svg:svg", { class: "swatch", viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { class: `f${group}`, d: "M8,8" + Zoo.marks[group - 1] })), `${state.groups[group - 1]} (${points.filter(one => one.group === group).length})`))));
    reset.disabled = !area;
    show(drawn.find(one => one.id === current?.id));
  }
  function frontOf(known) {
    const signs = [state.x, state.y].map(axis => axis.better === "high" ? -1 : 1);
    let best = Infinity, path = "";
    for (const one of [...known].sort((a, b) => signs[0] * (a.x - b.x) || signs[1] * (a.y - b.y))) if (signs[1] * one.y < best) {
      const at = [clamp(across(one.x), left, right), clamp(up(one.y), top, floor)];
      path += path ? `H${at[0]}V${at[1]}` : `M${at}`;
      best = signs[1] * one.y;
    }
    return svg("path", { class: "front", d: path });
  }
  const changed = () => { draw(); state.onChange?.({ off: state.off, zoom: state.zoom }); };
  const zoom = area => { state.zoom = area && area.map(value => +value.toPrecision(5)); changed(); };
  const zoomBy = factor => {
    const [x, y] = current ? [across(current.x), up(current.y)] : [(left + right) / 2, (top + floor) / 2], ends = (scale, at, ...places) => places.map(place => scale.back(at + (place - at) * factor));
    zoom([...ends(across, x, left, right), ...ends(up, y, floor, top)]);
  };
  /* Shows what a point is, or hides the tooltip; aloud for a screen reader too. */
  function show(one, aloud) {
    if (one?.id !== current?.id) state.onHover?.(one ?? null);
    current = one;
    tip.hidden = !one;
    drawing.querySelector(".now")?.remove();
    if (!one) return;
    const x = across(one.x), y = up(one.y), range = one.low != null && one.high != null ? ` (${Zoo.shown(one.low, state.y)} to ${Zoo.shown(one.high, state.y)})` : "";
    const lines = [`${state.y.label}: ${Zoo.shown(one.y, state.y)}${range}`, `${state.x.label}: ${Zoo.shown(one.x, state.x)}`, state.groups[one.group - 1], one.note].filter(Boolean);
    tip.replaceChildren(make("strong", {}, one.label), ...lines.map(line => make("div", {}, line)));
    drawing.append(svg("circle", { class: "now", cx: x, cy: y, r: 9 }));
    tip.style.left = `${clamp(x + 12, 0, width - tip.offsetWidth - 4)}px`;
    tip.style.top = `${y > floor / 2 ? y - tip.offsetHeight - 12 : y + 14}px`;
    if (aloud) told.textContent = [one.label, ...lines].join(", ");
  }
  const open = one => state.onPick ? state.onPick(one) : one.href && (location.href = one.href);
  const place = event => { const area = drawing.getBoundingClientRect(); return [(event.clientX - area.left) * width / area.width, (event.clientY - area.top) * width / area.width]; };
  const nearest = ([x, y]) => {
    const away = one => Math.hypot(across(one.x) - x, up(one.y) - y), best = drawn.reduce((best, one) => !best || away(one) < away(best) ? one : best, null);
    return best && away(best) < 26 ? best : undefined;
  };
  const on = (names, act) => names.split(" ").forEach(name => drawing.addEventListener(name, act));
  on("pointerdown", event => {
    if (event.button) return;
    brush = { from: place(event), was: current };
    if (event.pointerType !== "touch") drawing.setPointerCapture(event.pointerId);
  });
  on("pointermove", event => {
    const at = place(event);
    if (!brush || event.pointerType === "touch") return show(nearest(at));
    const [x, y] = [[left, right], [top, floor]].map((ends, side) => [brush.from[side], at[side]].map(value => clamp(value, ...ends)).sort((a, b) => a - b));
    if (!brush.mark && x[1] - x[0] + y[1] - y[0] < 8) return;
    show();
    brush.mark?.remove();
    Object.assign(brush, { x, y, mark: svg("path", { class: "brush", d: `M${x[0]},${y[0]}H${x[1]}V${y[1]}H${x[0]}z` }) });
    drawing.append(brush.mark);
  });
  on("pointerup", event => {
    const ended = brush, one = nearest(place(event));
    stop();
    if (!ended?.mark) ended && one && (event.pointerType !== "touch" || one === ended.was) ? open(one) : show(one);
    else if (ended.x[1] - ended.x[0] > 8 && ended.y[1] - ended.y[0] > 8) zoom([...ended.x.map(across.back), ...ended.y.map(up.back).reverse()]);
  });
  const stop = () => { brush?.mark?.remove(); brush = null; };
  on("pointercancel", stop);
  on("pointerleave blur", () => brush || show());
  on("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { key } = event, [axis, step] = { ArrowRight: ["x", 1], ArrowLeft: ["x", -1], ArrowUp: ["y", 1], ArrowDown: ["y", -1] }[key] ?? [];
    const order = axis === "y" ? [...drawn].sort((a, b) => a.y - b.y) : drawn;
    if (step) show(current ? order[clamp(order.indexOf(current) + step, 0, order.length - 1)] : order[0], true);
    else if (key === "Enter" && current) open(current);
    else if (key === "+" || key === "=") zoomBy(.6);
    else if (key === "-") zoomBy(1.6);
    else if (key === "0") zoom(null);
    else if (key === "Escape") { stop(); show(); } else return;
    event.preventDefault();
  });
  new ResizeObserver(() => Math.abs(box.clientWidth - width) > 1 && draw()).observe(box);
  draw();
  return { state, update(changes) { Object.assign(state, changes); draw(); } };
};
