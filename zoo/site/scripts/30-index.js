/* --- the first page: filters that act on plot and table, axes, selection --- */
Zoo.encoders = () => ENCODERS.rows.map(row => Object.fromEntries(ENCODERS.fields.map((name, place) => [name, row[place]])));
Zoo.pages.index = () => {
  const byId = id => document.getElementById(id), all = Zoo.encoders(), filters = byId("filters"), axes = byId("axes");
  const words = text => (text || "").replaceAll("_", " "), month = text => text ? +text.slice(0, 4) + (text.slice(5) - 1) / 12 : null;
  const modes = byId("plot").dataset.groups.split("|"), measured = ["100%", "30-shot", "1%", "5-shot", "3-shot"];
  const kinds = [...axes.score.options].map(one => one.value).filter(value => !measured.includes(value)), most = 6;
  for (const one of all) {
    one.group = (modes.indexOf(one.mode) + 1) || modes.length;
    one.measured = measured.some(name => one[name] != null);
  }
  const xs = {
    parameters: { axis: { label: "parameters", kind: "log", format: "count" }, of: one => one.n_parameters },
    dim: { axis: { label: "feature dimension", kind: "log", format: "count" }, of: one => one.dim },
    gflops: { axis: { label: "GFLOPs of an image", kind: "log", format: "number" }, of: one => one.gflops },
    released: { axis: { label: "month of release", kind: "linear", format: "month" }, of: one => month(one.released) },
  };
  const textOf = one => one.text ??= [one.id, one.mode, one.method, one.card_family, one.network, one.licence, one.domain, ...one.image_sets || []].join(" ").toLowerCase();
  const defaults = { score: axes.score.value, x: "parameters" }, order = ["mode", "family", "commercial", "access"];
  let choices = {}, chosen = [], kept = all, table, plot;

  const score = () => {
    const name = axes.score.value, words = axes.score.selectedOptions[0]?.textContent.replace(/ \(\d+\)$/, "");
    return measured.includes(name) ? { axis: { label: `error with ${words}, %`, kind: "linear", format: "percent", better: "low" }, of: one => one[name] }
      : { axis: { label: `reported accuracy, ${name}, %`, kind: "linear", format: "percent", better: "high" }, of: one => one.reported[name] ? parseFloat(one.reported[name]) : null, note: one => one.reported[name] };
  };
  function draw() {
    const y = score(), x = xs[axes.x.value];
    const points = kept.filter(one => y.of(one) != null && x.of(one) != null).map(one => ({
      id: one.id, label: one.id, href: `encoders/${one.file}.html`, x: x.of(one), y: y.of(one), group: one.group, hollow: one.mine, note: y.note && `printed: ${y.note(one)}`,
    }));
    const changes = { points, x: x.axis, y: y.axis, groups: modes.map(words), selected: chosen, off: choices.off ? choices.off.split(",").map(Number) : [], zoom: choices.zoom ? choices.zoom.split(",").map(Number) : null };
    if (plot) plot.update(changes);
    else plot = Zoo.plot(byId("plot").querySelector("figure"), { ...changes, onChange: ({ off, zoom }) => { choices.off = off.join(","); choices.zoom = zoom ? zoom.join(",") : ""; save(); } });
  }
  const save = () => Zoo.state.write({ ...choices, e: chosen.join(",") }, defaults);
  function filter() {
    const asked = (choices.q || "").toLowerCase().split(/\s+/).filter(Boolean), max = choices.max ? choices.max * 1e6 : Infinity;
    const keep = one => order.every(name => !choices[name] || one[name] === choices[name]) && one.n_parameters <= max && (!choices.measured || one.measured) && asked.every(word => textOf(one).includes(word));
    kept = all.filter(keep);
    byId("count").textContent = `${kept.length.toLocaleString("en")} of ${all.length.toLocaleString("en")} encoders`;
    const here = new Set(kept);
    table.filter(place => here.has(all[place]));
    draw();
  }
  function show(next) {
    choices = next;
    chosen = (next.e || "").split(",").filter(id => all.some(one => one.id === id)).slice(0, most);
    delete choices.e;
    for (const control of [...filters.elements, ...axes.elements]) if (control.name) control.type === "checkbox" ? control.checked = !!choices[control.name] : control.value = choices[control.name] ?? defaults[control.name] ?? "";
    filter();
  }
  table = Zoo.table(document.querySelector(".encoders"), {
    order: Zoo.state.read().order,
    onOrder: order => { choices.order = order; save(); },
    values: (place, name) => {
      const one = all[place], kind = kinds.findIndex(kind => one.reported[kind]);
      return { encoder: one.id.toLowerCase(), training: words(one.method || one.mode), network: one.network, parameters: one.n_parameters, dim: one.dim, error: one["100%"], error1: one["1%"], licence: one.licence, access: one.access, released: one.released,
        reported: kind < 0 ? null : kind * 1000 - parseFloat(one.reported[kinds[kind]]) }[name];
    },
  });
  const read = form => event => { if (form === axes) choices.zoom = ""; for (const control of form.elements) if (control.name) choices[control.name] = control.type === "checkbox" ? (control.checked ? "1" : "") : control.value; save(); form === axes ? draw() : filter(); };
  filters.addEventListener("input", read(filters)); axes.addEventListener("input", read(axes));
  filters.addEventListener("submit", event => event.preventDefault());
  byId("clear").onclick = () => { for (const name of ["q", ...order, "max", "measured"]) choices[name] = ""; show({ ...choices, e: chosen.join(",") }); save(); };
  Zoo.state.watch(next => { show(next); table.order(next.order || ""); });
  show(Zoo.state.read());
  performance.mark("zoo-interactive");
};
